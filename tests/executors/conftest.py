"""Fixtures that several modules of these tests begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.peers import Federation


@pytest.fixture
def federation() -> Iterator[Federation]:
    with Federation() as federation:
        yield federation
