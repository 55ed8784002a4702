"""An update that arrives while it is gathered: when its credit goes back."""

from __future__ import annotations

import pytest

from streamlink.rounds.lockstep.source import LiveSource
from tests.support.arriving import arrived
from tests.support.virtual_clock import VirtualClock

DATA = bytes(range(250)) * 12
CHUNK_BYTES = 1000


@pytest.fixture
def time() -> VirtualClock:
    return VirtualClock(100.0)


@pytest.fixture
def source(time: VirtualClock) -> LiveSource:
    return arrived(DATA, CHUNK_BYTES, clock=time)


def use(source: LiveSource, nbytes: int) -> int:
    """Use the next bytes; returns how many of the update's have their credit returned."""
    source.take(nbytes)
    source.release(nbytes)
    return source.model.consumed_bytes


def test_credit_goes_back_chunk_by_chunk(source: LiveSource) -> None:
    use(source, 1000)
    assert [use(source, 400) for _ in range(4)] == [1000, 1000, 2000, 2000]
    assert use(source, 400) == len(DATA)


def test_a_piece_of_several_chunks_returns_the_credit_of_those_that_end_in_it(
    source: LiveSource,
) -> None:
    use(source, 1000)
    assert use(source, 1400) == 2000
    assert use(source, 600) == 3000


def test_all_credit_is_returned_before_more_is_waited_for(source: LiveSource) -> None:
    use(source, 1000)
    assert use(source, 400) == 1000
    source.fetch(0.0)
    assert source.model.consumed_bytes == 1400
    assert [use(source, 300) for _ in range(3)] == [1400, 2000, 2000]


def test_a_chunk_that_is_used_slowly_returns_its_credit_bit_by_bit(
    source: LiveSource, time: VirtualClock
) -> None:
    for used in range(10, 300, 10):
        time.now += 1.0
        assert use(source, 10) == used
