"""Every percentage of the report can be computed again from the CSV files."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

import pytest

from streamlink.profiling.heap.findings import Findings, find
from streamlink.profiling.heap.observed import read_run
from streamlink.profiling.heap.report import report_text
from streamlink.profiling.heap.spreadsheets import write_spreadsheets
from tests.support.profiles import a_record


@pytest.fixture
def findings(tmp_path: Path) -> Findings:
    """Three repeats of two versions, with figures that do not come out even."""
    for repeat in (1, 2, 3):
        for number, version in enumerate(("original", "optimized"), 1):
            for profiled in (False, True):
                a_record(
                    version,
                    repeat=repeat,
                    profiled=profiled,
                    over=7_000_003 * number + 1_001 * repeat,
                    seconds=1 / 3 + repeat / 7 + number,
                ).write(tmp_path)
    return find(read_run(tmp_path, None))


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_each_percentage_follows_from_the_values_beside_it(
    findings: Findings, tmp_path: Path
) -> None:
    _, comparison, _ = write_spreadsheets(findings, tmp_path)
    text, found = report_text(findings), rows(comparison)
    assert found
    for row in found:
        percent = 100 * (float(row["value"]) / float(row["baseline_value"]) - 1)
        assert percent == float(row["change_percent"])
        if row["verdict"] == "higher":
            assert f"{abs(percent):.1f} %" in text


def test_each_value_is_the_median_of_what_the_processes_measured(
    findings: Findings, tmp_path: Path
) -> None:
    peaks, comparison, rounds = write_spreadsheets(findings, tmp_path)
    row = next(r for r in rows(comparison) if r["measure"] == "resident_over_base_bytes")
    own = [
        int(peak["resident_over_base_bytes"])
        for peak in rows(peaks)
        if peak["version"] == row["version"] and peak["under_memray"] == "False"
    ]
    assert float(row["value"]) == statistics.median(own)
    assert list(map(float, row["values"].split())) == own
    time = next(r for r in rows(comparison) if r["measure"] == "round_seconds")
    seconds: dict[str, list[float]] = {}
    for one in rows(rounds):
        if one["version"] == time["version"] and one["under_memray"] == "False":
            seconds.setdefault(one["repeat"], []).append(float(one["seconds"]))
    medians = [statistics.median(each) for each in seconds.values()]
    assert float(time["value"]) == statistics.median(medians)
