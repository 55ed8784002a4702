"""The reference of long lines: its table, its best, and how another program finds it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.longline.bottleneck import Line
from benchmarks.longline.raw import Measured, Raw
from benchmarks.longline.reference import LINES, Ran, best_of, best_raw, rows
from benchmarks.stats import summarize

SLOW, FAST = Raw(1, "cubic"), Raw(8, "bbr")


def ran(use: Raw, rate: float) -> Ran:
    return Ran(use, rate, summarize([rate - 1e6, rate, rate + 1e6]))


def test_the_table_has_a_column_for_each_congestion_control_and_marks_the_best() -> None:
    runs = [
        ran(SLOW, 12.1e6),
        ran(Raw(1, "bbr"), 15e6),
        Ran(Raw(8, "cubic"), failure="the bytes ended too soon"),
        ran(FAST, 20.6e6),
    ]
    columns, lines = rows({LINES[0]: runs})
    assert columns == ("line", "connections", "cubic, MB/s", "bbr, MB/s")
    assert lines == (
        ("200 Mbit/s, 200 ms", "1", "12.1 (11.3..12.9)", "15.0 (14.2..15.8)"),
        ("200 Mbit/s, 200 ms", "8", "failed", "20.6 (19.8..21.4) best"),
    )


def test_packets_that_the_forwarder_was_too_late_for_are_told() -> None:
    road = {"up": {"unread": 3}, "down": {"unread": 4}}
    unread = Measured((), road).unread
    assert str(replace(ran(FAST, 20e6), unread=unread)) == "20.0 (19.2..20.8), 7 unread"
    assert Measured((), {"kernel": {}}).unread == 0  # a relay


def test_the_fastest_run_is_the_best_and_a_failed_one_never() -> None:
    assert best_of([Ran(SLOW, failure="lost"), ran(FAST, 1e6)]).raw == FAST


def test_a_run_comes_back_from_what_is_kept_of_it() -> None:
    road = {"up": {"unread": 3}}
    for one in (replace(ran(FAST, 20e6), unread=3, road=road), Ran(SLOW, failure="lost")):
        assert Ran.from_json(json.loads(json.dumps(one.as_json()))) == one


def report(path: Path) -> Path:
    lines = [{"line": LINES[0].as_json(), "best": FAST.as_json(), "runs": []}]
    path.write_text(json.dumps({"results": {"rawline": {"lines": lines}}}), encoding="utf-8")
    return path


def test_the_best_use_of_a_line_is_read_from_the_report(tmp_path: Path) -> None:
    assert best_raw(LINES[0], report(tmp_path / "rawline.json")) == FAST


def test_a_line_that_was_not_measured_or_a_missing_report_names_the_command(tmp_path: Path) -> None:
    other = Line(rate=1e6, round_trip=0.2)
    with pytest.raises(LookupError, match=r"no line of 1 Mbit/s, 200 ms.*benchmarks rawline"):
        best_raw(other, report(tmp_path / "rawline.json"))
    with pytest.raises(LookupError, match=r"is missing.*benchmarks rawline"):
        best_raw(LINES[0], tmp_path / "none.json")


@pytest.mark.parametrize(
    ("use", "words"), [(SLOW, "1 connection, cubic"), (Raw(2), "2 connections, default")]
)
def test_a_use_of_a_line_says_what_it_is(use: Raw, words: str) -> None:
    assert str(use) == words
