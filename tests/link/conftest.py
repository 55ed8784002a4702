"""Fixtures that several modules of these tests begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.exchanges import Asked
from tests.support.peers import Federation
from tests.support.serving import Asking, asking_ends


@pytest.fixture
def asked() -> Iterator[Asked]:
    asked = Asked()
    yield asked
    asked.close()


@pytest.fixture
def asking() -> Iterator[type[Asking]]:
    yield from asking_ends()


@pytest.fixture
def federation() -> Iterator[Federation]:
    with Federation() as federation:
        yield federation
