"""What was written and is not received: numbers, repairs, and where a new call goes on."""

from __future__ import annotations

import pytest

from streamlink.protocol.frames import Chunk
from streamlink.protocol.outstanding import Outstanding
from tests.support.machines import zeros


def holding(count: int, *, sent: int | None = None) -> Outstanding:
    """Return ``count`` chunks of 10 bytes, the first ``sent`` of which have left."""
    outstanding = Outstanding()
    for number in range(count):
        if number == sent:
            outstanding.take_unsent()
        outstanding.append(Chunk(0, number * 10, zeros(10)))
    if sent is None or sent == count:
        outstanding.take_unsent()
    return outstanding


def resent(outstanding: Outstanding) -> list[tuple[int, int]]:
    return [(chunk.sequence, chunk.offset) for chunk in outstanding.take_unsent()]


def test_chunks_are_numbered_as_they_leave() -> None:
    outstanding = holding(3, sent=0)
    assert outstanding.unsent
    assert resent(outstanding) == [(0, 0), (1, 10), (2, 20)]
    assert not outstanding.unsent


def test_only_what_has_left_is_on_its_way() -> None:
    outstanding = holding(3, sent=2)
    assert (outstanding.position, outstanding.sent) == (30, 20)
    assert outstanding.is_on_its_way
    outstanding.forget(20)
    assert not outstanding.is_on_its_way


@pytest.mark.parametrize(("mark", "is_boundary"), [(0, True), (10, True), (15, False), (30, True)])
def test_a_receiver_of_whole_chunks_stands_between_chunks(mark: int, is_boundary: bool) -> None:
    assert holding(3).is_boundary(mark) is is_boundary


def test_with_nothing_outstanding_the_position_is_the_only_boundary() -> None:
    outstanding = holding(2)
    outstanding.forget(20)
    assert outstanding.is_boundary(20)
    assert not outstanding.is_boundary(21)


def test_a_repair_is_numbered_anew_and_says_which_copy_it_is() -> None:
    outstanding = holding(3)
    first = outstanding.repair(1, 0)
    assert first is not None
    assert (first.sequence, first.offset, first.repeats) == (3, 10, 1)
    second = outstanding.repair(3, 0)
    assert second is not None
    assert (second.sequence, second.offset, second.repeats) == (4, 10, 2)
    assert outstanding.resent_bytes == 20


@pytest.mark.parametrize("sequence", [-1, 3, 99])
def test_a_frame_that_never_left_cannot_be_repaired(sequence: int) -> None:
    assert holding(3).repair(sequence, 0) is None


def test_a_frame_is_repaired_once() -> None:
    outstanding = holding(3)
    outstanding.repair(1, 0)
    assert outstanding.repair(1, 0) is None


def test_a_received_frame_cannot_be_repaired() -> None:
    outstanding = holding(3)
    outstanding.repair(0, 0)
    outstanding.forget(10)
    assert outstanding.repair(3, 10) is None  # kept behind frames that are not received yet


def test_what_is_received_is_let_go_of_even_around_repairs() -> None:
    outstanding = holding(3)
    outstanding.repair(0, 0)
    outstanding.forget(30)
    outstanding.append(Chunk(0, 30, zeros(10)))
    assert resent(outstanding) == [(4, 30)]


def test_a_new_call_counts_from_zero_and_sends_again_what_is_kept() -> None:
    outstanding = holding(3)
    outstanding.lose_call()
    outstanding.rewind(10, limit=100, chunk_bytes=10)
    assert resent(outstanding) == [(0, 10), (1, 20)]
    assert (outstanding.position, outstanding.resent_bytes) == (30, 20)


def test_chunks_that_never_left_do_not_count_as_sent_again() -> None:
    outstanding = holding(3, sent=1)
    outstanding.lose_call()
    outstanding.rewind(0, limit=100, chunk_bytes=10)
    outstanding.take_unsent()
    assert outstanding.resent_bytes == 10


@pytest.mark.parametrize("mark", [0, 15])
def test_a_mark_behind_or_inside_what_is_kept_goes_back_to_the_source(mark: int) -> None:
    outstanding = holding(3)
    outstanding.forget(10)
    outstanding.lose_call()
    outstanding.rewind(mark, limit=100, chunk_bytes=10)
    assert outstanding.position == mark
    assert resent(outstanding) == []


def test_chunks_above_a_smaller_agreed_size_are_cut_anew_from_the_source() -> None:
    outstanding = holding(3)
    outstanding.lose_call()
    outstanding.rewind(10, limit=100, chunk_bytes=9)
    assert outstanding.position == 10


def test_chunks_beyond_a_smaller_credit_wait_in_the_source() -> None:
    outstanding = holding(3)
    outstanding.lose_call()
    outstanding.rewind(0, limit=25, chunk_bytes=10)
    assert outstanding.position == 20
    assert resent(outstanding) == [(0, 0), (1, 10)]


def test_clearing_lets_go_of_every_byte_and_keeps_the_position() -> None:
    outstanding = holding(3, sent=2)
    outstanding.clear()
    assert not outstanding.unsent
    assert outstanding.position == 30
