"""Running the large-model example: its options, its failures, and the judgement of its report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.clients import growth_per_client
from benchmarks.example import ExampleFailed, Job, extra_bytes, processes_of, run_example
from benchmarks.flat import is_flat, peaks, within_budget
from tests.benchmarks.reports import MIB, report

WRITES_REPORT = """
import sys
from pathlib import Path
options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
assert options["--keys"] == "4" and options["--weights"] == "random", options
Path(options["--report"]).write_text({text!r})
"""


def _program(folder: Path, text: str) -> Path:
    path = folder / "program.py"
    path.write_text(text)
    return path


@pytest.mark.processes
def test_the_example_gets_its_options_and_its_report_comes_back(tmp_path: Path) -> None:
    program = _program(tmp_path, WRITES_REPORT.format(text=json.dumps(report())))
    assert run_example(Job(keys=4, weights="random"), program=program) == report()


@pytest.mark.processes
def test_a_model_that_was_not_verified_is_a_failure(tmp_path: Path) -> None:
    text = json.dumps({**report(), "verified": False})
    program = _program(tmp_path, WRITES_REPORT.format(text=text))
    with pytest.raises(ExampleFailed, match="not what it should be"):
        run_example(Job(keys=4, weights="random"), program=program)


@pytest.mark.processes
def test_an_example_that_fails_is_quoted(tmp_path: Path) -> None:
    program = _program(tmp_path, "raise SystemExit('no room')")
    with pytest.raises(ExampleFailed, match="ended with 1: no room"):
        run_example(Job(), program=program)


@pytest.mark.processes
def test_an_example_that_hangs_is_given_up_on(tmp_path: Path) -> None:
    program = _program(tmp_path, "import threading; threading.Event().wait()")
    with pytest.raises(ExampleFailed, match="not done within"):
        run_example(Job(), program=program, timeout_seconds=0.2)


def test_peaks_are_over_base_and_by_role() -> None:
    found = report(server_mib=60)
    assert peaks(found) == {"server": 60 * MIB, "site-1": 40 * MIB, "site-2": 40 * MIB}
    assert [extra_bytes(client) for client in processes_of(found, "client")] == [40 * MIB] * 2


@pytest.mark.parametrize(("large_mib", "flat"), [(60, True), (70, True), (90, False)])
def test_a_peak_that_grows_with_the_model_is_not_flat(large_mib: float, flat: bool) -> None:
    small, large = peaks(report(server_mib=60)), peaks(report(server_mib=large_mib))
    assert is_flat(small, large) is flat


@pytest.mark.parametrize(("used_mib", "inside"), [(149, True), (151, False)])
def test_the_server_is_judged_by_its_computed_peak(used_mib: float, inside: bool) -> None:
    assert within_budget(report(server_mib=used_mib, budget_mib=150)) is inside


def test_growth_is_taken_from_the_fewest_to_the_most_clients() -> None:
    assert growth_per_client({2: 100, 4: 150, 16: 380}) == 20.0
