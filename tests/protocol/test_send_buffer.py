"""What was written and is not received: numbers, repairs, and what a lost channel gives back."""

from __future__ import annotations

import pytest

from streamlink.protocol.frames import UNNUMBERED, Chunk
from streamlink.protocol.send_buffer import SendBuffer
from tests.support.machines import zeros

LANE, OTHER = 0, 1


def holding(count: int, *, sent: int | None = None) -> SendBuffer:
    """Return ``count`` chunks of 10 bytes, the first ``sent`` of which have left."""
    buffer = SendBuffer()
    for number in range(count):
        if number == sent:
            buffer.take_unsent(LANE, 99)
        buffer.append(Chunk(0, number * 10, zeros(10)))
    if sent is None or sent == count:
        buffer.take_unsent(LANE, 99)
    return buffer


def resent(buffer: SendBuffer) -> list[tuple[int, int]]:
    return [(chunk.sequence, chunk.offset) for chunk in buffer.take_unsent(LANE, 99)]


def test_chunks_are_numbered_as_they_leave() -> None:
    buffer = holding(3, sent=0)
    assert buffer.unsent
    assert resent(buffer) == [(0, 0), (1, 10), (2, 20)]
    assert not buffer.unsent


def test_only_what_has_left_is_in_flight() -> None:
    buffer = holding(3, sent=2)
    assert (buffer.position, buffer.in_flight_end) == (30, 20)
    assert buffer.is_in_flight
    buffer.acknowledge(20)
    assert not buffer.is_in_flight


@pytest.mark.parametrize(("mark", "is_boundary"), [(0, True), (10, True), (15, False), (30, True)])
def test_a_receiver_of_whole_chunks_stands_between_chunks(mark: int, is_boundary: bool) -> None:
    assert holding(3).is_boundary(mark) is is_boundary


def test_with_nothing_buffer_the_position_is_the_only_boundary() -> None:
    buffer = holding(2)
    buffer.acknowledge(20)
    assert buffer.is_boundary(20)
    assert not buffer.is_boundary(21)


def test_a_repair_is_numbered_anew_and_counted() -> None:
    buffer = holding(3)
    first = buffer.repair(LANE, 1)
    assert first is not None
    assert (first.sequence, first.offset, buffer.repairs_of(first)) == (3, 10, 1)
    second = buffer.repair(LANE, 3)
    assert second is not None
    assert (second.sequence, second.offset, buffer.repairs_of(second)) == (4, 10, 2)
    assert buffer.resent_bytes == 20


@pytest.mark.parametrize("sequence", [-1, 3, 99])
def test_a_frame_that_never_left_cannot_be_repaired(sequence: int) -> None:
    assert holding(3).repair(LANE, sequence) is None


def test_a_frame_is_repaired_once() -> None:
    buffer = holding(3)
    buffer.repair(LANE, 1)
    assert buffer.repair(LANE, 1) is None


def test_a_received_frame_cannot_be_repaired() -> None:
    buffer = holding(3)
    buffer.repair(LANE, 0)
    buffer.acknowledge(10)
    assert buffer.repair(LANE, 3) is None  # kept behind frames that are not received yet


def test_what_is_received_is_let_go_of_even_around_repairs() -> None:
    buffer = holding(3)
    buffer.repair(LANE, 0)
    buffer.acknowledge(30)
    buffer.append(Chunk(0, 30, zeros(10)))
    assert resent(buffer) == [(4, 30)]


def test_a_new_call_counts_from_zero_and_sends_again_what_is_kept() -> None:
    buffer = holding(3)
    buffer.lose_channel(LANE)
    buffer.rewind(10, limit=100, chunk_bytes=10)
    assert resent(buffer) == [(0, 10), (1, 20)]
    assert (buffer.position, buffer.resent_bytes) == (30, 20)


def test_chunks_that_never_left_do_not_count_as_sent_again() -> None:
    buffer = holding(3, sent=1)
    buffer.lose_channel(LANE)
    buffer.rewind(0, limit=100, chunk_bytes=10)
    buffer.take_unsent(LANE, 99)
    assert buffer.resent_bytes == 10


@pytest.mark.parametrize("mark", [0, 15])
def test_a_mark_behind_or_inside_what_is_kept_goes_back_to_the_source(mark: int) -> None:
    buffer = holding(3)
    buffer.acknowledge(10)
    buffer.lose_channel(LANE)
    buffer.rewind(mark, limit=100, chunk_bytes=10)
    assert buffer.position == mark
    assert resent(buffer) == []


def test_chunks_above_a_smaller_agreed_size_are_cut_anew_from_the_source() -> None:
    buffer = holding(3)
    buffer.lose_channel(LANE)
    buffer.rewind(10, limit=100, chunk_bytes=9)
    assert buffer.position == 10


def test_chunks_beyond_a_smaller_credit_wait_in_the_source() -> None:
    buffer = holding(3)
    buffer.lose_channel(LANE)
    buffer.rewind(0, limit=25, chunk_bytes=10)
    assert buffer.position == 20
    assert resent(buffer) == [(0, 0), (1, 10)]


def test_clearing_lets_go_of_every_byte_and_keeps_the_position() -> None:
    buffer = holding(3, sent=2)
    buffer.clear()
    assert not buffer.unsent
    assert buffer.position == 30


def test_a_lost_channel_gives_back_only_what_it_carried() -> None:
    buffer = holding(2)
    buffer.append(Chunk(0, 20, zeros(10)))
    buffer.take_unsent(OTHER, 1)
    buffer.append(Chunk(0, 30, zeros(10)))
    buffer.lose_channel(LANE)
    assert [chunk.offset for chunk in buffer.unsent] == [0, 10, 30]
    assert buffer.is_in_flight
    assert [chunk.offset for chunk in buffer.take_unsent(OTHER, 2)] == [0, 10]


def test_ranges_behind_a_gap_are_let_go_of_and_never_sent_again() -> None:
    buffer = holding(4)
    buffer.acknowledge(0, [(10, 30)])
    buffer.lose_channel(LANE)
    assert resent(buffer) == [(0, 0), (1, 30)]


def test_part_of_a_chunk_is_not_received() -> None:
    buffer = holding(3)
    buffer.acknowledge(0, [(10, 19), (25, 30)])
    buffer.lose_channel(LANE)
    assert resent(buffer) == [(0, 0), (1, 10), (2, 20)]


def test_what_a_lost_channel_had_delivered_after_all_need_not_leave_again() -> None:
    buffer = holding(3)
    buffer.lose_channel(LANE)
    buffer.acknowledge(10)
    assert resent(buffer) == [(0, 10), (1, 20)]


def test_a_repair_belongs_to_the_channel_that_carried_the_frame() -> None:
    buffer = holding(2)
    assert buffer.repair(OTHER, 0) is None


def test_the_mark_may_lie_at_either_end_of_a_range_that_was_let_go_of() -> None:
    buffer = holding(3)
    buffer.acknowledge(0, [(10, 20)])
    assert buffer.is_boundary(10)
    assert buffer.is_boundary(20)
    assert not buffer.is_boundary(25)


def test_what_is_acknowledged_in_two_ways_at_once_is_released_once() -> None:
    buffer = holding(3)
    buffer.acknowledge(20, [(10, 20)])  # a channel that is behind lists what another one completed
    buffer.lose_channel(LANE)
    assert resent(buffer) == [(0, 20)]


def test_a_chunk_that_leaves_again_is_another_frame() -> None:
    buffer = SendBuffer()
    buffer.append(Chunk(UNNUMBERED, 0, zeros(10)))
    (first,) = buffer.take_unsent(LANE, 1)
    again = buffer.repair(LANE, 0)
    assert again is not None
    assert (first.sequence, again.sequence) == (0, 1)


def test_the_front_names_its_channel_while_one_carries_it() -> None:
    buffer = holding(2, sent=0)
    assert buffer.front_channel() is None
    buffer.take_unsent(OTHER, 1)
    buffer.take_unsent(LANE, 1)
    assert buffer.front_channel() == OTHER
    buffer.acknowledge(10)
    assert buffer.front_channel() == LANE
    buffer.lose_channel(LANE)
    assert buffer.front_channel() is None
