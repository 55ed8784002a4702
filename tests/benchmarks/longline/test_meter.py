"""The steady rate of bytes that arrive over time, with time as a number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.longline.meter import Meter, Span
from benchmarks.longline.rates import rates_by_second, steady_rate


def test_a_long_run_warms_up_for_ten_seconds_and_a_trial_for_a_part_of_it() -> None:
    assert Span.of(60) == Span(10.0, 60)
    assert Span.of(3) == Span(1.0, 3)
    assert Span.of(3).end == 4.0


@given(st.floats(1e3, 1e9), st.floats(1, 100), st.lists(st.floats(0.01, 0.5), min_size=1))
def test_what_arrives_at_one_rate_is_measured_at_that_rate(
    rate: float, seconds: float, steps: list[float]
) -> None:
    span, at, marks = Span.of(seconds), 0.0, [(0.0, 0)]
    while at < span.end:
        at += steps[len(marks) % len(steps)]
        marks.append((at, int(at * rate)))
    assert steady_rate(marks, span) == pytest.approx(rate, rel=0.01, abs=5)
    assert rates_by_second(marks, span).median == pytest.approx(rate, rel=0.01, abs=50)


def test_what_came_before_and_after_the_span_does_not_count() -> None:
    marks = [(0.0, 0), (10.0, 5), (70.0, 605), (71.0, 10_000)]
    assert steady_rate(marks, Span.of(60)) == 10.0


def test_a_pause_shows_in_the_spread_of_the_seconds() -> None:
    marks = [(0.0, 0), (10.0, 1000), (40.0, 4000), (55.0, 4000), (70.0, 5500)]
    seen = rates_by_second(marks, Span.of(60))
    assert (seen.low, seen.high) == (0.0, 100.0)


def test_bytes_that_end_before_the_span_does_give_no_rate() -> None:
    with pytest.raises(ValueError, match=r"ended too soon: after 69.0 of 70.0 s"):
        steady_rate([(0.0, 0), (69.0, 1)], Span.of(60))
    with pytest.raises(ValueError, match="ended too soon"):
        steady_rate([], Span.of(60))


def test_a_meter_starts_with_the_first_byte_and_is_over_after_its_span() -> None:
    meter = Meter(Span(1.0, 3.0))
    for tenth in range(40):
        meter.add(100, 1000.0 + tenth / 10)
        assert not meter.is_over
    meter.add(100, 1004.0)
    assert meter.is_over
    assert meter.marks[0] == (0.0, 100)
    assert steady_rate(meter.marks, Span(1.0, 3.0)) == pytest.approx(1000)


def test_a_meter_whose_bytes_come_one_by_one_keeps_few_marks() -> None:
    meter = Meter(Span(1.0, 3.0))
    for thousandth in range(4000):
        meter.add(1, 1000.0 + thousandth / 1000)
    assert len(meter.marks) <= 81


def test_whoever_waits_for_a_meter_learns_that_nothing_more_will_come() -> None:
    meter = Meter(Span(1.0, 3.0))
    assert not meter.wait(0)
    meter.stop()
    assert meter.wait(0)
