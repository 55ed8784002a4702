"""Window, credit and delayed acks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.config import StreamConfig
from streamlink.protocol.flow_control import (
    ACK_DELAY,
    CHUNK_SECONDS,
    CHUNKS_IN_WINDOW,
    NEW_LANE_CHUNKS,
    Credit,
    DelayedAck,
    SendWindow,
    credit_for,
    initial_window,
)
from streamlink.protocol.timers import Timers

KiB, MiB = 1 << 10, 1 << 20
CONFIG = StreamConfig()


def a_window(chunk_bytes: int = 2 * MiB, ack_wait: float = 300.0) -> SendWindow:
    return SendWindow(CONFIG, chunk_bytes=chunk_bytes, ack_wait=ack_wait)


def deliver(window: SendWindow, *, rate: float, round_trip: float, chunks: int = 2000) -> None:
    """Let ``window`` fill a link of ``rate`` bytes per second for a while."""
    sent = received = 0
    now = 0.0
    for _ in range(chunks):
        start = received
        while sent - received < window.window_bytes:
            sent += window.chunk_bytes
            window.sent(sent, received=start, now=now)
        now += max(round_trip, window.chunk_bytes / rate)
        received = min(sent, received + int(max(rate * round_trip, window.chunk_bytes)))
        window.acked(received, now=now)


# --- credit ---------------------------------------------------------------------------


def test_the_first_credit_is_the_window() -> None:
    assert Credit(100).limit == 100


@pytest.mark.parametrize(
    ("window", "limit"), [(40_001, 40_000), (49_999, 40_000), (39_999, 39_999)]
)
def test_a_window_of_four_chunks_or_more_is_of_whole_ones(window: int, limit: int) -> None:
    config = StreamConfig(chunk_bytes=20_000, window_bytes=window)
    assert credit_for(config, 10_000).limit == limit


def test_credit_is_given_again_though_chunks_begin_larger_than_the_peers_largest() -> None:
    config = StreamConfig(chunk_bytes=65_536, min_chunk_bytes=65_536, window_bytes=65_536)
    credit = credit_for(config, 5_000)
    assert credit.limit == 65_000
    credit.release(65_000)
    assert credit.grant() == 130_000


@pytest.mark.parametrize(("room", "nbytes"), [(12_999, 5_000), (13_000, 3_000)])
def test_a_chunk_ends_at_a_multiple_only_where_two_more_have_room(room: int, nbytes: int) -> None:
    config = StreamConfig(chunk_bytes=5_000, min_chunk_bytes=5_000, window_bytes=50_000)
    window = SendWindow(config, chunk_bytes=5_000, ack_wait=60.0)
    assert window.next_chunk_bytes(2_000, received=0, limit=2_000 + room, stop=1 << 20) == nbytes


def test_credit_returns_when_bytes_are_taken() -> None:
    credit = Credit(100)
    credit.release(30)
    assert credit.limit == 100
    assert credit.grant() == 130


def test_a_quarter_of_the_window_is_worth_a_word() -> None:
    credit = Credit(100)
    is_due = []
    for nbytes in (24, 1):
        credit.release(nbytes)
        is_due.append(credit.is_due)
    credit.grant()
    assert [*is_due, credit.is_due] == [False, True, False]


def test_crumbs_are_not_granted() -> None:
    credit = Credit(100, quantum_bytes=10)
    credit.release(9)
    assert credit.grant() == 100
    credit.release(1)
    assert credit.grant() == 110


@given(
    st.integers(8, 1000), st.integers(1, 8), st.lists(st.tuples(st.integers(0, 9), st.booleans()))
)
def test_credit_never_shrinks_and_never_exceeds_what_was_taken_by_more_than_the_window(
    window: int, quantum: int, steps: list[tuple[int, bool]]
) -> None:
    credit = Credit(window, quantum_bytes=quantum)
    for nbytes, is_granted in steps:
        before = credit.limit
        credit.release(min(nbytes, credit.limit - credit.consumed))
        if is_granted:
            credit.grant()
        assert before <= credit.limit <= credit.consumed + window


@given(st.integers(8, 1000), st.integers(1, 8))
def test_a_reader_that_has_taken_everything_always_has_credit_to_give(
    window: int, quantum: int
) -> None:
    credit = Credit(window, quantum_bytes=quantum)
    credit.release(credit.limit)
    assert credit.is_due
    assert credit.grant() > credit.consumed


# --- window -----------------------------------------------------------------------------


def test_a_stream_starts_small() -> None:
    window = a_window()
    assert (window.chunk_bytes, window.window_bytes) == (64 * KiB, 1 * MiB)


LONG = [(0.0, 1 * MiB), (0.05, 1 * MiB), (0.1, 2 * MiB), (0.2, 4 * MiB), (3600.0, 4 * MiB)]


@pytest.mark.parametrize(("round_trip", "nbytes"), LONG)
def test_a_stream_begins_with_more_on_a_long_line(round_trip: float, nbytes: int) -> None:
    window = SendWindow(CONFIG, chunk_bytes=2 * MiB, ack_wait=300.0, round_trip=round_trip)
    assert (window.chunk_bytes, window.wanted_bytes) == (64 * KiB, nbytes)
    assert initial_window(1 * MiB, 4 * MiB, round_trip) == nbytes


@pytest.mark.parametrize(
    ("settings", "nbytes"),
    [
        ({"initial_window_bytes": 1 * MiB}, 1 * MiB),
        ({"initial_window_bytes": 4 * KiB}, 64 * KiB),  # a chunk
        ({"window_bytes": 2 * MiB}, 2 * MiB),
        ({"memory_bytes": 512 * MiB}, 1 * MiB),
    ],
)
def test_a_long_line_has_no_more_than_settings_permit(
    settings: dict[str, int], nbytes: int
) -> None:
    config = StreamConfig.model_validate(settings)
    window = SendWindow(config, chunk_bytes=2 * MiB, ack_wait=300.0, round_trip=10.0)
    assert (window.wanted_bytes, window.window_bytes) == (nbytes, nbytes)


def test_the_initial_window_stays_for_a_round_trip_of_acks_and_then_follows_the_rate() -> None:
    window = SendWindow(CONFIG, chunk_bytes=2 * MiB, ack_wait=300.0, round_trip=0.6)
    for end in range(64 * KiB, 4 * MiB + 1, 64 * KiB):
        window.sent(end, received=0, now=0.0)
    sizes = []
    for number, moment in enumerate((0.9, 1.2, 1.5, 1.8, 2.1), start=1):  # 64 KiB each 0.3 s
        window.acked(number * 64 * KiB, now=moment)
        sizes.append(window.window_bytes)
    assert sizes == [4 * MiB, 4 * MiB, 4 * MiB, 1 * MiB, 1 * MiB]


def test_a_fast_link_gets_large_chunks_and_the_whole_window() -> None:
    window = a_window()
    deliver(window, rate=1e9, round_trip=0.001)
    assert (window.chunk_bytes, window.window_bytes) == (2 * MiB, 16 * MiB)


def test_a_long_link_gets_a_window_of_more_than_a_round_trip() -> None:
    window = a_window()
    deliver(window, rate=2e7, round_trip=0.2)
    assert window.window_bytes >= 2e7 * 0.2


def test_a_slow_link_keeps_small_chunks() -> None:
    window = a_window()
    deliver(window, rate=100e3, round_trip=0.05)
    assert window.chunk_bytes == 64 * KiB


def test_a_chunk_stays_well_under_what_the_ack_wait_allows() -> None:
    window = a_window(ack_wait=0.02)
    deliver(window, rate=1e8, round_trip=0.0001)
    assert window.chunk_bytes <= max(64 * KiB, window.rate * 0.02 / 8 * 1.01)


def test_an_ack_wait_of_half_a_second_keeps_chunks_small_on_a_slow_link() -> None:
    window = a_window(ack_wait=0.5)
    deliver(window, rate=200 * KiB, round_trip=0.05)
    assert (window.chunk_bytes, window.window_bytes) == (64 * KiB, 1 * MiB)


@pytest.mark.parametrize("lanes", [1, 2, 4, 16])
def test_each_lane_has_room_for_several_chunks(lanes: int) -> None:
    window = a_window()
    window.count_lanes(lanes, NEW_LANE_CHUNKS)
    deliver(window, rate=1e9, round_trip=0.001)
    assert window.window_bytes == 16 * MiB
    assert window.chunk_bytes == min(2 * MiB, 16 * MiB // (CHUNKS_IN_WINDOW * lanes))


def test_beside_a_new_lane_chunks_are_as_small_as_it_takes_them() -> None:
    window = a_window()
    deliver(window, rate=1e9, round_trip=0.001)
    sizes = []
    for arrived in range(NEW_LANE_CHUNKS + 1):
        window.count_lanes(2, arrived)
        sizes.append(window.chunk_bytes)
        assert window.chunk_bytes <= window.new_lane_takes(arrived)
    assert sizes == [64 * KiB, 128 * KiB, 256 * KiB, 512 * KiB, 2 * MiB]


@given(st.floats(1e3, 1e10), st.floats(1e-4, 1.0))
def test_the_window_holds_four_chunks_and_none_takes_long(rate: float, round_trip: float) -> None:
    window = a_window()
    deliver(window, rate=rate, round_trip=round_trip, chunks=50)
    assert window.window_bytes >= CHUNKS_IN_WINDOW * window.chunk_bytes
    assert window.chunk_bytes <= max(64 * KiB, window.rate * CHUNK_SECONDS)


def test_chunks_grow_where_it_is_their_number_that_keeps_the_rate_low() -> None:
    window = a_window()
    sent, now = 0, 0.0
    for _ in range(200):  # 64 streams share a processor that needs a millisecond for a chunk
        before, sent, now = sent, sent + window.chunk_bytes, now + 0.064
        window.sent(sent, received=before, now=now - 0.064)
        window.acked(sent, now=now)
    assert window.chunk_bytes >= 256 * KiB


@pytest.mark.parametrize(
    ("position", "facts", "nbytes"),
    [
        (0, {}, 64),
        (32, {}, 32),  # to the next multiple
        (63.5, {}, 64),  # not for a crumb
        (32, {"limit": 96}, 64),  # not where credit would cut the next one anyway
        (990, {"received": 960, "limit": 2000}, 10),  # the model ends
        (128, {"limit": 150}, 0),  # more room will come with the next ack
        (128, {"received": 128, "limit": 150}, 22),  # nothing else could bring any
        (128, {"received": 128, "limit": 100}, 0),
    ],
)
def test_the_next_chunk_takes_what_is_worth_one(
    position: float, facts: dict[str, int], nbytes: int
) -> None:
    """All in KiB: a model of 1000, chunks of 64, a window of 1024."""
    known = {"received": 0, "limit": 1000, "stop": 1000, **facts}
    window, at = a_window(chunk_bytes=64 * KiB), int(position * KiB)
    assert (
        window.next_chunk_bytes(at, **{name: value * KiB for name, value in known.items()})
        == nbytes * KiB
    )


def test_an_agreed_chunk_size_below_the_smallest_is_kept() -> None:
    window = a_window(chunk_bytes=16 * KiB)
    deliver(window, rate=1e9, round_trip=0.001)
    assert window.chunk_bytes == 16 * KiB


def test_an_ack_that_completes_no_sample_changes_nothing() -> None:
    window = a_window()
    window.sent(1000, received=0, now=0.0)
    window.acked(999, now=1.0)
    assert window.rate == 0.0


def test_what_a_lost_call_carried_is_no_sample() -> None:
    window = a_window()
    window.sent(1000, received=0, now=0.0)
    window.drop_samples()
    window.acked(1000, now=1.0)
    assert window.rate == 0.0


def test_an_ack_in_the_same_instant_does_not_divide_by_zero() -> None:
    window = a_window()
    window.sent(1000, received=0, now=5.0)
    window.acked(1000, now=5.0)
    assert window.rate > 0


@given(st.lists(st.tuples(st.integers(1, 10**9), st.floats(0, 10)), max_size=50))
def test_window_and_chunk_stay_within_the_settings(steps: list[tuple[int, float]]) -> None:
    window, sent, now = a_window(), 0, 0.0
    for nbytes, seconds in steps:
        sent, now = sent + nbytes, now + seconds
        window.sent(sent, received=sent - nbytes, now=now)
        window.acked(sent, now=now + seconds / 2)
        assert 64 * KiB <= window.chunk_bytes <= 2 * MiB
        assert 1 * MiB <= window.window_bytes <= 16 * MiB


def a_rule(in_window: int = 8, *, report_seconds: float = 0.5) -> tuple[DelayedAck, Timers]:
    """Return a rule for chunks of 10 bytes that has just told, and its clocks."""
    timers = Timers()
    rule = DelayedAck(10 * in_window, report_seconds=report_seconds, timers=timers)
    rule.set_chunk_bytes(10)
    rule.sent(now=0.0)
    return rule, timers


@pytest.mark.parametrize(("in_window", "speaks_for"), [(3, 1), (4, 2), (7, 2), (8, 3), (100, 3)])
def test_the_wider_the_window_the_more_full_chunks_share_an_ack(
    in_window: int, speaks_for: int
) -> None:
    rule, _ = a_rule(in_window)
    count = 0
    while not rule.is_due:
        rule.delivered(1, is_full=True, now=0.0)
        count += 1
    assert count == speaks_for


def test_chunks_that_come_together_count_each() -> None:
    rule, _ = a_rule()
    rule.delivered(3, is_full=True, now=0.0)
    assert rule.is_due


def test_a_small_chunk_is_acknowledged_at_once() -> None:
    rule, timers = a_rule()
    rule.delivered(1, is_full=False, now=0.0)
    assert (rule.is_due, timers.next_deadline()) == (True, None)


def test_an_ack_that_waits_is_due_a_moment_later() -> None:
    rule, timers = a_rule()
    rule.delivered(1, is_full=True, now=5.0)
    assert not rule.is_due
    assert timers.next_deadline() == pytest.approx(5.1)
    rule.timer_expired()
    assert (rule.is_due, timers.next_deadline()) == (True, None)


def test_nobody_waits_before_the_size_of_a_chunk_is_agreed() -> None:
    rule = DelayedAck(800, report_seconds=0.5, timers=Timers())
    rule.delivered(1, is_full=True, now=0.0)
    assert rule.is_due


def test_an_ack_speaks_for_all_and_the_count_begins_anew() -> None:
    rule, timers = a_rule()
    rule.delivered(2, is_full=True, now=0.0)
    rule.sent(now=0.0)
    rule.delivered(1, is_full=True, now=0.0)
    assert not rule.is_due
    rule.sent(now=0.0)
    assert not timers.is_running(ACK_DELAY)


@pytest.mark.parametrize(
    ("untold", "is_credit_due", "is_all_consumed", "is_due"),
    [
        (1, True, False, True),
        (2, False, True, True),
        (1, False, True, False),  # a second one may be close behind
        (2, False, False, False),
    ],
)
def test_what_was_taken_is_told_at_once_where_the_sender_may_wait_for_it(
    untold: int, is_credit_due: bool, is_all_consumed: bool, is_due: bool
) -> None:
    rule, _ = a_rule()
    rule.delivered(untold, is_full=True, now=0.0)
    rule.consumed(is_credit_due=is_credit_due, is_all_consumed=is_all_consumed, now=0.0)
    assert rule.is_due is is_due


@pytest.mark.parametrize(("report_seconds", "told_after"), [(0.5, 0.5), (30.0, 1.0)])
def test_what_was_taken_is_told_within_a_second(report_seconds: float, told_after: float) -> None:
    rule, timers = a_rule(report_seconds=report_seconds)
    rule.consumed(is_credit_due=False, is_all_consumed=False, now=0.1)
    rule.consumed(is_credit_due=False, is_all_consumed=False, now=0.2)
    assert not rule.is_due
    assert timers.next_deadline() == pytest.approx(told_after)
    rule.consumed(is_credit_due=False, is_all_consumed=False, now=told_after)
    assert rule.is_due
