"""Fixtures that several modules of these tests begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.attacks import CONFIG, Attack
from tests.support.hostile import HostileClient
from tests.support.peers import Federation


@pytest.fixture(scope="module")
def attack() -> Iterator[Attack]:
    with Federation(CONFIG) as federation, HostileClient(federation.address) as hostile:
        yield Attack(federation, hostile)
