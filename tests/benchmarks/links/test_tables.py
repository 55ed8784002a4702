"""The rows of the tables."""

from __future__ import annotations

import pytest

from benchmarks.links.cases import Accuracy
from benchmarks.links.lines import parse_line
from benchmarks.links.tables import (
    COLUMNS,
    FOUND_COLUMNS,
    LINE_COLUMNS,
    failed,
    found_row,
    line_rows,
    rows_of,
    share_of,
)
from tests.benchmarks.links.cases import case_of, run_of

RAW, OURS = case_of("raw socket", "100Mbit,50ms"), case_of(line="100Mbit,50ms")


def test_a_row_has_the_median_of_its_runs() -> None:
    [row] = rows_of([run_of(OURS, seconds) for seconds in (1.0, 2.0, 4.0)])
    cells = dict(zip(COLUMNS, row.cells(), strict=True))
    assert cells["seconds"] == "2.00 (1.00..4.00)"
    assert cells["MB/s"] == "4.194"
    assert cells["wire ÷ payload"] == "1.125"
    assert cells["of the line"] == f"{4.194304 * 8 / 100:.3f}"


def test_a_share_is_that_of_the_raw_socket_of_the_same_turn() -> None:
    ours = [run_of(OURS, seconds) for seconds in (2.0, 4.0, 10.0)]
    raw = [run_of(RAW, seconds) for seconds in (1.0, 3.0, 9.0)]
    assert share_of(ours, raw) == pytest.approx(0.75)


def test_a_run_is_paired_with_the_one_of_its_turn_and_not_with_the_next_that_is_there() -> None:
    """Where one failed, was left out for want of time, or belongs to another commit."""
    ours = [run_of(OURS, 2.0, turn=2), run_of(OURS, error="no", turn=3), run_of(OURS, 8.0, turn=3)]
    raw = [run_of(RAW, 100.0, turn=1), run_of(RAW, 1.0, turn=2), run_of(RAW, 4.0, turn=3)]
    assert share_of(ours, raw) == pytest.approx(0.5)
    assert share_of(ours, raw[:1]) is None


def test_a_peer_whose_runs_failed_has_a_row_and_its_reason() -> None:
    [row] = rows_of([run_of(OURS, error="no index has it")])
    assert row.error == "no index has it"
    assert row.share is None
    assert dict(zip(COLUMNS, row.cells(), strict=True))["seconds"] == "failed"


@pytest.mark.parametrize(
    ("error", "word"),
    [
        ("NotInstalled: there is no rsync on this machine", "not installed"),
        ("OSError: there is no rsync on this machine", "not installed"),  # as kept before
        ("NoEnvironment: no index has it", "not installed"),
        ("OSError: the line 1Gbit,loss=1% has losses: it needs root", "not available"),
        ("WorkerFailed: it ended", "failed"),
    ],
)
def test_what_this_machine_lacks_is_not_said_to_have_failed(error: str, word: str) -> None:
    [row] = rows_of([run_of(OURS, error=error)])
    assert dict(zip(COLUMNS, row.cells(), strict=True))["seconds"] == word
    [sentence] = failed([row])
    assert sentence.startswith(f"{OURS}: ")
    assert ("tried again by the next invocation" in sentence) is (word != "failed")
    assert sentence.endswith(error.partition(": ")[2])


def test_bytes_that_nobody_counted_are_not_shown_as_none() -> None:
    [row] = rows_of([run_of(OURS, wire_bytes=None)])
    assert dict(zip(COLUMNS, row.cells(), strict=True))["wire ÷ payload"] == "not counted"


def test_each_line_is_shown_with_what_was_found_of_it() -> None:
    [cells] = line_rows([run_of(RAW), run_of(OURS)])
    found = dict(zip(LINE_COLUMNS, cells, strict=True))
    assert found["asked Mbit/s"] == "100"
    assert (found["found Mbit/s, up"], found["down"]) == ("99", "98")
    assert (found["asked ms"], found["found ms"]) == ("50", "20.00")


def test_a_line_that_could_not_be_measured_says_so() -> None:
    [cells] = line_rows([run_of(OURS, accuracy=None)])
    assert "not measured" in cells


def test_a_line_whose_directions_differ_shows_both_rates() -> None:
    line = parse_line("up=20Mbit,down=100Mbit,30ms")
    found = dict(zip(FOUND_COLUMNS, found_row(line, Accuracy(0.031, 0, 19e6, 1)), strict=True))
    assert found["asked Mbit/s"] == "20 up, 100 down"
    assert (found["found Mbit/s, up"], found["down"]) == ("19", "not measured")


def test_losses_that_were_found_are_beside_those_that_were_asked_for() -> None:
    def losses(text: str, up: float | None, down: float | None) -> tuple[str, str]:
        accuracy = Accuracy(0.031, 0, 19e6, 1, lost=up, down_lost=down)
        found = dict(zip(FOUND_COLUMNS, found_row(parse_line(text), accuracy), strict=True))
        return found["asked loss"], found["found loss"]

    both, one = "20Mbit,30ms,loss=0.1%", "20Mbit,30ms,up-loss=0.1%"
    assert losses(both, 0.0012, 0.0009) == ("0.100%", "0.120% up, 0.090% down")
    assert losses(one, 0.0012, 0.0) == ("0.100% up, 0.000% down", "0.120% up, 0.000% down")
    assert losses("20Mbit,30ms", None, None) == ("none", "")


def test_rows_of_a_line_are_neighbours_whatever_was_run_first() -> None:
    """Otherwise a page draws that line twice, under one file name."""
    runs = [run_of(case_of(line=line, mib=mib))
            for line, mib in (("loopback", 4), ("10Mbit", 8), ("loopback", 16))]  # fmt: skip
    assert [row.case.line.name for row in rows_of(runs)] == ["loopback", "loopback", "10Mbit"]
