"""The window that a model of a probe begins with, and what growing costs: what always holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.probing.growth import burst_rate, grown_window, growth_seconds, rate_in_window

RATES, ROUND_TRIPS, WINDOWS = st.floats(1e3, 1e10), st.floats(1e-5, 2.0), st.floats(1.0, 1e9)


def test_a_window_loses_what_it_does_not_fill_of_each_round_trip() -> None:
    # 1, 2, 4 and 8 of 16 MB: in the fifth round trip the line is full.
    lost = growth_seconds(1e6, rate=80e6, round_trip=0.2)
    assert lost == pytest.approx(0.2 * (15 + 14 + 12 + 8) / 16)


@given(RATES, ROUND_TRIPS)
def test_a_stream_that_begins_with_what_it_grows_to_loses_nothing(
    rate: float, round_trip: float
) -> None:
    window = grown_window(rate, round_trip) + 1
    assert growth_seconds(window, rate, round_trip) == 0.0


@given(RATES, ROUND_TRIPS)
def test_a_window_tells_the_rate_that_it_is_for(rate: float, round_trip: float) -> None:
    found = rate_in_window(grown_window(rate, round_trip), round_trip)
    assert found == pytest.approx(rate, abs=1 / round_trip)  # a window is whole bytes


@given(WINDOWS, RATES, ROUND_TRIPS, st.floats(1.0, 100.0))
def test_a_larger_window_never_loses_more(
    window: float, rate: float, round_trip: float, times: float
) -> None:
    less = growth_seconds(window * times, rate, round_trip)
    assert less <= growth_seconds(window, rate, round_trip) * (1 + 1e-9)


@given(st.floats(max_value=0.0))
def test_a_window_of_nothing_is_refused(window: float) -> None:
    with pytest.raises(ValueError, match="does not grow"):
        growth_seconds(window, 1e6, 0.1)


def test_bursts_show_what_a_line_carries_and_silence_does_not_count() -> None:
    # 4 MB at 40 MB/s, then silence for as long, twice.
    curve = [(0.02 * n, 800_000 * n) for n in range(6)]
    curve += [(0.2 + 0.02 * n, 4_000_000 + 800_000 * n) for n in range(1, 6)]
    assert burst_rate(curve) == pytest.approx(40e6)
    assert curve[-1][1] / curve[-1][0] < 30e6


def test_the_moments_of_two_samples_are_too_uncertain_for_a_rate() -> None:
    assert burst_rate([(0.0, 1), (0.001, 15_001)]) == pytest.approx(1e6)


@pytest.mark.parametrize("curve", [[], [(0.5, 1000)]])
def test_less_than_two_samples_show_no_burst(curve: list[tuple[float, int]]) -> None:
    assert burst_rate(curve) == 0.0


@given(RATES, st.floats(1.0, 5.0))
def test_a_steady_line_bursts_at_its_rate(rate: float, seconds: float) -> None:
    curve = [(seconds * n / 100, int(rate * seconds * n / 100)) for n in range(101)]
    assert burst_rate(curve) == pytest.approx(rate, rel=0.01, abs=100)
