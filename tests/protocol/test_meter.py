"""The mean rate of a stream, on virtual time: over the time in which bytes moved and no other."""

from __future__ import annotations

import pytest

from streamlink.config import LinkConfig, StreamConfig, TimeoutConfig
from streamlink.protocol.meter import PAUSE_SECONDS, ReceiveMeter, SendMeter
from tests.support.machines import KiB
from tests.support.virtual_link import Schedule, VirtualLink

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
    meter.may_arrive(True, now=0.0)
    meter.arrived(100, now=3600.0)
    assert meter.moved == (0.0, 0)
    meter.arrived(100, now=3600.5)
    assert meter.moved == (0.5, 100)


def test_work_between_two_stretches_of_bytes_is_no_part_of_the_rate() -> None:
    meter = ReceiveMeter()
    for start in (0.0, 3600.0, 7200.0):
        for step in range(10):
            meter.arrived(100, now=start + step / 10)
    seconds, nbytes = meter.moved
    assert [seconds, nbytes] == pytest.approx([2.7, 2700])


def test_long_waits_count_where_most_bytes_came_after_one() -> None:
    meter = ReceiveMeter()
    for step in range(4):
        meter.arrived(100, now=step / 10)  # what a proxy had stored
    for step in range(1, 11):
        meter.arrived(100, now=step * 2 * PAUSE_SECONDS)
    seconds, nbytes = meter.moved
    assert [seconds, nbytes] == pytest.approx([20.0, 1300])


def test_a_wait_for_which_the_sender_excused_itself_does_not_count() -> None:
    meter = ReceiveMeter()
    meter.arrived(100, now=0.0)
    meter.excuse()
    meter.arrived(100, now=0.9)
    assert meter.moved == (0.0, 0)


def test_a_wait_in_which_the_sender_had_no_credit_does_not_count() -> None:
    meter = ReceiveMeter()
    meter.arrived(100, now=0.0)
    meter.may_arrive(False, now=0.1)
    meter.may_arrive(True, now=0.8)
    meter.may_arrive(True, now=0.9)  # the clock runs already
    meter.arrived(100, now=1.0)
    assert meter.moved == pytest.approx((0.2, 100))


def test_a_sender_counts_while_bytes_are_on_their_way() -> None:
    meter = SendMeter()
    for now, is_moving in [(1.0, True), (2.0, True), (4.0, False), (9.0, True), (9.5, False)]:
        meter.note(is_moving, now=now)
    assert meter.seconds == 3.5


def test_one_chunk_is_too_little_for_a_receiver_to_tell_a_rate() -> None:
    link = VirtualLink(bytes(KiB), CONFIG, Schedule(up_rate=RATE))
    link.run()
    assert link.receiver.stats.mean_rate is None
    assert link.sender.stats.mean_rate is not None
