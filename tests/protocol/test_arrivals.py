"""Chunks put in order around those that arrived damaged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.protocol.arrivals import Arrivals
from streamlink.protocol.frames import Chunk
from tests.support.machines import zeros

LIMIT = 1000


def ten(sequence: int, offset: int, repeats: int = 0) -> Chunk:
    return Chunk(sequence, offset, zeros(10), repeats)


def arrived(*chunks: Chunk | None) -> Arrivals:
    """Return arrivals after ``chunks``; None is a damaged one."""
    arrivals = Arrivals(max_damaged=100)
    for chunk in chunks:
        if chunk is None:
            arrivals.take_damaged()
        else:
            assert arrivals.fault_in(chunk, limit=LIMIT) == ""
            arrivals.take(chunk)
    return arrivals


def test_a_chunk_in_order_is_delivered_at_once() -> None:
    arrivals = Arrivals(max_damaged=1)
    assert [chunk.offset for chunk in arrivals.take(ten(0, 0))] == [0]
    assert arrivals.received == 10


def test_what_comes_behind_a_damaged_chunk_waits_for_its_repair() -> None:
    arrivals = arrived(None, ten(1, 10), ten(2, 20))
    assert (arrivals.received, len(arrivals)) == (0, 2)
    assert [chunk.offset for chunk in arrivals.take(ten(3, 0, repeats=1))] == [0, 10, 20]
    assert (arrivals.received, len(arrivals), arrivals.missing) == (30, 0, 0)


def test_damaged_frames_are_asked_for_by_the_receivers_own_count() -> None:
    arrivals = arrived(ten(0, 0))
    assert [arrivals.take_damaged(), arrivals.take_damaged()] == [1, 2]


def test_too_many_damaged_in_a_row_are_not_asked_for() -> None:
    arrivals = Arrivals(max_damaged=1)
    assert arrivals.take_damaged() == 0
    assert arrivals.take_damaged() is None
    assert arrivals.damaged_in_a_row == 2


def test_a_whole_chunk_ends_a_row_of_damaged_ones() -> None:
    assert arrived(None, None, ten(2, 0, repeats=2)).damaged_in_a_row == 0


@pytest.mark.parametrize(
    ("before", "chunk", "fault"),
    [
        ([], ten(1, 0), "where 0 was due"),
        ([ten(0, 0)], ten(1, 0), "byte 0 twice"),
        ([None, ten(1, 10)], ten(2, 10), "byte 10 twice"),
        ([], ten(0, 0, repeats=1), "without being asked"),
        ([None], ten(1, 0, repeats=2), "without being asked"),
        ([], ten(0, 10), "left out bytes 0 to 10"),
        ([None], ten(1, 10, repeats=1), "left out bytes 0 to 10"),
    ],
)
def test_a_sender_that_breaks_the_order_is_told_how(
    before: list[Chunk | None], chunk: Chunk, fault: str
) -> None:
    assert fault in arrived(*before).fault_in(chunk, limit=LIMIT)


def test_chunks_that_overlap_behind_a_hole_cannot_fill_more_than_the_window() -> None:
    arrivals, sequence = arrived(None), 1
    while not (fault := arrivals.fault_in(ten(sequence, sequence), limit=100)):
        arrivals.take(ten(sequence, sequence))
        sequence += 1
    assert "twice" in fault
    assert len(arrivals) * 10 <= 100


def test_an_overlap_shows_when_the_hole_is_closed() -> None:
    arrivals = arrived(None, ten(1, 10), ten(2, 15))
    assert not arrivals.is_overlapping
    arrivals.take(ten(3, 0, repeats=1))
    assert arrivals.is_overlapping


def test_a_lost_call_keeps_what_is_in_order_and_counts_anew() -> None:
    arrivals = arrived(ten(0, 0), None, ten(2, 20))
    arrivals.lose_call()
    assert (arrivals.received, len(arrivals), arrivals.missing) == (10, 0, 0)
    assert arrivals.fault_in(ten(0, 10), limit=LIMIT) == ""


@given(st.lists(st.sets(st.integers(0, 19), max_size=6), max_size=4))
def test_any_damage_that_is_repaired_ends_in_order(rounds: list[set[int]]) -> None:
    """Each round damages some of the chunks that are sent in it; the last is clean."""
    arrivals, delivered, sequence = Arrivals(max_damaged=1000), list[int](), 0
    due = dict.fromkeys(range(0, 200, 10), 0)
    for bad in [*rounds, set()]:
        still = {}
        for index, (offset, repeats) in enumerate(due.items()):
            if index in bad:
                assert arrivals.take_damaged() == sequence
                still[offset] = repeats + 1
            else:
                chunk = ten(sequence, offset, repeats)
                assert arrivals.fault_in(chunk, limit=LIMIT) == ""
                delivered += [chunk.offset for chunk in arrivals.take(chunk)]
            sequence += 1
        due = still
    assert delivered == list(range(0, 200, 10))
