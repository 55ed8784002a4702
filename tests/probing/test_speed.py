"""Rates from arrivals: exact for a steady line, without the start, alike in any unit of time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.probing.speed import speed_of

RATES = st.floats(1e3, 1e9)


def arrivals(
    rate: float, seconds: float, count: int, start: float = 0.0
) -> list[tuple[float, int]]:
    """What arrives on a steady line in ``count`` equal pieces, after ``start``."""
    step = seconds / count
    return [(start + n * step, int(rate * n * step)) for n in range(1, count + 1)]


@given(RATES, st.floats(0.5, 10.0), st.integers(6, 200), st.floats(0.0, 5.0))
def test_a_steady_line_has_its_rate_and_its_start(
    rate: float, seconds: float, count: int, start: float
) -> None:
    samples = arrivals(rate, seconds, count, start)
    found = speed_of([(samples[-1][1], start + seconds, samples)])
    assert found.rate == pytest.approx(rate, rel=0.02)
    assert found.start_seconds == pytest.approx(start, abs=0.03 * seconds + 1e-9)
    # Bytes are whole numbers: of a slow line a part of one is missing.
    assert found.seconds_for(samples[-1][1]) == pytest.approx(start + seconds, rel=0.01)


@given(RATES, RATES, st.floats(1.0, 5.0))
def test_models_at_the_same_time_add_up(first: float, second: float, seconds: float) -> None:
    every = [arrivals(rate, seconds, 60) for rate in (first, second)]
    found = speed_of([(each[-1][1], seconds, each) for each in every])
    assert found.rate == pytest.approx(first + second, rel=0.02)


def test_a_slow_start_counts_as_start_and_not_as_rate() -> None:
    slow = [(0.1 * n, 1000 * n) for n in range(1, 11)]  # 10 kB/s for a second
    fast = [(1.0 + 0.1 * n, 10_000 + 100_000 * n) for n in range(1, 31)]  # then 1 MB/s
    found = speed_of([(fast[-1][1], 4.0, [*slow, *fast])])
    assert found.rate == pytest.approx(1e6, rel=0.02)
    assert found.start_seconds == pytest.approx(0.99, abs=0.05)


def ramp(until: float, *, begins: float = 0.75, stop: float = 4.2) -> list[tuple[float, int]]:
    """What arrives on a line of 12.5 MB/s that takes until then to reach its rate."""
    at, total, samples = begins, 0.0, []
    while at < stop:
        at += 0.02
        total += 0.02 * 12.5e6 * min(1.0, (at - begins) / (until - begins))
        samples.append((at, int(total)))
    return samples


@pytest.mark.parametrize("until", [1.0, 1.9, 2.5, 3.0])
def test_a_start_that_takes_longer_than_a_third_is_no_part_of_the_rate(until: float) -> None:
    samples = ramp(until)
    found = speed_of([(samples[-1][1], samples[-1][0], samples)])
    assert found.rate == pytest.approx(12.5e6, rel=0.04)


def test_a_line_that_is_slower_for_a_while_later_has_the_mean_of_all() -> None:
    steady, total = arrivals(1e6, 3.0, 60), 3 * 10**6
    slow = [(3.0 + 0.05 * n, total + 25_000 * n) for n in range(1, 21)]
    again = [(4.0 + 0.05 * n, total + 500_000 + 50_000 * n) for n in range(1, 41)]
    found = speed_of([(again[-1][1], 6.0, [*steady, *slow, *again])])
    assert found.rate == pytest.approx(3.5e6 / 4, rel=0.03)


def test_what_the_other_direction_does_not_share_is_left_out() -> None:
    # Alone again after 2 s: twice the rate.
    beside = arrivals(5e5, 2.0, 40)
    alone = [(2.0 + 0.05 * n, 10**6 + 50_000 * n) for n in range(1, 41)]
    found = speed_of([(3 * 10**6, 4.0, [*arrivals(5e5, 2.0, 40), *alone])], [beside])
    assert found.rate == pytest.approx(5e5, rel=0.05)


def test_a_stall_is_the_longest_gap_and_the_slowest_part() -> None:
    before = arrivals(1e6, 4.0, 80)
    after = [(7.0 + 0.05 * n, 4 * 10**6 + 50_000 * n) for n in range(80)]
    found = speed_of([(8 * 10**6, 11.0, [*before, *after])])
    assert found.longest_gap == pytest.approx(3.0, abs=0.01)
    assert found.lowest < 0.7e6 < 0.95e6 < found.highest
    assert found.variation > 0.5


@pytest.mark.parametrize("samples", [[], [(0.01, 1000)]])
def test_too_few_arrivals_give_the_mean_of_all(samples: list[tuple[float, int]]) -> None:
    found = speed_of([(1000, 0.02, samples)])
    assert found.rate == pytest.approx(50_000)
    assert (found.lowest, found.highest) == (found.rate, found.rate)


@pytest.mark.parametrize("flows", [[], [(0, 1.0, [])], [(10, 0.0, [])]])
def test_nothing_has_no_speed(flows: list[tuple[int, float, list[tuple[float, int]]]]) -> None:
    with pytest.raises(ValueError, match="at least one model"):
        speed_of(flows)


def test_what_waits_for_acks_in_its_first_round_trips_has_the_rate_of_its_bursts() -> None:
    # Two windows of 10 MB at 100 MB/s, of which the second waits for acks for a round trip.
    first = [(0.2 + 0.01 * n, 10**6 * n) for n in range(1, 11)]
    second = [(0.5 + 0.01 * n, 10**7 + 10**6 * n) for n in range(1, 11)]
    samples = [*first, *second]
    flow, beside = (2 * 10**7, 0.8, samples), [samples]
    assert speed_of([flow], beside, round_trip=0.2).rate == pytest.approx(1e8, rel=0.4)
    assert speed_of([flow], beside, round_trip=0.2).rate > 1.5 * speed_of([flow], beside).rate
    # Many round trips: then to wait for acks is what the line does.
    assert speed_of([flow], beside, round_trip=0.02).rate == speed_of([flow], beside).rate
