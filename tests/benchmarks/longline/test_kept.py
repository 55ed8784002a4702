"""Runs on long lines are kept, and found again by what was run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.longline.kept import LINES_ONLY, Kept

pytestmark = pytest.mark.processes(quick=True)  # git says which commits count

ONE, OTHER = {"line": "slow"}, {"line": "fast"}


def test_the_runs_of_a_case_are_found_again_in_order(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    kept = Kept(path, LINES_ONLY)
    for case, rate in ((ONE, 1.0), (OTHER, 2.0), (ONE, 3.0)):
        kept.add(case, {"rate": rate})
    again = Kept(path, LINES_ONLY)
    assert again.find(ONE) == [{"rate": 1.0}, {"rate": 3.0}]
    assert again.find(OTHER) == [{"rate": 2.0}]
    assert again.find({"line": "other"}) == []


def test_a_run_of_a_commit_that_is_not_known_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    Kept(path, LINES_ONLY).add(ONE, {"rate": 1.0})
    strange = {**json.loads(path.read_text()), "commit": "0" * 12}
    path.write_text(json.dumps(strange) + "\n")
    assert Kept(path, LINES_ONLY).find(ONE) == []


def test_trials_keep_nothing() -> None:
    kept = Kept(None, LINES_ONLY)
    kept.add(ONE, {"rate": 1.0})
    assert kept.find(ONE) == []
