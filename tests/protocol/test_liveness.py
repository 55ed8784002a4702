"""How long each end waits for a silent channel, and without one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.config import LinkConfig, StreamConfig, TimeoutConfig
from streamlink.errors import AckTimeout, ChecksumError
from streamlink.protocol.frames import Accept, Ack, Attempt, Held, Open
from streamlink.protocol.liveness import FIRST, Liveness, SessionOutage, StreamOutage
from streamlink.protocol.receiver import ReceiveStream
from streamlink.protocol.sender import SendStream
from tests.support.machines import KiB, small_config
from tests.support.virtual_link import Schedule, VirtualLink

CALL, OPEN, ACK_WAIT, TOTAL = 20.0, 30.0, 300.0, 100
CONFIG = LinkConfig(
    stream=StreamConfig(chunk_bytes=4096, window_bytes=8192),
    timeouts=TimeoutConfig(call_timeout=CALL, open_timeout=OPEN, streaming_ack_wait=ACK_WAIT),
)


def streaming_sender(received: int = 0) -> SendStream:
    """Return a sender that was accepted at 0.0 and has sent all of its model in two chunks."""
    sender = SendStream(CONFIG, stream_id=7, total_bytes=TOTAL, peer_name="there")
    accept(sender, 0.0, received)
    for _ in range(2):
        sender.write((memoryview(bytes(TOTAL // 2)),), now=0.0)
    sender.frames_to_send(now=0.0)
    return sender


def accept(sender: SendStream, now: float, received: int = 0) -> None:
    sender.attach(now=now)
    sender.receive(Accept(received, 8192, 4096, False), now=now)
    sender.frames_to_send(now=now)


def given_up_at(sender: SendStream | ReceiveStream, since: float, until: float = 1e4) -> float:
    """Return after how long (seconds) ``sender``, which hears nothing more, lets go of its call."""
    now = since
    while sender.is_attached and not sender.is_closed and now < until:
        now = min(sender.next_deadline() or until, until)
        sender.handle_timer(now=now)
    return now - since


def ack(sender: SendStream, received: int, now: float) -> None:
    sender.receive(Ack(received, received, 0, 8192), now=now)


# --- patience ----------------------------------------------------------------------


def test_patience_is_long_until_something_has_come() -> None:
    silence = Liveness(CALL, open_timeout=1e6)
    assert silence.timeout(is_handshake=False) == FIRST * CALL
    silence.record_progress(1.0)
    assert silence.timeout(is_handshake=False) == CALL


def test_patience_doubles_with_each_call_in_vain_and_progress_sets_it_back() -> None:
    silence = Liveness(CALL, open_timeout=OPEN)
    silence.record_progress(0.0)
    seen = []
    for _ in range(3):
        silence.record_replacement()
        seen.append(silence.timeout(is_handshake=False))
    silence.record_progress(0.0)
    assert seen == [40.0, 80.0, 160.0]
    assert silence.timeout(is_handshake=False) == 160.0  # what is slow is slow again
    assert silence.timeout(is_handshake=True) < OPEN
    for _ in range(100):
        silence.record_progress(0.0)
    assert silence.timeout(is_handshake=False) == CALL


def test_what_a_pause_has_taught_is_all_that_is_kept() -> None:
    silence = Liveness(CALL, open_timeout=OPEN)
    silence.record_progress(0.0)
    for _ in range(2):
        silence.record_replacement()
    for pause in (0.0, CALL + 1.0):
        silence.record_progress(pause)
    assert silence.timeout(is_handshake=False) == 2 * (CALL + 1.0)


@pytest.mark.parametrize("slow", ["write_seconds", "read_seconds"])
@pytest.mark.parametrize("seconds", [25.0, 30.0, 39.0])
def test_a_source_or_a_reader_slower_than_the_patience_costs_a_call_or_two(
    slow: str, seconds: float
) -> None:
    schedule = Schedule(**{slow: seconds})  # type: ignore[arg-type]
    link = VirtualLink(bytes(200 * KiB), small_config(), schedule)
    link.run()
    assert (link.sender.error, link.receiver.error) == (None, None)
    assert link.given_up <= 2


def test_a_greeting_leaves_time_for_another_call() -> None:
    silence = Liveness(CALL, open_timeout=OPEN)
    assert silence.timeout(is_handshake=True) < OPEN
    silence.record_replacement()
    assert silence.timeout(is_handshake=True) > OPEN


def test_a_greeting_that_took_long_once_may_take_as_long_again() -> None:
    silence = Liveness(CALL, open_timeout=OPEN)
    for seconds in (OPEN, 1.0):
        silence.record_handshake(seconds)
    silence.record_progress(0.0)
    assert silence.timeout(is_handshake=True) == 2 * OPEN
    assert silence.timeout(is_handshake=False) == CALL


@given(st.lists(st.floats(0, 1e5), min_size=1))
def test_no_pause_that_was_survived_is_too_long_later(pauses: list[float]) -> None:
    silence = Liveness(CALL, open_timeout=1e9)
    for pause in pauses:
        silence.record_progress(pause)
    assert silence.timeout(is_handshake=False) >= max(CALL, 2 * max(pauses))


# --- streams -----------------------------------------------------------------------


def test_a_sender_whose_chunks_are_not_acknowledged_gives_the_call_up() -> None:
    sender = streaming_sender()
    ack(sender, TOTAL // 2, now=1.0)
    assert given_up_at(sender, 1.0) == CALL
    assert not sender.is_closed


def test_a_receiver_that_hears_nothing_gives_the_call_up() -> None:
    receiver = ReceiveStream(CONFIG, stream_id=7, peer_name="there")
    receiver.attach(now=0.0)
    receiver.receive(Open(7, Attempt(), TOTAL, b"", 0, 4096), now=0.0)
    receiver.accept(wants_spec=False, now=0.0)
    assert given_up_at(receiver, 0.0) == FIRST * CALL


def test_a_call_without_a_greeting_is_given_up_before_the_stream_is() -> None:
    receiver = ReceiveStream(CONFIG, stream_id=7, peer_name="there")
    receiver.attach(now=0.0)
    assert given_up_at(receiver, 0.0) < OPEN
    assert not receiver.is_closed


def test_nothing_is_given_up_where_nothing_is_owed() -> None:
    sender = SendStream(CONFIG, stream_id=7, total_bytes=TOTAL, peer_name="there")
    accept(sender, 0.0)
    assert given_up_at(sender, 0.0) == 1e4  # it is our own source that is slow


def test_a_peer_that_waits_for_somebody_else_is_not_silent() -> None:
    sender = streaming_sender()
    for counter in range(1, 9):
        sender.receive(Held(counter, "lockstep", "site-2"), now=10.0 * counter)
        sender.handle_timer(now=10.0 * counter + 9.0)
    assert sender.is_attached


def test_the_ack_clock_runs_on_over_calls_that_were_given_up() -> None:
    sender, now, calls = streaming_sender(), 0.0, 0
    while not sender.is_closed:
        now += given_up_at(sender, now)
        if not sender.is_closed:
            accept(sender, now)
            calls += 1
    assert isinstance(sender.error, AckTimeout)
    assert now == ACK_WAIT
    assert calls >= 1


def test_an_answer_on_the_next_call_starts_the_ack_clock_again() -> None:
    sender = streaming_sender()
    now = given_up_at(sender, 0.0)
    accept(sender, now, received=TOTAL // 2)
    sender.handle_timer(now=ACK_WAIT + 1.0)
    assert not sender.is_closed


@pytest.mark.parametrize("seconds", [64.0, 75.0])
def test_a_chunk_that_takes_a_minute_is_waited_for(seconds: float) -> None:
    sender = streaming_sender()  # 64 KiB at 1 KiB/s
    for number, received in enumerate((TOTAL // 2, TOTAL), start=1):
        sender.handle_timer(now=number * seconds - 0.01)
        ack(sender, received, now=number * seconds)
    assert sender.received == TOTAL
    assert sender.resumes == 0


@given(st.floats(1.0, 200.0))
def test_a_slow_link_is_never_cut_for_ever(seconds: float) -> None:
    """Each chunk takes so long, whatever the call; what was on the way of a lost one is lost."""
    sender, now = streaming_sender(), 0.0
    sender._timers.stop("ack")
    for received in (TOTAL // 2, TOTAL):
        while sender.received < received:
            due = now + seconds
            at = now + given_up_at(sender, now, due) if sender.is_attached else now
            if at < due and not sender.is_attached:
                now = at
                accept(sender, now, sender.received)
            else:
                now = due
                ack(sender, received, now)
            sender._timers.stop("ack")
            sender._timers.stop("sending")
    assert sender.resumes <= 3


# --- damage ------------------------------------------------------------------------


def test_damaged_frames_are_counted_and_the_last_that_is_borne_ends_the_stream() -> None:
    sender = streaming_sender()
    most = sender.config.stream.max_repairs
    for number in range(most):
        sender.report_damage(now=0.0)
        assert not sender.is_attached
        assert not sender.is_closed
        sender.attach(now=0.0)
        assert sender.damaged == number + 1
    sender.report_damage(now=0.0)
    assert isinstance(sender.error, ChecksumError)
    assert f"stream 7 from there arrive damaged, {most + 1} so far" in str(sender.error)
    assert sender.stats.damaged == most + 1
    sender.report_damage(now=0.0)
    assert sender.damaged == most + 2


def lost(at: float = 10.0, *, grace_seconds: float = 60.0) -> SessionOutage:
    outage = SessionOutage()
    outage.begin(grace_seconds, now=at)
    return outage


def test_an_outage_lasts_from_the_call_that_was_lost() -> None:
    outage = lost(10.0, grace_seconds=60.0)
    assert (outage.elapsed(now=15.0), outage.remaining(now=15.0)) == (5.0, 55.0)
    assert outage.remaining(now=80.0) == -10.0
    assert outage.end(now=15.0) == 5.0


def test_a_call_that_brings_a_handshake_only_ends_no_outage() -> None:
    outage = lost(10.0)
    outage.end(now=15.0)
    outage.begin(60.0, now=35.0)
    assert (outage.elapsed(now=35.0), outage.remaining(now=35.0)) == (25.0, 35.0)


def test_progress_over_a_call_ends_an_outage() -> None:
    outage = lost(10.0)
    outage.end(now=15.0)
    outage.record_progress()
    outage.begin(60.0, now=35.0)
    assert (outage.elapsed(now=35.0), outage.remaining(now=35.0)) == (0.0, 60.0)


def test_progress_during_an_outage_forgets_those_before() -> None:
    outage = lost(10.0)
    outage.end(now=15.0)
    outage.begin(60.0, now=35.0)
    outage.record_progress()
    assert outage.remaining(now=35.0) == 40.0


def test_each_outage_has_its_own_grace_time() -> None:
    outage = lost(10.0, grace_seconds=60.0)
    outage.end(now=15.0)
    outage.record_progress()
    outage.begin(5.0, now=20.0)
    assert outage.remaining(now=20.0) == 5.0


def test_outages_add_up_over_calls_that_bring_a_handshake_only() -> None:
    outage = StreamOutage()
    assert outage.deadline(30.0) is None
    outage.begin(now=10.0)
    outage.begin(now=12.0)  # known already
    assert outage.deadline(30.0) == 40.0
    outage.end(is_progress=False, now=20.0)
    assert outage.deadline(30.0) is None
    outage.begin(now=50.0)
    assert outage.deadline(30.0) == 70.0
    outage.end(is_progress=True, now=60.0)
    outage.begin(now=61.0)
    assert outage.deadline(30.0) == 91.0


def test_a_short_break_is_not_reported() -> None:
    outage = StreamOutage()
    outage.begin(now=1.0)
    assert not outage.is_notable(now=1.5)
    assert outage.is_notable(now=3.0)
