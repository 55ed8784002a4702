"""Fixtures that several modules of these tests begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.spooling import Spooling


@pytest.fixture
def spooling(tmp_path: Path) -> Iterator[Spooling]:
    made = Spooling(tmp_path / "spool")
    yield made
    made.close()
