"""A peer that does not end, and a plan that takes too long, cost a bounded time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import pytest

from benchmarks import auto, bwlimit, finetune, probes, shipped, traverse
from benchmarks.links import theirs
from benchmarks.links.cases import Accuracy, Case, Run
from benchmarks.links.kept import append, read
from benchmarks.links.measuring import limit_seconds, measure
from benchmarks.links.peers import found
from benchmarks.links.plans import Plan, What, large_plan, plan_of
from benchmarks.links.program_lines import LINES, SECONDS
from benchmarks.links.series import left_to_do, run_plan, seconds_left, seconds_of
from benchmarks.links.sites.plans import plan_seconds, site_plan
from benchmarks.links.their_scripts import BENCHES
from tests.benchmarks.links.cases import case_of, run_of
from tests.benchmarks.links.test_series import Here

SLOW, OURS = case_of("Flower, message"), case_of()


@dataclass
class Measuring:
    """Measures nothing; each run takes an hour by ``clock``, and some never end."""

    stuck: tuple[Case, ...] = ()
    done: list[Case] = field(default_factory=list)
    hours: Iterator[int] = field(default_factory=count)

    def measure(self, case: Case, accuracy: Accuracy | None) -> Run:
        self.done.append(case)
        return run_of(case, error="TimedOut: 3 MiB had entered" if case in self.stuck else "")

    def go(self, plan: Plan, path: Path, is_late: bool = False) -> list[Run]:
        clock = (lambda: 3600.0 * next(self.hours)) if is_late else (lambda: 0.0)
        return run_plan(
            plan, path, read(path), Here(), measure=self.measure,
            measure_line=lambda line, seconds: Accuracy(0.0, 0.0, 1e9, seconds), clock=clock,
        )  # fmt: skip


def test_a_case_that_timed_out_is_not_tried_again_and_that_is_kept(tmp_path: Path) -> None:
    measuring, path = Measuring(stuck=(SLOW,)), tmp_path / "raw.jsonl"
    measuring.go(Plan((SLOW, OURS), runs=3), path)
    assert measuring.done == [SLOW, OURS, OURS, OURS]
    errors = [run.error for run in read(path) if run.case == SLOW]
    assert errors == [
        "TimedOut: 3 MiB had entered",
        *["not tried again: TimedOut: 3 MiB had entered"] * 2,
    ]
    again = Measuring()
    again.go(Plan((SLOW, OURS), runs=3), path)
    assert again.done == []


def test_a_plan_that_is_late_repeats_nothing_but_tries_everything(tmp_path: Path) -> None:
    measuring, path = Measuring(), tmp_path / "raw.jsonl"
    plan = Plan((SLOW, OURS), runs=3)
    measuring.go(plan, path, is_late=True)
    assert measuring.done == [SLOW, OURS]
    measuring.go(plan, path)  # the same command does the rest
    assert len(read(path)) == 6


@pytest.mark.parametrize("error", ["NotInstalled: there is no rsync", "WorkerFailed: no"])
def test_a_case_that_was_not_measured_is_no_repetition_in_a_plan_that_is_late(
    error: str, tmp_path: Path
) -> None:
    path = tmp_path / "raw.jsonl"
    append(path, run_of(OURS, error=error))
    append(path, run_of(SLOW))
    measuring = Measuring()
    measuring.go(Plan((SLOW, OURS), runs=2), path, is_late=True)
    assert measuring.done == [OURS]


def test_how_long_a_run_takes_is_not_told_by_one_that_failed_at_once() -> None:
    lacking = run_of(OURS, 0.0, startup_seconds=0.0, error="NotInstalled: there is no rsync")
    assert seconds_of(OURS, [lacking]) == seconds_of(OURS, []) > 0
    assert seconds_of(OURS, [lacking, run_of(OURS)]) == 3.0


def test_a_plan_of_the_record_is_kept_to_two_hours() -> None:
    assert plan_of(What.peers, ["streamlink"]).most_seconds == 120 * 60


def test_no_transfer_of_the_record_may_take_longer_than_ten_minutes() -> None:
    cases = plan_of(What.peers, ["streamlink"]).cases
    assert max(map(limit_seconds, cases)) < 600


def test_nothing_is_begun_that_would_not_end_before_the_deadline(tmp_path: Path) -> None:
    measuring, path = Measuring(), tmp_path / "raw.jsonl"
    long = case_of(line="1Mbit")
    needed = seconds_of(long, [])
    plan = Plan((OURS, long), runs=1)
    measuring.go(plan.until(needed - 1), path)
    assert measuring.done == [OURS]
    measuring.go(plan.until(needed + 1), path)
    assert measuring.done == [OURS, long]


def test_a_run_of_another_program_is_none_of_a_late_plan(tmp_path: Path) -> None:
    path = tmp_path / "raw.jsonl"
    append(path, run_of(OURS, commit="def"))
    measuring = Measuring()
    measuring.go(Plan((OURS,), runs=2), path, is_late=True)
    assert measuring.done == [OURS]


def test_all_is_measured_once_in_two_hours_by_the_estimates_of_both_targets() -> None:
    compared = [name for name, (peer, _) in found().items() if not peer.is_own]
    sites = site_plan()
    once = [replace(plan, runs=1) for plan in (large_plan(), plan_of(What.links, compared))]
    lines = sum(map(len, LINES.values()))
    programs = (
        3 * SECONDS * lines
        + sum(line.seconds for line in probes.LINES)
        + bwlimit.CASE_SECONDS * len((*bwlimit.CASES, *bwlimit.OVER_MPI))
        + traverse.PAIR_SECONDS * traverse.PAIRS * len(traverse.LINES)
        + auto.PART_SECONDS * len(auto.PAYLOADS)
        + finetune.JOB_SECONDS * len(finetune.LEARNING_RATES) * 2  # plain, and auto
    )
    links = plan_seconds(sites.cases * sites.runs, sites) + programs + sum(map(estimate, once))
    assert links < 120 * 60
    turns = shipped.TURN_SECONDS * shipped.TURNS
    turns += theirs.TURN_SECONDS * theirs.TURNS * len(BENCHES)
    assert turns + estimate(plan_of(What.peers, compared)) < 120 * 60


def estimate(plan: Plan) -> float:
    lines = {case.line for case in plan.cases}
    return seconds_left(left_to_do(plan, [], Here()), []) + plan.accuracy_seconds * len(lines)


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_transfer_that_does_not_end_is_reported_with_how_far_it_came() -> None:
    run = measure(case_of("streamlink", "200KiB", mib=64), limit=lambda case: 2.0)
    assert run.error.startswith("TimedOut: the receive end has not ended in 2 s; ")
    assert "MiB had entered the line by then" in run.error
    assert "of a model of 64 MiB" in run.error
