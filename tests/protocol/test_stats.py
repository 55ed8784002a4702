"""Stall times, mean rate and ack latency."""

from __future__ import annotations

import pytest

from streamlink.config import LinkConfig, StreamConfig, TimeoutConfig
from streamlink.errors import AbortCode
from streamlink.protocol.frames import Accept, Ack, Committing, Finish, Held
from streamlink.protocol.receiver import ReceiveStream
from streamlink.protocol.sender import SendStream
from streamlink.protocol.stats import (
    BOUNDS,
    CAUSES,
    CREDIT,
    HELD,
    NETWORK,
    NOTHING,
    PAUSE_SECONDS,
    READER,
    AckLatency,
    AckTimes,
    ReceiveMeter,
    SendMeter,
    Stalls,
)
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
from tests.support.virtual_link import Schedule, VirtualLink

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
        stalls.switch_to(cause, now=now)
    assert stalls.finished() == {**dict.fromkeys(CAUSES, 0.0), NETWORK: 3.0, READER: 4.0}


def test_what_is_learnt_late_takes_over_the_stretch_that_runs() -> None:
    stalls = Stalls()
    stalls.switch_to(CREDIT, now=1.0)
    stalls.reattribute(HELD, instead_of=READER)
    assert stalls.cause == CREDIT
    stalls.reattribute(HELD, instead_of=CREDIT)
    stalls.switch_to(NOTHING, now=5.0)
    assert stalls.finished()[HELD] == 4.0


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


CONFIG = LinkConfig(
    stream=StreamConfig(chunk_bytes=64 * KiB, window_bytes=1024 * KiB),
    timeouts=TimeoutConfig(
        communication_timeout=3600, streaming_ack_wait=600, reconnect_timeout=600
    ),
)
RATE = 1024.0 * KiB
MODEL = bytes(4096 * KiB)


def rates(schedule: Schedule, model: bytes = MODEL) -> tuple[float, float]:
    """Return what both ends call the rate of one transfer: the sender, then the receiver."""
    link = VirtualLink(model, CONFIG, schedule)
    link.run()
    assert bytes(link.got) == model
    sent, received = link.sender.stats.mean_rate, link.receiver.stats.mean_rate
    assert sent is not None
    assert received is not None
    return sent, received


def is_the_links(rate: float) -> bool:
    return rate == pytest.approx(RATE, rel=0.1)


def test_both_ends_call_the_speed_of_the_link_the_rate() -> None:
    sent, received = rates(Schedule(up_rate=RATE))
    assert is_the_links(sent)
    assert is_the_links(received)


def test_a_slow_link_is_told_as_slow_though_every_wait_is_long() -> None:
    sent, received = rates(Schedule(up_rate=16.0 * KiB), bytes(1024 * KiB))
    assert sent == pytest.approx(16 * KiB, rel=0.1)
    assert received == pytest.approx(16 * KiB, rel=0.1)


def test_a_break_of_the_connection_is_not_the_links_speed() -> None:
    sent, received = rates(Schedule(up_rate=RATE, cuts=frozenset({40}), away_seconds=300.0))
    assert is_the_links(sent)
    assert is_the_links(received)


def test_a_receiver_that_takes_slowly_does_not_slow_the_rate() -> None:
    sent, received = rates(Schedule(up_rate=RATE, read_seconds=5.0))
    # A round trip for each window is the link's; the five seconds for each chunk are not.
    assert min(sent, received) > RATE / 4


def test_a_sender_that_works_long_before_each_chunk_knows_what_the_link_did() -> None:
    link = VirtualLink(MODEL, CONFIG, Schedule(up_rate=RATE, write_seconds=30.0))
    link.run()
    stats = link.sender.stats
    assert link.now > 300.0
    assert stats.moving_seconds < 20.0
    assert stats.moving_bytes == len(MODEL)


def test_the_work_before_the_first_byte_is_no_part_of_the_rate() -> None:
    meter = ReceiveMeter()
    meter.set_running(True, now=0.0)
    meter.arrived(100, now=3600.0)
    assert meter.measured == (0.0, 0)
    meter.arrived(100, now=3600.5)
    assert meter.measured == (0.5, 100)


def test_work_between_two_stretches_of_bytes_is_no_part_of_the_rate() -> None:
    meter = ReceiveMeter()
    for start in (0.0, 3600.0, 7200.0):
        for step in range(10):
            meter.arrived(100, now=start + step / 10)
    seconds, nbytes = meter.measured
    assert [seconds, nbytes] == pytest.approx([2.7, 2700])


def test_long_waits_count_where_most_bytes_came_after_one() -> None:
    meter = ReceiveMeter()
    for step in range(4):
        meter.arrived(100, now=step / 10)  # what a proxy had stored
    for step in range(1, 11):
        meter.arrived(100, now=step * 2 * PAUSE_SECONDS)
    seconds, nbytes = meter.measured
    assert [seconds, nbytes] == pytest.approx([20.0, 1300])


def test_a_wait_for_which_the_sender_excused_itself_does_not_count() -> None:
    meter = ReceiveMeter()
    meter.arrived(100, now=0.0)
    meter.skip_wait()
    meter.arrived(100, now=0.9)
    assert meter.measured == (0.0, 0)


def test_a_wait_in_which_the_sender_had_no_credit_does_not_count() -> None:
    meter = ReceiveMeter()
    meter.arrived(100, now=0.0)
    meter.set_running(False, now=0.1)
    meter.set_running(True, now=0.8)
    meter.set_running(True, now=0.9)  # the clock runs already
    meter.arrived(100, now=1.0)
    assert meter.measured == pytest.approx((0.2, 100))


def test_a_sender_counts_while_bytes_are_on_their_way() -> None:
    meter = SendMeter()
    for now, is_moving in [(1.0, True), (2.0, True), (4.0, False), (9.0, True), (9.5, False)]:
        meter.update(is_moving, now=now)
    assert meter.seconds == 3.5


def test_a_sender_counts_afterwards_what_the_limit_of_the_other_end_took() -> None:
    meter = SendMeter()
    meter.update(True, now=1.0)
    meter.update(False, now=2.0)
    meter.update(False, now=3.0)
    meter.add_wait(2.0, now=4.0)
    meter.update(True, now=4.0)
    meter.update(False, now=5.0)
    meter.update(True, now=9.0)  # its own work
    meter.update(False, now=9.5)
    assert meter.seconds == 4.5


def test_one_chunk_is_too_little_for_a_receiver_to_tell_a_rate() -> None:
    link = VirtualLink(bytes(KiB), CONFIG, Schedule(up_rate=RATE))
    link.run()
    assert link.receiver.stats.mean_rate is None
    assert link.sender.stats.mean_rate is not None


def counted(*seconds: float) -> AckTimes:
    clock = AckLatency()
    for each in seconds:
        clock.add(each)
    return clock.so_far()


def test_a_time_is_counted_where_it_is_not_above_the_bound() -> None:
    counts = counted(0.001, 0.0011, 61.0).counts
    assert (counts[0], counts[1], counts[-1]) == (1, 1, 1)
    assert sum(counts) == 3
    assert len(counts) == len(BOUNDS) + 1


def test_the_mean_of_no_times_is_none_at_all() -> None:
    clock = AckLatency()
    assert clock.mean == 0.0
    clock.add(1.0)
    clock.add(3.0)
    assert clock.mean == 2.0


def test_the_times_of_two_streams_add_up() -> None:
    both = counted(0.001, 2.0) + counted(3.0)
    assert both.counts == counted(0.001, 2.0, 3.0).counts
    assert both.seconds == pytest.approx(5.001)


def test_a_sender_measures_from_the_moment_a_chunk_leaves() -> None:
    sender = streaming_sender()
    write_all(sender, now=10.0)
    sender.receive(Ack(4 * KiB, 0, 0, 16 * KiB), now=10.3)
    assert sender.stats.ack_times == counted(10.3 - 10.0)


def test_all_is_received_when_the_extent_is_and_never_of_an_empty_model() -> None:
    assert not full_sender().stats.is_all_received
    sender = streaming_sender(total_bytes=4 * KiB)
    write_all(sender)
    sender.receive(Ack(4 * KiB, 0, 0, 16 * KiB), now=0.0)
    assert sender.stats.is_all_received
    assert not streaming_sender(total_bytes=0).stats.is_all_received
