"""Fixtures that several modules of these tests begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.objects import Exchange


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    with Exchange() as made:
        yield made
