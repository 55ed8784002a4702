"""The receiving half: how chunks are admitted, put in order, repaired and awaited."""

from __future__ import annotations

import pytest

from streamlink.errors import (
    AbortCode,
    ChecksumError,
    CommunicationTimeout,
    FlowControlError,
    FrameTooLarge,
    ReadTimeout,
    RemoteProtocolError,
)
from streamlink.protocol.events import Delivered
from streamlink.protocol.frames import (
    Abort,
    Ack,
    Chunk,
    ChunkHeader,
    Finish,
    Repair,
)
from tests.support.machines import (
    COMMUNICATION,
    READ,
    KiB,
    a_chunk,
    an_open,
    damaged,
    events,
    fed,
    reattached,
    small_config,
    streaming_receiver,
    the,
    zeros,
)

# --- chunks -------------------------------------------------------------------------------


def test_chunks_are_delivered_and_acknowledged_with_one_ack() -> None:
    receiver = fed(streaming_receiver(), a_chunk(0), a_chunk(1))
    assert receiver.has_frames()
    assert receiver.frames_to_send(now=0.0) == [Ack(8 * KiB, 0, 0, 16 * KiB)]
    assert [event.offset for event in events(receiver) if isinstance(event, Delivered)] == [0, 4096]


def test_a_damaged_chunk_is_asked_for_again_by_its_number_alone() -> None:
    receiver = fed(streaming_receiver(), a_chunk(0), damaged(), a_chunk(2))
    assert the(Repair, receiver.frames_to_send(now=0.0)) == Repair(1)
    assert receiver.received == 4 * KiB
    fed(receiver, a_chunk(3, offset=4 * KiB))
    assert receiver.received == 12 * KiB
    assert (receiver.stats.repairs, receiver.stats.chunks) == (1, 3)


def test_what_comes_twice_or_damaged_is_counted_as_wasted() -> None:
    receiver = fed(streaming_receiver(), a_chunk(0), a_chunk(1))
    assert receiver.stats.wasted_bytes == 0
    fed(receiver, a_chunk(2, offset=0))
    assert receiver.stats.wasted_bytes == 4 * KiB
    fed(receiver, broken := damaged(sequence=3))
    assert receiver.stats.wasted_bytes == 4 * KiB + broken.wire_bytes


def test_damage_without_end_ends_the_stream() -> None:
    receiver = streaming_receiver(small_config(max_repairs=1))
    for _ in range(11):
        assert not receiver.is_closed
        receiver.receive(damaged(), now=0.0)
    assert isinstance(receiver.error, ChecksumError)


@pytest.mark.parametrize(
    ("chunk", "kind"),
    [
        (a_chunk(0, nbytes=4 * KiB + 1), FrameTooLarge),
        (a_chunk(0, nbytes=0), RemoteProtocolError),
        (a_chunk(1), RemoteProtocolError),
        (a_chunk(0, sequence=1), RemoteProtocolError),
        (a_chunk(0, encoding=1), RemoteProtocolError),
    ],
)
def test_a_chunk_that_cannot_be_ends_the_stream(
    chunk: Chunk, kind: type[RemoteProtocolError]
) -> None:
    receiver = fed(streaming_receiver(), chunk)
    assert type(receiver.error) is kind


def test_a_chunk_that_comes_twice_is_dropped_and_a_flood_of_it_ends_the_stream() -> None:
    receiver = fed(streaming_receiver(), a_chunk(0), a_chunk(1, offset=0))
    assert (receiver.error, receiver.received, receiver.stats.chunks) == (None, 4 * KiB, 1)
    for number in range(2, 5000):
        fed(receiver, a_chunk(number, offset=0))
    assert "floods this side with the chunk at byte 0, which was received" in str(receiver.error)


def test_a_model_that_is_cut_anew_ends_the_stream() -> None:
    receiver = fed(streaming_receiver(), a_chunk(0), a_chunk(1, offset=100))
    assert "a chunk at byte 100 that overlaps others" in str(receiver.error)


def test_chunks_in_any_order_are_delivered_in_order() -> None:
    receiver = fed(streaming_receiver(), a_chunk(0, offset=8 * KiB), a_chunk(1, offset=4 * KiB))
    ack = the(Ack, receiver.frames_to_send(now=0.0))
    assert (ack.received, ack.ranges) == (0, ((4 * KiB, 12 * KiB),))
    fed(receiver, a_chunk(2, offset=0))
    offsets = [each.offset for each in events(receiver) if isinstance(each, Delivered)]
    assert offsets == [0, 4 * KiB, 8 * KiB]


def test_a_chunk_beyond_the_credit_ends_the_stream() -> None:
    receiver = fed(streaming_receiver(), *(a_chunk(number) for number in range(5)))
    assert isinstance(receiver.error, FlowControlError)
    assert the(Abort, receiver.frames_to_send(now=0.0)).code is AbortCode.FLOW_CONTROL


def test_a_chunk_beyond_the_model_ends_the_stream() -> None:
    receiver = fed(streaming_receiver(total_bytes=5000), a_chunk(0), a_chunk(1))
    assert "outside of [0, 5000)" in str(receiver.error)


def test_chunks_that_overlap_behind_a_hole_end_the_stream() -> None:
    receiver = fed(streaming_receiver(), damaged(), a_chunk(1), a_chunk(2, offset=5000))
    assert "a chunk at byte 5000 that overlaps others" in str(receiver.error)


def test_a_hole_that_nobody_closes_is_timed_out() -> None:
    receiver = fed(streaming_receiver(), a_chunk(0, offset=4 * KiB))
    receiver.handle_timer(now=COMMUNICATION)
    assert isinstance(receiver.error, CommunicationTimeout)


def test_crumbs_cannot_fill_this_process_beyond_its_window() -> None:
    receiver = streaming_receiver()
    for number in range(200):
        fed(receiver, a_chunk(number, offset=number, nbytes=1))
    assert "chunks that are too small" in str(receiver.error)
    assert not [event for event in events(receiver) if isinstance(event, Delivered)]


def test_a_sender_with_credit_that_sends_nothing_is_named() -> None:
    receiver = streaming_receiver()
    receiver.handle_timer(now=COMMUNICATION)
    assert isinstance(receiver.error, CommunicationTimeout)
    assert receiver.error.stage == "receiving"


def test_each_byte_received_restarts_the_receiving_clock() -> None:
    receiver = streaming_receiver(total_bytes=1 << 20)
    for number in range(200):
        now = number * 59.0
        assert len(events(fed(receiver, a_chunk(number), now=now))) == 1
        receiver.release(4 * KiB, now=now)
        receiver.frames_to_send(now=now)
        receiver.handle_timer(now=now)
    assert receiver.error is None


def test_a_reader_that_moves_does_not_excuse_a_sender_that_does_not() -> None:
    receiver = fed(streaming_receiver(), a_chunk(0), a_chunk(1))
    receiver.frames_to_send(now=0.0)
    for now in (20.0, 40.0, 59.0):
        receiver.release(2 * KiB, now=now)
        receiver.frames_to_send(now=now)
    receiver.handle_timer(now=COMMUNICATION)
    assert isinstance(receiver.error, CommunicationTimeout)


def test_a_sender_without_credit_is_not_blamed() -> None:
    receiver = fed(streaming_receiver(), *(a_chunk(number) for number in range(4)))
    receiver.frames_to_send(now=0.0)
    receiver.handle_timer(now=READ)
    assert isinstance(receiver.error, ReadTimeout)


def test_a_sender_that_owes_a_repair_is_waited_for_no_longer_than_for_anything_else() -> None:
    receiver = fed(streaming_receiver(total_bytes=4 * KiB), damaged())
    receiver.receive(Finish(4 * KiB, "digest"), now=0.0)
    receiver.handle_timer(now=COMMUNICATION)
    assert isinstance(receiver.error, CommunicationTimeout)


def test_a_finish_that_does_not_come_is_missed() -> None:
    receiver = fed(streaming_receiver(total_bytes=4 * KiB), a_chunk(0), now=1.0)
    receiver.release(4 * KiB, now=1.0)
    receiver.handle_timer(now=1.0 + COMMUNICATION)
    assert isinstance(receiver.error, CommunicationTimeout)


def test_a_receiver_without_a_call_does_not_wait_for_ever() -> None:
    receiver = fed(streaming_receiver(), *(a_chunk(number) for number in range(4)))
    receiver.frames_to_send(now=0.0)
    receiver.release(16 * KiB, now=0.0)
    receiver.detach(now=5.0)
    receiver.handle_timer(now=5.0 + COMMUNICATION)
    assert isinstance(receiver.error, CommunicationTimeout)


def test_a_new_call_without_progress_does_not_restart_the_receiving_clock() -> None:
    receiver = streaming_receiver()
    for now in (20.0, 40.0, 59.0):
        reattached(receiver, now=now)
    receiver.handle_timer(now=COMMUNICATION)
    assert isinstance(receiver.error, CommunicationTimeout)


# --- payloads that are read into their place ---------------------------------------------


def header(offset: int, *, sequence: int = 0, nbytes: int = 4 * KiB) -> ChunkHeader:
    return ChunkHeader(sequence, offset, nbytes, nbytes)


def test_a_place_is_lent_once_and_again_when_its_reader_is_lost() -> None:
    receiver = streaming_receiver()
    receiver.attach(now=0.0, channel=1)
    receiver.receive(an_open(), now=0.0, channel=1)
    assert receiver.admit(header(0), now=0.0, channel=0)
    assert not receiver.admit(header(0), now=0.0, channel=1)
    receiver.detach(now=0.0, channel=0)
    assert receiver.admit(header(0), now=0.0, channel=1)


def test_a_damaged_payload_gives_its_place_back() -> None:
    receiver = streaming_receiver()
    assert receiver.admit(header(0), now=0.0)
    receiver.receive(Chunk(0, 0, zeros(4 * KiB), is_intact=False), now=0.0)
    assert receiver.admit(header(0, sequence=1), now=0.0)
    receiver.receive(a_chunk(1, offset=0, is_in_place=True), now=0.0)
    assert the(Delivered, events(receiver)).chunk.is_in_place


def test_what_is_here_already_has_no_place() -> None:
    receiver = streaming_receiver()
    receiver.receive(a_chunk(0), now=0.0)
    assert not receiver.admit(header(0, sequence=1), now=0.0)
    assert receiver.error is None


def test_a_header_beyond_the_credit_ends_the_stream_before_its_payload_is_read() -> None:
    receiver = streaming_receiver()
    assert not receiver.admit(header(16 * KiB), now=0.0)
    assert "credit" in str(receiver.error)


def test_a_header_on_a_channel_that_is_not_accepted_has_no_place() -> None:
    receiver = streaming_receiver()
    assert not receiver.admit(header(0), now=0.0, channel=1)
    receiver.attach(now=0.0, channel=1)
    assert not receiver.admit(header(0), now=0.0, channel=1)
    assert receiver.error is None
