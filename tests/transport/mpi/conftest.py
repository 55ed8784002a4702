"""Fixtures that several modules of these tests begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.mpi import MpiEnds, mpi_ends


@pytest.fixture
def ends() -> Iterator[MpiEnds]:
    with mpi_ends() as ends:
        yield ends
