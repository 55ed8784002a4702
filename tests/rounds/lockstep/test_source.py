"""An update that arrives while it is gathered: when its credit goes back."""

from __future__ import annotations

from streamlink.rounds.lockstep.source import LiveSource
from tests.support.arriving import arrived

DATA = bytes(range(250)) * 12
CHUNK_BYTES = 1000


def use(source: LiveSource, nbytes: int) -> int:
    """Use the next bytes; returns how many of the update's have their credit returned."""
    source.take(nbytes)
    source.release(nbytes)
    return source.model.consumed_bytes


def test_credit_goes_back_chunk_by_chunk() -> None:
    source = arrived(DATA, CHUNK_BYTES)
    assert [use(source, 400) for _ in range(7)] == [0, 0, 1000, 1000, 2000, 2000, 2000]
    assert use(source, 200) == len(DATA)


def test_a_piece_of_several_chunks_returns_the_credit_of_those_that_end_in_it() -> None:
    source = arrived(DATA, CHUNK_BYTES)
    assert use(source, 2400) == 2000
    assert use(source, 600) == 3000


def test_all_credit_is_returned_before_more_is_waited_for() -> None:
    source = arrived(DATA, CHUNK_BYTES)
    use(source, 400)
    source.fetch(0.0)
    assert source.model.consumed_bytes == 400
    assert [use(source, 300) for _ in range(3)] == [400, 1000, 1000]
