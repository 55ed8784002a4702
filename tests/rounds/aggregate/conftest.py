"""Fixtures that several modules of these tests begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.gathering import Gathering


@pytest.fixture
def opened() -> Iterator[list[Gathering]]:
    made: list[Gathering] = []
    yield made
    for gathering in made:
        gathering.close()
