"""The sending half: what it does with accepts, acks, repairs and the commit, and when none come."""

from __future__ import annotations

import pytest

from streamlink.errors import (
    AbortCode,
    AckTimeout,
    ChecksumError,
    CommunicationTimeout,
    FlowControlError,
    RemoteProtocolError,
)
from streamlink.protocol.events import Accepted, Committed, PeerHeld
from streamlink.protocol.frames import (
    Abort,
    Accept,
    Ack,
    Chunk,
    Commit,
    Committing,
    Finish,
    Held,
    Repair,
)
from streamlink.protocol.sender import SendStream
from tests.support.machines import (
    ACK_WAIT,
    COMMUNICATION,
    KiB,
    a_sender,
    acked,
    events,
    finishing_sender,
    small_config,
    streaming_sender,
    the,
    write_all,
    zeros,
)


@pytest.mark.parametrize(
    "accept",
    [
        Accept(1, 16 * KiB, 4 * KiB),
        Accept(-1, 16 * KiB, 4 * KiB),
        Accept(0, -1, 4 * KiB),
        Accept(0, 16 * KiB, 0),
        Accept(0, 16 * KiB, 4 * KiB + 1),
    ],
)
def test_an_accept_that_cannot_be_ends_the_stream(accept: Accept) -> None:
    sender = a_sender()
    sender.attach(now=0.0)
    sender.receive(accept, now=0.0)
    assert isinstance(sender.error, RemoteProtocolError)


def a_resumable_sender() -> SendStream:
    return SendStream(
        small_config(), stream_id=1, total_bytes=64 * KiB, is_resumable=True, peer_name="site-1"
    )


def test_a_resumable_sender_begins_where_the_receiver_says() -> None:
    sender = a_resumable_sender()
    sender.attach(now=0.0)
    sender.receive(Accept(40 * KiB, 56 * KiB, 4 * KiB), now=0.0)
    assert events(sender) == [Accepted(40 * KiB)]
    assert (sender.received, sender.consumed, sender.durable) == (40 * KiB,) * 3
    sender.frames_to_send(now=0.0)
    sender.write(zeros(1 * KiB), now=0.0)
    assert the(Chunk, sender.frames_to_send(now=0.0)).offset == 40 * KiB
    sender.receive(Ack(41 * KiB, 41 * KiB, 40 * KiB, 56 * KiB), now=0.0)
    assert sender.error is None
    assert sender.stats.resent_bytes == 0


def test_a_resumable_sender_may_have_nothing_left_to_send() -> None:
    sender = a_resumable_sender()
    sender.attach(now=0.0)
    sender.receive(Accept(64 * KiB, 80 * KiB, 4 * KiB), now=0.0)
    sender.finish("digest", now=0.0)
    assert the(Finish, sender.frames_to_send(now=0.0)).stop == 64 * KiB


@pytest.mark.parametrize("received", [-1, 64 * KiB + 1])
def test_a_resumable_sender_begins_inside_its_model(received: int) -> None:
    sender = a_resumable_sender()
    sender.attach(now=0.0)
    sender.receive(Accept(received, 80 * KiB, 4 * KiB), now=0.0)
    assert isinstance(sender.error, RemoteProtocolError)


def test_only_the_first_accept_may_be_ahead_of_the_sender() -> None:
    sender = a_resumable_sender()
    sender.attach(now=0.0)
    sender.receive(Accept(4 * KiB, 20 * KiB, 4 * KiB), now=0.0)
    sender.detach(now=1.0)
    sender.attach(now=2.0)
    sender.receive(Accept(5 * KiB, 20 * KiB, 4 * KiB), now=2.0)
    assert "accepted at byte 5120" in str(sender.error)


def test_success_is_the_peers_commit() -> None:
    sender = finishing_sender()
    sender.receive(Commit("digest"), now=1.0)
    assert events(sender) == [Committed("digest")]
    assert sender.is_closed
    assert (sender.error, sender.next_deadline()) == (None, None)
    assert (sender.received, sender.consumed) == (8 * KiB, 8 * KiB)


# --- acks -------------------------------------------------------------------------------


def test_an_ack_makes_room() -> None:
    sender = streaming_sender()
    write_all(sender)
    assert sender.writable_bytes == 0
    acked(sender, 8 * KiB, now=0.1)
    assert sender.writable_bytes == 4 * KiB
    assert (sender.received, sender.limit) == (8 * KiB, 24 * KiB)


@pytest.mark.parametrize(
    ("ack", "kind"),
    [
        (Ack(20 * KiB, 0, 0, 20 * KiB), RemoteProtocolError),  # more than was sent
        (Ack(5 * KiB, 0, 0, 16 * KiB), RemoteProtocolError),  # inside a chunk
        (Ack(4 * KiB, 8 * KiB, 0, 16 * KiB), RemoteProtocolError),  # consumed beyond received
        (Ack(8 * KiB, 4 * KiB, 5 * KiB, 16 * KiB), RemoteProtocolError),  # durable beyond consumed
        (Ack(8 * KiB, 4 * KiB, 4 * KiB, 15 * KiB), FlowControlError),  # credit taken back
        (Ack(0, 0, 0, 16 * KiB), RemoteProtocolError),  # received went back
        (Ack(4 * KiB, 0, 0, 16 * KiB), RemoteProtocolError),  # consumed went back
        (Ack(4 * KiB, 2 * KiB, 0, 16 * KiB), RemoteProtocolError),  # durable went back
    ],
)
def test_an_ack_that_cannot_be_ends_the_stream(ack: Ack, kind: type[RemoteProtocolError]) -> None:
    sender = streaming_sender()
    write_all(sender)
    sender.receive(Ack(4 * KiB, 2 * KiB, 1 * KiB, 16 * KiB), now=0.0)
    assert not sender.is_closed
    sender.receive(ack, now=0.0)
    assert type(sender.error) is kind
    assert the(Abort, sender.frames_to_send(now=0.0)).code is kind.code


def test_credit_must_reach_as_far_as_the_acknowledged_bytes() -> None:
    sender = streaming_sender(limit=4 * KiB)
    sender.receive(Ack(0, 0, 0, 4 * KiB), now=0.0)
    assert sender.error is None


def test_an_ack_for_chunks_that_are_only_queued_ends_the_stream() -> None:
    sender = streaming_sender()
    sender.write(zeros(4 * KiB), now=0.0)
    sender.receive(Ack(4 * KiB, 0, 0, 16 * KiB), now=0.0)
    assert isinstance(sender.error, RemoteProtocolError)


def test_a_commit_before_everything_was_sent_ends_the_stream() -> None:
    sender = streaming_sender(total_bytes=4 * KiB)
    sender.write(zeros(4 * KiB), now=0.0)
    sender.finish("digest", now=0.0)
    sender.receive(Commit("digest"), now=0.0)
    assert isinstance(sender.error, RemoteProtocolError)


# --- repairs ----------------------------------------------------------------------------


def test_a_repair_sends_the_chunk_again_under_a_new_number() -> None:
    sender = streaming_sender()
    write_all(sender)
    sender.receive(Repair(1), now=0.0)
    chunk = the(Chunk, sender.frames_to_send(now=0.0))
    assert (chunk.sequence, chunk.offset) == (4, 4 * KiB)
    assert (sender.stats.repairs, sender.stats.resent_bytes) == (1, 4 * KiB)


def test_a_repair_of_something_not_on_its_way_ends_the_stream() -> None:
    sender = streaming_sender()
    write_all(sender)
    sender.receive(Repair(4), now=0.0)
    assert isinstance(sender.error, RemoteProtocolError)


def test_a_flood_of_repairs_ends_at_the_allowed_number() -> None:
    sender = streaming_sender(small_config(max_repairs=2))
    write_all(sender)
    for sequence in (0, 4, 5):
        assert not sender.is_closed
        sender.receive(Repair(sequence), now=0.0)
    assert isinstance(sender.error, ChecksumError)
    assert sender.error.code is AbortCode.CHECKSUM


def test_without_repairs_allowed_the_first_damaged_chunk_ends_the_stream() -> None:
    sender = streaming_sender(small_config(max_repairs=0))
    write_all(sender)
    sender.receive(Repair(0), now=0.0)
    assert isinstance(sender.error, ChecksumError)


def test_a_repair_is_still_sent_after_the_finish() -> None:
    sender = finishing_sender()
    sender.receive(Repair(1), now=0.0)
    assert the(Chunk, sender.frames_to_send(now=0.0)).offset == 4 * KiB


# --- clocks -------------------------------------------------------------------------------


def test_a_peer_that_does_not_acknowledge_is_named_after_the_ack_wait() -> None:
    sender = streaming_sender()
    sender.write(zeros(4 * KiB), now=0.0)
    sender.frames_to_send(now=5.0)
    sender.handle_timer(now=5.0 + ACK_WAIT - 0.01)
    assert not sender.is_closed
    sender.handle_timer(now=5.0 + ACK_WAIT)
    assert isinstance(sender.error, AckTimeout)
    assert (sender.error.who, sender.error.seconds) == ("site-1", ACK_WAIT)


def test_the_ack_clock_restarts_when_received_moves_and_not_when_it_does_not() -> None:
    sender = streaming_sender()
    write_all(sender)
    acked(sender, 4 * KiB, consumed=0, now=15.0)
    acked(sender, 4 * KiB, consumed=4 * KiB, now=30.0)  # the reader moves, the link does not
    sender.handle_timer(now=15.0 + ACK_WAIT - 0.01)
    assert not sender.is_closed
    sender.handle_timer(now=15.0 + ACK_WAIT)
    assert isinstance(sender.error, AckTimeout)


def test_a_link_that_moves_never_fails_whatever_the_multiple_of_the_ack_wait() -> None:
    sender = streaming_sender(total_bytes=1 << 20)
    for step in range(1, 200):
        write_all(sender, now=(step - 1) * 19.9)
        acked(sender, step * 4 * KiB, now=step * 19.9)
        sender.handle_timer(now=step * 19.9)
    assert sender.error is None


def test_no_ack_clock_runs_while_nothing_is_on_its_way() -> None:
    sender = streaming_sender()
    write_all(sender)
    acked(sender, 16 * KiB, now=1.0)
    assert sender.next_deadline() is None


def test_no_clock_runs_while_it_is_our_source_that_is_slow() -> None:
    assert streaming_sender().next_deadline() is None


def test_a_peer_that_takes_nothing_is_named_after_the_communication_timeout() -> None:
    sender = streaming_sender()
    write_all(sender)
    acked(sender, 16 * KiB, consumed=0, now=1.0)
    sender.handle_timer(now=1.0 + COMMUNICATION)
    assert isinstance(sender.error, CommunicationTimeout)
    assert (sender.error.stage, sender.error.bytes_done) == ("sending", 16 * KiB)


def test_a_taken_byte_restarts_the_sending_clock() -> None:
    sender = streaming_sender()
    write_all(sender)
    acked(sender, 16 * KiB, consumed=0, now=1.0)
    sender.receive(Ack(16 * KiB, 1, 0, 16 * KiB), now=50.0)
    sender.handle_timer(now=50.0 + COMMUNICATION - 0.01)
    assert sender.error is None


def test_an_ack_that_moves_nothing_restarts_no_clock() -> None:
    sender = streaming_sender()
    write_all(sender)
    for now in (5.0, 10.0, 15.0):
        acked(sender, 0, now=now)
    sender.handle_timer(now=ACK_WAIT)
    assert isinstance(sender.error, AckTimeout)


def test_zero_credit_with_nothing_on_the_way_has_a_clock_that_runs() -> None:
    sender = streaming_sender(limit=0)
    assert sender.writable_bytes == 0
    sender.handle_timer(now=COMMUNICATION)
    assert isinstance(sender.error, CommunicationTimeout)


def test_a_commit_that_moves_keeps_the_clock_from_expiring_and_one_that_repeats_does_not() -> None:
    sender = finishing_sender()
    acked(sender, 8 * KiB, now=1.0)
    sender.receive(Committing(1), now=50.0)
    sender.receive(Committing(1), now=100.0)
    sender.handle_timer(now=50.0 + COMMUNICATION)
    assert isinstance(sender.error, CommunicationTimeout)


def test_a_sender_without_a_call_does_not_wait_for_ever() -> None:
    sender = streaming_sender()
    sender.detach(now=5.0)
    sender.handle_timer(now=5.0 + COMMUNICATION)
    assert isinstance(sender.error, CommunicationTimeout)


def test_a_new_call_without_progress_does_not_restart_the_sending_clock() -> None:
    sender = streaming_sender()
    sender.detach(now=0.0)
    sender.attach(now=50.0)
    sender.frames_to_send(now=50.0)
    sender.receive(Accept(0, 0, 4 * KiB), now=51.0)
    sender.handle_timer(now=COMMUNICATION)
    assert isinstance(sender.error, CommunicationTimeout)


def test_bytes_that_turn_out_to_have_arrived_restart_the_sending_clock() -> None:
    sender = streaming_sender()
    write_all(sender)
    sender.detach(now=1.0)
    sender.attach(now=50.0)
    sender.receive(Accept(4 * KiB, 20 * KiB, 4 * KiB), now=50.0)
    sender.handle_timer(now=50.0 + COMMUNICATION - 0.01)
    assert sender.error is None


# --- held -----------------------------------------------------------------------------------


def test_a_peer_that_is_held_is_waited_for_while_its_counter_grows() -> None:
    sender = streaming_sender()
    write_all(sender)
    for pulse in range(1, 100):
        sender.receive(Held(pulse, "lockstep", "site-2"), now=pulse * 19.0)
        sender.handle_timer(now=pulse * 19.0)
    assert not sender.is_closed
    assert events(sender) == [PeerHeld("lockstep", "site-2")]


def test_a_held_counter_that_stands_restarts_no_clock() -> None:
    sender = streaming_sender()
    write_all(sender)
    sender.receive(Held(1, "lockstep", "site-2"), now=1.0)
    sender.receive(Held(1, "lockstep", "site-2"), now=15.0)
    sender.handle_timer(now=1.0 + ACK_WAIT)
    assert isinstance(sender.error, AckTimeout)


def test_our_own_hold_does_not_excuse_the_peer() -> None:
    sender = streaming_sender()
    write_all(sender)
    sender.hold("the source waits", "site-2", now=15.0)
    assert sender.frames_to_send(now=15.0) == [Held(1, "the source waits", "site-2")]
    sender.handle_timer(now=ACK_WAIT)
    assert isinstance(sender.error, AckTimeout)
