"""The environments of frameworks, as fixtures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.integrations.environments import NoEnvironment, build

__all__ = ["environment_of"]


def environment_of(framework: str) -> Callable[[], Path]:
    """Return a fixture: the Python of a framework's environment; where there is none, it skips."""

    @pytest.fixture(scope="module")
    def python() -> Path:
        try:
            return build(framework)
        except NoEnvironment as error:
            pytest.skip(str(error))

    return python
