"""The exit status: 1 where a number is missed or a run of ours failed, 0 where none is judged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.links.cases import Run, Side
from benchmarks.links.kept import append
from benchmarks.links.sites.cases import SERVER, SiteRun, Used
from tests.benchmarks.links.cases import case_of, run_of
from tests.benchmarks.links.commands import run_here
from tests.benchmarks.links.site_runs import site_run

MIB = 1 << 20
GOOD = run_of(case_of())
BIG = Side(50 * MIB, 90 * MIB, 0.5)  # for a model of 8 MiB
SITE = site_run()


@pytest.mark.processes  # it asks git, and draws
@pytest.mark.parametrize(
    ("run", "status"),
    [
        (GOOD, 0),
        (replace(GOOD, sides={**GOOD.sides, "receive": BIG}), 1),
        (replace(GOOD, error="WorkerFailed: no"), 1),
        (run_of(case_of("plain grpcio"), error="WorkerFailed: no"), 0),
    ],
)
def test_a_plan_fails_where_a_number_is_missed_or_a_run_of_ours_failed(
    run: Run, status: int, tmp_path: Path
) -> None:
    append(tmp_path / "links.jsonl", run)
    done = run_here("links", "--report", folder=tmp_path)
    assert done.returncode == status, done.stderr
    assert "Numbers to reach" in done.stdout


@pytest.mark.processes  # it asks git, and draws
@pytest.mark.parametrize(
    ("run", "status"),
    [
        (SITE, 0),
        (replace(SITE, used={**SITE.used, SERVER: Used(0, 201 * MIB, 1.0)}), 1),
        (replace(SITE, error="WorkerFailed: no"), 1),
    ],
)
def test_the_two_site_job_fails_where_memory_is_over_what_is_stated(
    run: SiteRun, status: int, tmp_path: Path
) -> None:
    append(tmp_path / "sites.jsonl", run)
    done = run_here("sites", "--report", folder=tmp_path)
    assert done.returncode == status, done.stderr


@pytest.mark.parametrize(("ratio", "status"), [(3.5, 0), (2.5, 1), (None, 0)])
def test_the_table_of_all_numbers_fails_where_one_is_missed(
    ratio: float | None, status: int, tmp_path: Path
) -> None:
    runs = {"1e-05": {"ratio": ratio, "is_equal": True}} if ratio else {}
    summary = {"commits": ["abc"], "is_small": False, "plan": {}, "runs": runs}
    (tmp_path / "finetune.json").write_text(json.dumps(summary))
    done = run_here("numbers", "--report", folder=tmp_path)
    assert done.returncode == status, done.stderr
    assert "wire time after the first round" in done.stdout


@pytest.mark.parametrize("words", [("--peer", "streamlink"), ("--line", "1Mbit"), ("--runs", "2")])
@pytest.mark.parametrize("command", ["probe", "numbers"])
def test_options_of_plans_are_refused_by_programs(
    command: str, words: tuple[str, str], tmp_path: Path
) -> None:
    done = run_here(command, "--report", *words, folder=tmp_path)
    assert done.returncode == 2
    assert "leave out --peer" in " ".join(done.stderr.replace("│", " ").split())
