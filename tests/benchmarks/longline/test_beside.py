"""What is said of streamlink beside raw sockets on long lines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.longline.beside import CASES, Case, Found, possible, result
from benchmarks.longline.bottleneck import Line
from benchmarks.longline.meter import Span
from benchmarks.longline.raw import Raw
from benchmarks.longline.roads import RelayedRoad

SPAN = Span.of(60)


def found(ratio: float, pairs: int = 5) -> Found:
    return Found(Raw(8, "bbr"), {"raw": [20e6] * pairs, "streamlink": [ratio * 20e6] * pairs})


def test_each_line_is_judged_by_its_own_bound_and_all_of_them_by_all() -> None:
    ratios = (0.96, 0.95, 0.85, 0.97)
    seen = {case: found(ratio) for case, ratio in zip(CASES, ratios, strict=True)}
    assert result(list(CASES), seen, SPAN).met is True
    seen[CASES[3]] = found(0.95)
    all_but_one = result(list(CASES), seen, SPAN)
    assert all_but_one.met is False
    assert [row[-1] for row in all_but_one.rows] == ["met", "met", "met", "NOT met"]


def test_the_bounds_are_those_that_were_asked_for() -> None:
    assert [case.at_least for case in CASES] == [0.95, 0.95, 0.85, 0.96]
    assert [str(case) for case in CASES] == [
        "200 Mbit/s, 200 ms",
        "200 Mbit/s, 100 ms, 0.1% loss",
        "200 Mbit/s, 100 ms, 1.0% loss",
        "1000 Mbit/s, 200 ms, relay",
    ]


def test_a_trial_of_one_pair_judges_nothing() -> None:
    seen = {case: found(1.0, pairs=1) for case in CASES}
    trial = result(list(CASES), seen, SPAN)
    assert trial.met is None
    assert {row[-1] for row in trial.rows} == {"not judged"}


def test_where_no_line_can_be_emulated_a_relay_serves_but_judges_nothing() -> None:
    cases = [possible(case, "it needs root") for case in CASES]
    assert [case.is_relayed for case in cases] == [True, False, False, True]
    assert [bool(case.skipped) for case in cases] == [False, True, True, False]
    seen = {case: found(1.0) for case in cases if not case.skipped}
    told = result(cases, seen, SPAN)
    assert told.met is None
    assert told.rows[1][1] == "not measured: a relay loses nothing"
    assert told.facts["lines"][1]["skipped"] == "it needs root"
    assert [row[-1] for row in told.rows] == ["not judged", "", "", "met"]


def test_where_a_line_can_be_emulated_all_cases_stay_as_they_are() -> None:
    assert [possible(case, "") for case in CASES] == list(CASES)


def test_a_relay_refuses_to_be_a_line_with_losses() -> None:
    with pytest.raises(ValueError, match="loses nothing"):
        RelayedRoad(Line(rate=1e6, round_trip=0.1, loss=0.1))
    with pytest.raises(ValueError, match="loses nothing"):
        replace(CASES[1], is_relayed=True).road()


def test_packets_that_the_forwarder_was_too_late_for_are_told() -> None:
    late = replace(found(0.96), unread=7)
    row = result([CASES[0]], {CASES[0]: late}, SPAN).rows[0]
    assert row[-1] == "met, 7 unread"


def test_the_table_has_both_rates_and_their_ratio() -> None:
    case = Case(Line(rate=200e6, round_trip=0.2), 0.95)
    row = result([case], {case: found(0.5)}, SPAN).rows[0]
    assert row[1:] == (
        "8 connections, bbr",
        "20.0",
        "10.0",
        "0.50x (0.50..0.50)",
        "0.95",
        "NOT met",
    )
