"""The line's queue as arithmetic on time: rate, delay, order, the queue's bound and the losses."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.links.lines import Line as AnyLine
from benchmarks.links.lines import Stalls, Way, parse_line
from benchmarks.longline.bottleneck import BURST_SECONDS, Bottleneck, Line, Long

SLOW = Line(rate=8e6, round_trip=0.1)  # a byte per microsecond
PACKETS = st.lists(st.tuples(st.floats(0, 0.05), st.integers(20, 1500)), min_size=1, max_size=60)


def sent(line: Long, packets: list[tuple[float, int]]) -> tuple[Bottleneck, list[float | None]]:
    """Return what becomes of packets that enter one after another, so many seconds apart."""
    bottleneck, now, dues = Bottleneck(line), 1000.0, []
    for wait, nbytes in packets:
        now += wait
        dues.append(bottleneck.enter(nbytes, now=now))
    return bottleneck, dues


@given(PACKETS, st.floats(1e5, 1e9), st.floats(0, 0.5), st.floats(0, 0.9))
def test_no_packet_overtakes_or_arrives_before_its_delay(
    packets: list[tuple[float, int]], rate: float, round_trip: float, loss: float
) -> None:
    _, dues = sent(Line(rate=rate, round_trip=round_trip, loss=loss), packets)
    now, arrivals = 1000.0, []
    for (wait, _), due in zip(packets, dues, strict=True):
        now += wait
        if due is not None:
            assert due >= now + round_trip / 2
            arrivals.append(due)
    assert all(earlier <= later for earlier, later in pairwise(arrivals))


@given(PACKETS, st.floats(1e5, 1e9))
def test_what_arrives_never_exceeds_the_rate_but_for_a_burst(
    packets: list[tuple[float, int]], rate: float
) -> None:
    _, dues = sent(Line(rate=rate, round_trip=0.1), packets)
    passed = [(due, n) for (_, n), due in zip(packets, dues, strict=True) if due is not None]
    total = sum(nbytes for _, nbytes in passed)
    seconds = passed[-1][0] - (1000.0 + packets[0][0] + 0.05)
    assert total <= (seconds + BURST_SECONDS) * rate / 8 + 1e-6 * rate


@given(PACKETS, st.floats(1e5, 1e8), st.floats(0, 0.5))
def test_the_queue_holds_one_bandwidth_delay_product_and_the_rest_is_dropped_at_its_tail(
    packets: list[tuple[float, int]], rate: float, round_trip: float
) -> None:
    line = Line(rate=rate, round_trip=round_trip)
    bottleneck, dues = sent(line, packets)
    assert bottleneck.counts.most_queued_bytes <= line.queue_bytes
    assert bottleneck.counts.dropped == dues.count(None)
    assert bottleneck.counts.packets == len(packets)
    assert bottleneck.counts.nbytes == sum(nbytes for _, nbytes in packets)


def test_a_full_queue_takes_a_packet_again_as_soon_as_one_has_left() -> None:
    bottleneck = Bottleneck(SLOW)
    taken = 0
    while bottleneck.enter(1000, now=1000.0) is not None:
        taken += 1
    in_burst = BURST_SECONDS * SLOW.bytes_per_second  # the line was idle before
    assert taken == (SLOW.queue_bytes + in_burst) // 1000
    assert bottleneck.enter(1000, now=1000.0005) is None
    assert bottleneck.enter(1000, now=1000.0011) is not None


@pytest.mark.parametrize("rate", [2e5, 200e6, 1e9])
def test_a_line_that_always_has_a_queue_keeps_its_rate_exactly(rate: float) -> None:
    bottleneck, now, seconds = Bottleneck(Line(rate=rate, round_trip=0.1)), 1000.0, 5.0
    first = due = bottleneck.enter(1500, now=now)
    passed = 0
    while due is not None and first is not None and due < first + seconds:
        due = bottleneck.enter(1500, now=max(now, due - 0.05 - 0.02))  # 20 ms of queue
        passed += 1500
    assert passed / seconds == pytest.approx(rate / 8, rel=0.01)


@pytest.mark.parametrize("loss", [0.001, 0.01, 0.3])
def test_so_large_a_share_of_the_packets_is_lost(loss: float) -> None:
    line = Line(rate=1e12, round_trip=0.0, loss=loss)
    bottleneck, dues = sent(line, [(0.001, 100)] * 40_000)
    spread = math.sqrt(40_000 * loss)
    assert bottleneck.counts.lost == dues.count(None)
    assert bottleneck.counts.lost == pytest.approx(40_000 * loss, abs=4 * spread)


@given(st.lists(st.floats(0, 0.05), min_size=200, max_size=200), st.integers(0, 5))
def test_which_packets_are_lost_depends_on_the_seed_alone_and_never_on_time(
    waits: list[float], seed: int
) -> None:
    line = Line(rate=1e12, round_trip=0.1, loss=0.2, seed=seed)
    _, at_times = sent(line, [(wait, 1500) for wait in waits])
    _, at_once = sent(line, [(0.0, 1500)] * len(waits))
    assert [due is None for due in at_times] == [due is None for due in at_once]


def test_seeds_and_directions_lose_other_packets() -> None:
    def lost(seed: int, direction: int) -> list[bool]:
        line = Line(rate=1e12, round_trip=0.1, loss=0.2, seed=seed)
        bottleneck = Bottleneck(line, direction)
        return [bottleneck.enter(1500, now=0.0) is None for _ in range(200)]

    assert len({tuple(lost(seed, direction)) for seed in (0, 1) for direction in (0, 1)}) == 4


# --- directions that differ, jitter and stalls ---------------------------------------------------


@given(PACKETS, st.floats(0, 0.1), st.floats(0, 0.5))
def test_jitter_delays_packets_and_neither_reorders_nor_loses_any(
    packets: list[tuple[float, int]], jitter: float, loss: float
) -> None:
    way = Way(rate=1e6, delay=0.02, loss=loss)
    _, exact = sent(AnyLine("exact", way, way), packets)
    late = Way(rate=1e6, delay=0.02, loss=loss, jitter=jitter)
    _, dues = sent(AnyLine("late", late, late), packets)
    assert [due is None for due in dues] == [due is None for due in exact]
    pairs = [(a, b) for a, b in zip(exact, dues, strict=True) if a is not None and b is not None]
    assert all(a <= b for a, b in pairs)
    # Late by its own jitter, or by that of one in front of it, which then arrived no earlier.
    assert all(b <= a + jitter + 1e-6 for a, b in pairs)
    assert all(one <= other for (_, one), (_, other) in pairwise(pairs))


def test_each_direction_has_its_own_rate_and_queue() -> None:
    line = parse_line("up=8Mbit,down=80Mbit,200ms,loss=1%")
    up, down = (Bottleneck(line, direction) for direction in (0, 1))
    counts = []
    for each in (up, down):
        for _ in range(3000):
            each.enter(1000, now=1000.0)
        counts.append(each.counts.packets - each.counts.dropped)
    # One bandwidth-delay product, and the burst of a line that was idle.
    assert counts == pytest.approx([1e6 * 0.205 / 1000, 10e6 * 0.205 / 1000], abs=1)


def test_while_a_line_stands_still_packets_wait_in_its_queue_and_leave_afterwards() -> None:
    way = Way(rate=8e6, delay=0.05, stalls=Stalls(1.0, 10.0))
    line = AnyLine("stalls", way, way)
    bottleneck = Bottleneck(line, began_at=100.0)
    assert bottleneck.enter(1000, now=109.9) == pytest.approx(109.95, abs=0.01)
    within = bottleneck.enter(1000, now=110.2)
    assert within == pytest.approx(111.0 + 0.05, abs=0.01)
    taken = 0
    while bottleneck.enter(1000, now=110.3) is not None:
        taken += 1
    # The queue is as long as ever: the second that nothing moves for is no part of it.
    assert (taken + 1) * 1000 == pytest.approx(Line(rate=8e6, round_trip=0.1).queue_bytes, abs=1000)
    assert bottleneck.enter(1000, now=111.5) == pytest.approx(111.55, abs=0.01)
    assert bottleneck.enter(1000, now=120.5) == pytest.approx(121.05, abs=0.01)


def test_a_line_stands_still_for_so_large_a_share_of_the_time() -> None:
    way = Way(rate=8e6, stalls=Stalls(1.0, 5.0))
    bottleneck, now, passed = Bottleneck(AnyLine("stalls", way, way)), 5.0, 0
    last = 0.0
    while last < 105.0:
        due = bottleneck.enter(1000, now=now)
        if due is None:
            now += 0.001
        else:
            last, passed = due, passed + 1000
    assert passed / 100.0 == pytest.approx(0.8e6, rel=0.01)


def test_a_direction_without_a_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a rate in each direction"):
        Bottleneck(AnyLine("no rate", Way(delay=0.005), Way(delay=0.005)))


@pytest.mark.parametrize(
    "wrong", [{"rate": 0.0}, {"loss": 1.0}, {"loss": -0.1}, {"round_trip": -1.0}, {"mtu": 100}]
)
def test_a_line_over_which_nothing_could_pass_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="Line"):
        Line(**{"rate": 1e6, "round_trip": 0.1, **wrong})  # type: ignore[arg-type]


def test_a_line_says_what_it_is() -> None:
    assert str(Line(rate=200e6, round_trip=0.1, loss=0.001)) == "200 Mbit/s, 100 ms, 0.1% loss"
    assert str(Line(rate=1e9, round_trip=0.2)) == "1000 Mbit/s, 200 ms"
