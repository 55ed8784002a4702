"""The lines of programs by themselves: which they are, and what is said where one cannot be had."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks import bwlimit, finetune, probes, traverse
from benchmarks.links.lines import parse_line
from benchmarks.links.program_lines import (
    LINES,
    SMALL_LINES,
    SMALL_SECONDS,
    accuracies,
    accuracy_rows,
)
from benchmarks.links.programs import PROGRAMS
from benchmarks.parts import Facts

FOUND = {"round_trip": 0.02, "spread": 0.001, "rate": 9.7e7, "seconds": 5.0, "down_rate": 9.6e7}


def kept(name: str, seconds: float, measure: Callable[[], Facts]) -> Facts:
    return FOUND


def test_they_are_those_that_the_programs_use() -> None:
    assert LINES.keys() < PROGRAMS.keys()

    def rates(name: str) -> set[float | None]:
        return {parse_line(text).rate for text in LINES[name]}

    assert rates("probe") == {each.line.rate for each in probes.LINES}
    assert rates("bwlimit") == {bwlimit.LINE * 8}
    assert rates("traverse") == {each.bandwidth * 8 for each in traverse.LINES}
    assert rates("finetune") == {finetune.FULL.bandwidth * 8}
    trips = {parse_line(text).round_trip for text in LINES["traverse"]}
    assert trips == {2 * each.delay for each in traverse.LINES}


def test_those_of_a_trial_are_the_ones_that_it_uses() -> None:
    assert SMALL_LINES.keys() == LINES.keys()
    lines = {name: parse_line(text) for name, [text] in SMALL_LINES.items()}
    assert {name: (line.rate, line.round_trip) for name, line in lines.items()} == {
        "probe": (probes.QUICK.line.rate, probes.QUICK.line.round_trip),
        "bwlimit": (bwlimit.LINE * 8, 0.01),
        "traverse": (traverse.QUICK_LINE.bandwidth * 8, 2 * traverse.QUICK_LINE.delay),
        "finetune": (finetune.SMALL.bandwidth * 8, 0.0),
    }


def test_each_has_a_row_with_what_was_asked_and_found() -> None:
    [row] = accuracy_rows(accuracies("bwlimit", kept))
    assert row == ("100Mbit,10ms", "relay", "100", "97", "96", "10", "20.00", "1.00",
                   "none", "")  # fmt: skip


def test_a_line_that_cannot_be_had_is_named_as_not_measured() -> None:
    [row] = accuracy_rows({"100Mbit,10ms": {"error": "it needs root"}})
    assert row[3] == "not measured"


@pytest.mark.processes
@pytest.mark.slow
def test_a_line_is_measured_by_a_raw_socket() -> None:
    found = accuracies("bwlimit", lambda name, seconds, measure: measure(), True)
    assert found["100Mbit,10ms"]["rate"] > 0
    assert found["100Mbit,10ms"]["seconds"] == SMALL_SECONDS
    assert found["100Mbit,10ms"]["round_trip"] >= 0.01
