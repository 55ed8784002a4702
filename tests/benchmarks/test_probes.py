"""The forecast of the probe beside transfers: which lines, what is allowed, and one quick run."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from benchmarks import probes
from benchmarks.probes import LINES, QUICK


def test_fast_and_slow_lines_are_relayed_with_and_without_delay() -> None:
    relayed = {(each.line.rate, each.line.round_trip) for each in LINES if each.is_relayed}
    assert relayed >= set(product((1e8, 1e9), (0.0, 0.05, 0.2)))
    assert (8 * 200 * 1024, 0.02) in relayed


def test_each_line_is_measured_once_and_has_a_name_of_its_own() -> None:
    assert len({str(each) for each in LINES}) == len(LINES)


def test_only_a_line_that_loses_packets_may_be_off_by_more_than_a_tenth() -> None:
    assert [each.allowed for each in LINES if each.line.loss] == [0.2]
    assert {each.allowed for each in LINES if not each.line.loss} == {0.1}


@pytest.mark.parametrize(("forecast", "off"), [(11.0, 0.1), (9.0, 0.1), (10.0, 0.0)])
def test_a_forecast_is_off_by_a_share_of_what_the_transfer_took(
    forecast: float, off: float
) -> None:
    assert probes.deviation(forecast, 10.0) == pytest.approx(off)


def told(off: float) -> dict[str, Any]:
    way = {"forecast": 10.0 * (1 + off), "took": 10.0, "bytes": 1.0}
    return {"transfers": {"down": {**way, "forecast": 10.0}, "up": way}}


def test_what_was_measured_is_judged_where_a_line_is_missing_too() -> None:
    clean, lossy = LINES[0], LINES[-1]
    assert probes.is_met({clean: told(0.09), lossy: told(-0.19)}) is True
    assert probes.is_met({clean: told(0.11)}, missing=[lossy]) is False
    assert probes.is_met({clean: told(0.09), lossy: told(0.21)}) is False
    assert probes.is_met({clean: told(0.09)}, missing=[lossy]) is None


@pytest.mark.parametrize(("off", "met"), [(0.09, None), (0.4, False)])
def test_without_root_the_relayed_lines_are_judged_and_the_others_are_named(
    off: float, met: bool | None
) -> None:
    result = probes.run(quick=False, part=lambda name, seconds, measure: told(off),
                        why_no_losses=lambda: "it needs root")  # fmt: skip
    assert result.met is met
    assert len(result.facts["lines"]) == 7
    missing = [row[0] for row in result.rows if row[1] == "not measured: it needs root"]
    assert missing == [str(each) for each in LINES if not each.is_relayed]


@pytest.mark.processes
def test_a_quick_run_measures_one_relayed_line_and_judges_nothing() -> None:
    assert QUICK in LINES
    assert QUICK.is_relayed
    result = probes.run(quick=True)
    assert [row[:2] for row in result.rows] == [
        (str(QUICK), way) for way in ("down", "up", "both at once")
    ]
    assert result.met is None
