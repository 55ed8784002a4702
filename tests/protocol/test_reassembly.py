"""Chunks in any order, put back in order: gaps, duplicates, overlaps, ranges, reserved places."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamlink.protocol.frames import Chunk
from streamlink.protocol.reassembly import RangeStatus, Reassembly
from tests.support.machines import zeros


def ten(offset: int) -> Chunk:
    return Chunk(0, offset, zeros(10))


def holding(*offsets: int) -> Reassembly:
    reassembly = Reassembly()
    for offset in offsets:
        reassembly.add(ten(offset))
    return reassembly


def test_a_chunk_in_order_is_delivered_at_once() -> None:
    reassembly = Reassembly()
    assert reassembly.add(ten(0)) == [ten(0)]
    assert (reassembly.received, reassembly.has_gap) == (10, False)


def test_what_comes_behind_a_gap_waits_until_it_is_closed() -> None:
    reassembly = holding(10, 30, 20)
    assert (reassembly.received, len(reassembly)) == (0, 3)
    assert [chunk.offset for chunk in reassembly.add(ten(0))] == [0, 10, 20, 30]
    assert (reassembly.received, reassembly.has_gap) == (40, False)


def test_bytes_that_are_here_are_a_duplicate_wherever_they_lie() -> None:
    reassembly = holding(0, 20)
    assert reassembly.status_of(0, 10) is RangeStatus.DUPLICATE
    assert reassembly.status_of(2, 9) is RangeStatus.DUPLICATE
    assert reassembly.status_of(20, 30) is RangeStatus.DUPLICATE


def test_a_range_of_which_part_is_here_is_an_overlap() -> None:
    reassembly = holding(0, 20)
    for start, end in [(5, 15), (10, 21), (20, 31), (25, 40), (15, 35)]:
        assert reassembly.status_of(start, end) is RangeStatus.OVERLAP
    for start, end in [(10, 20), (30, 40)]:
        assert reassembly.status_of(start, end) is RangeStatus.NEW


def test_ranges_that_touch_are_one_and_only_so_many_are_listed() -> None:
    reassembly = holding(20, 30, 50, 70)
    assert reassembly.ranges(3) == ((20, 40), (50, 60), (70, 80))
    assert reassembly.ranges(1) == ((20, 40),)


def test_memory_is_promised_to_one_reader_at_a_time() -> None:
    reassembly = holding(0)
    assert reassembly.reserve(10, 20)
    assert not reassembly.reserve(15, 25)
    assert not reassembly.reserve(0, 10)
    assert reassembly.reserve(20, 30)
    reassembly.cancel(10)
    assert reassembly.reserve(10, 20)
    reassembly.add(ten(10))
    assert reassembly.received == 20


@given(st.permutations(range(0, 200, 10)), st.lists(st.integers(0, 19), max_size=10))
def test_any_order_ends_in_order_whatever_comes_twice(order: list[int], again: list[int]) -> None:
    reassembly, delivered = Reassembly(), list[int]()
    for number, offset in enumerate(order):
        known = set(order[:number])
        assert reassembly.status_of(offset, offset + 10) is RangeStatus.NEW
        delivered += [chunk.offset for chunk in reassembly.add(ten(offset))]
        for index in again:
            place = reassembly.status_of(index * 10, index * 10 + 10)
            is_here = index * 10 in known or index * 10 == offset
            assert place is (RangeStatus.DUPLICATE if is_here else RangeStatus.NEW)
    assert delivered == list(range(0, 200, 10))


@given(st.sets(st.integers(0, 30)), st.integers(0, 310), st.integers(1, 60))
def test_a_place_agrees_with_a_set_of_bytes(numbers: set[int], start: int, size: int) -> None:
    reassembly = holding(*(number * 10 for number in numbers))
    here = {byte for number in numbers for byte in range(number * 10, number * 10 + 10)}
    wanted = set(range(start, start + size))
    place = reassembly.status_of(start, start + size)
    if not wanted & here:
        assert place is RangeStatus.NEW
    elif start + size <= reassembly.received:
        assert place is RangeStatus.DUPLICATE
    else:  # beyond the mark only the very same chunk counts as one that is here
        is_same = size == 10 and start % 10 == 0
        assert place is (RangeStatus.DUPLICATE if is_same else RangeStatus.OVERLAP)
