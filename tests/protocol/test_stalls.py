"""Where a stream's time goes, on virtual time: each cause where it dominates, and nothing twice."""

from __future__ import annotations

import pytest

from streamlink.errors import AbortCode
from streamlink.protocol.frames import Accept, Ack, Committing, Finish, Held
from streamlink.protocol.receiver import ReceiveStream
from streamlink.protocol.sender import SendStream
from streamlink.protocol.stalls import CAUSES, CREDIT, HELD, NETWORK, NOTHING, READER, Stalls
from tests.support.machines import (
    KiB,
    a_chunk,
    a_receiver,
    a_sender,
    an_open,
    finishing_sender,
    streaming_receiver,
    streaming_sender,
    write_all,
    zeros,
)

HOUR = 3600.0


def spent(stream: SendStream | ReceiveStream, *, now: float) -> dict[str, float]:
    """Return the seconds by cause, without those that are 0."""
    return {cause: each for cause, each in stream.stats.stalls(now=now).items() if each}


def full_sender() -> SendStream:
    """Return a sender that has sent all its credit, and whose carrier has sent it."""
    sender = streaming_sender()
    write_all(sender)
    sender.note_idle(now=0.0)
    return sender


# --- the account itself ----------------------------------------------------------------


def test_seconds_are_added_up_by_cause() -> None:
    stalls = Stalls()
    for cause, now in [(NETWORK, 1.0), (READER, 3.0), (NETWORK, 7.0), (NOTHING, 8.0)]:
        stalls.turn(cause, now=now)
    assert stalls.ended() == {NETWORK: 3.0, CREDIT: 0.0, READER: 4.0, HELD: 0.0}


def test_what_is_learnt_late_takes_over_the_stretch_that_runs() -> None:
    stalls = Stalls()
    stalls.turn(CREDIT, now=1.0)
    stalls.blame(HELD, instead_of=READER)
    assert stalls.cause == CREDIT
    stalls.blame(HELD, instead_of=CREDIT)
    stalls.turn(NOTHING, now=5.0)
    assert stalls.ended()[HELD] == 4.0


# --- a sender ---------------------------------------------------------------------------


def test_a_sender_that_waits_for_acks_waits_for_the_network() -> None:
    assert spent(full_sender(), now=HOUR) == {NETWORK: HOUR}


def test_a_sender_whose_carrier_is_still_sending_waits_for_the_network() -> None:
    sender = streaming_sender()
    sender.write(zeros(4 * KiB), now=0.0)
    sender.frames_to_send(now=0.0)
    assert sender.writable_bytes
    assert spent(sender, now=9.0) == {NETWORK: 9.0}


def test_a_sender_whose_chunk_waits_for_its_carrier_waits_for_the_network() -> None:
    sender = streaming_sender()
    sender.note_idle(now=0.0)
    sender.write(zeros(4 * KiB), now=0.0)
    sender.receive(Held(1, "", ""), now=0.0)
    assert sender.stats.stalled_by == NETWORK


def test_a_sender_without_a_call_waits_for_the_network() -> None:
    sender = full_sender()
    sender.receive(Ack(16 * KiB, 16 * KiB, 0, 32 * KiB), now=1.0)
    sender.detach(now=2.0)
    assert spent(sender, now=12.0) == {NETWORK: 11.0, READER: 1.0}


def test_a_sender_whose_peer_takes_nothing_waits_for_credit() -> None:
    sender = full_sender()
    sender.receive(Ack(16 * KiB, 0, 0, 16 * KiB), now=1.0)
    assert spent(sender, now=31.0) == {NETWORK: 1.0, CREDIT: 30.0}


def test_a_sender_whose_source_gives_nothing_waits_for_its_reader() -> None:
    sender = streaming_sender()
    sender.frames_to_send(now=5.0)
    assert spent(sender, now=25.0) == {NETWORK: 5.0, READER: 20.0}


def test_a_sender_that_was_not_told_to_finish_waits_for_its_reader() -> None:
    sender = streaming_sender(total_bytes=4 * KiB)
    write_all(sender)
    sender.note_idle(now=0.0)
    sender.receive(Ack(4 * KiB, 4 * KiB, 0, 16 * KiB), now=1.0)
    assert sender.stats.stalled_by == READER


def test_a_sender_whose_peer_makes_the_model_whole_waits_for_it() -> None:
    sender = finishing_sender()
    sender.note_idle(now=0.0)
    sender.receive(Ack(8 * KiB, 8 * KiB, 0, 16 * KiB), now=1.0)
    assert sender.stats.stalled_by == CREDIT


def test_a_sender_that_says_that_it_waits_for_somebody_is_held() -> None:
    sender = streaming_sender()
    sender.frames_to_send(now=0.0)
    sender.hold("duplex", "the round before", now=2.0)
    assert sender.stats.held_for == "the round before"
    sender.write(zeros(4 * KiB), now=7.0)
    sender.frames_to_send(now=7.0)
    assert spent(sender, now=7.0) == {HELD: 7.0}
    assert not sender.stats.held_for


def test_a_sender_whose_own_work_is_long_is_not_held() -> None:
    sender = streaming_sender()
    sender.frames_to_send(now=0.0)
    sender.hold("reading what was sent before", "", now=2.0)
    assert spent(sender, now=7.0) == {READER: 7.0}


def test_a_sender_whose_peer_waits_for_somebody_is_held_from_the_start_of_the_wait() -> None:
    sender = full_sender()
    sender.receive(Ack(16 * KiB, 0, 0, 16 * KiB), now=0.0)
    sender.receive(Held(1, "lockstep", "site-2"), now=5.0)
    assert spent(sender, now=10.0) == {HELD: 10.0}
    assert sender.stats.held_for == "site-2"


@pytest.mark.parametrize("moves", ["an ack", "a commit under way", "a new call"])
def test_a_hold_of_the_peer_is_over_when_something_moves(moves: str) -> None:
    sender = finishing_sender()
    sender.note_idle(now=0.0)
    sender.receive(Ack(8 * KiB, 0, 0, 16 * KiB), now=0.0)
    sender.receive(Held(1, "lockstep", "site-2"), now=4.0)
    if moves == "an ack":
        sender.receive(Ack(8 * KiB, 8 * KiB, 0, 16 * KiB), now=5.0)
    elif moves == "a commit under way":
        sender.receive(Committing(1), now=5.0)
    else:
        sender.detach(now=5.0)
        sender.attach(now=5.0)
        sender.receive(Accept(8 * KiB, 16 * KiB, 4 * KiB), now=5.0)
        sender.frames_to_send(now=5.0)
        sender.note_idle(now=5.0)
    assert spent(sender, now=9.0) == {HELD: 5.0, CREDIT: 4.0}


def test_a_sender_whose_peer_is_busy_before_it_accepts_is_held() -> None:
    sender = a_sender()
    sender.attach(now=0.0)
    sender.receive(Held(1, "busy", "the task before"), now=3.0)
    assert spent(sender, now=6.0) == {HELD: 6.0}


def test_what_is_in_flight_has_been_sent_and_not_received() -> None:
    sender = full_sender()
    sender.receive(Ack(4 * KiB, 0, 0, 16 * KiB), now=1.0)
    assert sender.stats.in_flight_bytes == 12 * KiB
    sender.abort(AbortCode.CANCELLED, "no")
    assert sender.stats.in_flight_bytes == 0


# --- a receiver ---------------------------------------------------------------------------


def test_a_receiver_that_nothing_reaches_waits_for_the_network() -> None:
    assert spent(streaming_receiver(), now=HOUR) == {NETWORK: HOUR}


def test_a_receiver_whose_sink_takes_nothing_waits_for_its_reader() -> None:
    receiver = streaming_receiver()
    receiver.receive(a_chunk(0), now=1.0)
    assert spent(receiver, now=31.0) == {NETWORK: 1.0, READER: 30.0}
    assert receiver.stats.in_flight_bytes == 4 * KiB
    receiver.release(4 * KiB, now=31.0)
    assert spent(receiver, now=32.0) == {NETWORK: 2.0, READER: 30.0}


def test_a_receiver_whose_owner_waits_for_somebody_is_held() -> None:
    receiver = streaming_receiver()
    receiver.receive(a_chunk(0), now=0.0)
    receiver.waits_for = "site-2"  # as a gathering says it, without a word to the peer
    assert spent(receiver, now=5.0) == {HELD: 5.0}
    receiver.release(4 * KiB, now=6.0)
    assert spent(receiver, now=6.0) == {HELD: 6.0}
    assert not receiver.stats.held_for


def test_a_receiver_whose_owner_has_not_decided_waits_for_its_reader() -> None:
    receiver = a_receiver()
    receiver.attach(now=0.0)
    receiver.receive(an_open(), now=1.0)
    receiver.frames_to_send(now=1.0)
    assert receiver.stats.stalled_by == READER
    receiver.accept(wants_spec=False, now=4.0)
    assert spent(receiver, now=4.0) == {NETWORK: 1.0, READER: 3.0}


def test_a_receiver_that_makes_the_model_whole_waits_for_its_reader() -> None:
    receiver = streaming_receiver(total_bytes=4 * KiB)
    receiver.receive(a_chunk(0), now=0.0)
    receiver.receive(Finish(4 * KiB, "digest"), now=0.0)
    receiver.release(4 * KiB, now=0.0)
    assert spent(receiver, now=8.0) == {READER: 8.0}


def test_a_receiver_whose_sender_waits_for_somebody_is_held_until_bytes_come() -> None:
    receiver = streaming_receiver()
    receiver.receive(Held(1, "part", "the model's other tensors"), now=5.0)
    assert receiver.stats.held_for == "the model's other tensors"
    receiver.receive(a_chunk(0), now=6.0)
    receiver.release(4 * KiB, now=6.0)
    assert spent(receiver, now=7.0) == {HELD: 6.0, NETWORK: 1.0}


# --- beginning and end --------------------------------------------------------------------


def test_a_stream_that_nobody_has_opened_is_not_stalled() -> None:
    sender = a_sender()
    sender.offer(now=0.0)
    sender.handle_timer(now=5.0)
    assert spent(sender, now=9.0) == spent(a_receiver(), now=9.0) == {}


@pytest.mark.parametrize("stream", [full_sender(), streaming_receiver()], ids=lambda s: type(s))
def test_a_stream_that_times_out_stops_counting(stream: SendStream | ReceiveStream) -> None:
    stream.handle_timer(now=HOUR)
    assert stream.is_closed
    assert spent(stream, now=2 * HOUR) == {NETWORK: HOUR}
    assert set(stream.stats.stall_seconds) == set(CAUSES)
