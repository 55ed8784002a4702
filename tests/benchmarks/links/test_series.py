"""What is left of a plan, what is kept of it, and how it goes on."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Queue

import pytest

from benchmarks.links.cases import Accuracy, Case, Run
from benchmarks.links.failures import standing
from benchmarks.links.kept import append, latest, read
from benchmarks.links.lines import Line
from benchmarks.links.plans import (
    REPEATS,
    Plan,
    What,
    large_plan,
    plan_of,
    small_plan,
)
from benchmarks.links.series import batches, left_to_do, run_plan
from tests.benchmarks.links.cases import case_of, run_of

WHERE = run_of().where
RAW, OURS, PEER = case_of("raw socket"), case_of(), case_of("plain grpcio")


@dataclass
class Here:
    where: str = WHERE
    commits: tuple[str, ...] = ("abc",)

    def counts(self, outcome: Run) -> bool:
        return outcome.commit in self.commits


@dataclass
class Measuring:
    """Measures nothing, and fails or is interrupted where it is told to."""

    failing: str = ""
    stop_at: int = 1000
    done: list[Case] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def measure(self, case: Case, accuracy: Accuracy | None) -> Run:
        if len(self.done) == self.stop_at:
            raise KeyboardInterrupt
        self.done.append(case)
        return run_of(case, accuracy=accuracy, error="no" if case.peer == self.failing else "")

    def measure_line(self, line: Line, seconds: float) -> Accuracy:
        self.lines.append(line.name)
        return Accuracy(0.0, 0.0, 1e9, seconds)


def go(plan: Plan, path: Path, measuring: Measuring) -> list[Run]:
    return run_plan(
        plan, path, read(path), Here(),
        measure=measuring.measure, measure_line=measuring.measure_line,
    )  # fmt: skip


def test_runs_of_a_line_are_interleaved() -> None:
    plan = Plan((RAW, OURS), runs=2)
    assert left_to_do(plan, [], Here()) == [RAW, OURS, RAW, OURS]


def test_cases_that_are_repeated_are_so_in_each_turn() -> None:
    plan = Plan((RAW, OURS), runs=2, repeated=frozenset({OURS}))
    turn = [RAW, *[OURS] * REPEATS]
    assert left_to_do(plan, [], Here()) == turn * 2
    assert plan.run_count == len(turn * 2)
    # Interrupted in the first turn: its rest comes before the second one.
    known = [run_of(RAW), run_of(OURS), run_of(OURS)]
    assert left_to_do(plan, known, Here()) == [*[OURS] * (REPEATS - 2), *turn]
    assert left_to_do(replace(plan, runs=1), [], Here()) == [RAW, OURS]


def test_large_models_of_all_sizes_take_turns() -> None:
    plan = large_plan()
    one, four, *larger = plan.cases
    turn = [*[one] * REPEATS, *[four] * REPEATS, *larger]
    assert left_to_do(plan, [], Here()) == turn * plan.runs
    assert left_to_do(replace(plan, runs=1), [], Here()) == [*plan.cases]


def test_on_a_slow_line_all_runs_of_a_turn_are_one_batch(tmp_path: Path) -> None:
    cases = tuple(case_of(peer, "200KiB", 1, arrays) for arrays in (1, 4) for peer in ("a", "b"))
    to_do = left_to_do(Plan(cases, runs=2), [], Here())
    assert batches(to_do) == [list(cases), list(cases)]
    assert len(go(Plan(cases, runs=2), tmp_path / "raw.jsonl", Measuring())) == 8


def test_on_a_fast_line_one_run_has_the_machine() -> None:
    assert batches([RAW, OURS, RAW]) == [[RAW], [OURS], [RAW]]


def test_what_is_known_is_not_run_again() -> None:
    assert left_to_do(Plan((RAW, OURS), runs=2), [run_of(RAW)], Here()) == [OURS, RAW, OURS]


@pytest.mark.parametrize("here", [Here(where="another machine"), Here(commits=("def",))])
def test_runs_of_another_machine_or_program_do_not_count(here: Here) -> None:
    assert left_to_do(Plan((OURS,), runs=1), [run_of(OURS)], here) == [OURS]


def test_a_peer_that_failed_is_not_run_again() -> None:
    assert left_to_do(Plan((PEER,), runs=3), [run_of(PEER, error="no")], Here()) == []


@pytest.mark.parametrize("case", [RAW, OURS])
def test_a_case_of_ours_that_failed_is_tried_once_more(case: Case) -> None:
    failed, plan = run_of(case, error="no"), Plan((case,), runs=2)
    assert left_to_do(plan, [failed], Here()) == [case, case]
    assert left_to_do(plan, [failed, failed], Here()) == []
    assert left_to_do(plan, [failed, run_of(case)], Here()) == [case]
    assert left_to_do(plan, [failed, run_of(case), run_of(case)], Here()) == []


def test_in_one_invocation_a_case_that_fails_is_tried_once(tmp_path: Path) -> None:
    plan, path = Plan((RAW, OURS), runs=3), tmp_path / "raw.jsonl"
    for tries in (1, 1, 0):
        measuring = Measuring(failing="raw socket")
        go(plan, path, measuring)
        assert measuring.done.count(RAW) == tries


def test_a_transient_failure_is_made_good_by_the_same_command(tmp_path: Path) -> None:
    plan, path = Plan((RAW, OURS), runs=2), tmp_path / "raw.jsonl"
    go(plan, path, Measuring(failing="raw socket"))
    runs = go(plan, path, Measuring())
    assert sum(bool(run.error) for run in runs) == 1
    assert not any(run.error for run in standing(runs))
    assert left_to_do(plan, runs, Here()) == []


def test_each_run_knows_its_turn_and_the_next_try_of_one_that_failed_has_the_same(
    tmp_path: Path,
) -> None:
    plan, path = Plan((RAW, OURS), runs=2), tmp_path / "raw.jsonl"
    go(plan, path, Measuring(failing=OURS.peer))
    go(plan, path, Measuring())
    turns = [(run.case.peer, run.turn, bool(run.error)) for run in read(path)]
    assert turns == [
        (RAW.peer, 1, False), (OURS.peer, 1, True), (RAW.peer, 2, False),
        (OURS.peer, 1, False), (OURS.peer, 2, False),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["NotInstalled", "NoEnvironment", "OSError"])
def test_a_peer_that_could_not_be_had_is_tried_again(kind: str) -> None:
    missing = run_of(PEER, error=f"{kind}: there is no rsync on this machine")
    assert left_to_do(Plan((PEER,), runs=1), [missing] * 3, Here()) == [PEER]


def test_a_peer_that_can_be_had_by_now_is_shown_without_its_first_failure() -> None:
    missing = run_of(PEER, error="NoEnvironment: no index here has it")
    assert standing([missing, run_of(PEER)]) == [run_of(PEER)]
    assert standing([run_of(PEER), missing]) == [run_of(PEER), missing]


def test_a_failure_of_a_peer_is_a_result_whatever_comes_after_it() -> None:
    failed = run_of(PEER, error="WorkerFailed: no")
    assert standing([failed, run_of(PEER)]) == [failed, run_of(PEER)]


def test_a_failure_is_kept_and_the_others_go_on(tmp_path: Path) -> None:
    measuring = Measuring(failing="raw socket")
    results = go(Plan((RAW, OURS), runs=2), tmp_path / "raw.jsonl", measuring)
    assert [(run.case, run.error) for run in results] == [(RAW, "no"), (OURS, ""), (OURS, "")]
    assert read(tmp_path / "raw.jsonl") == results


def test_each_line_is_measured_first_and_its_runs_know_what_was_found(tmp_path: Path) -> None:
    slow = case_of(line="1Mbit")
    measuring = Measuring()
    results = go(Plan((RAW, OURS, slow), runs=1), tmp_path / "raw.jsonl", measuring)
    assert measuring.lines == ["loopback", "1Mbit"]
    assert all(run.accuracy == Accuracy(0.0, 0.0, 1e9, 10.0) for run in results)


def test_an_interrupted_series_goes_on(tmp_path: Path) -> None:
    plan, path = Plan((RAW, OURS), runs=2), tmp_path / "raw.jsonl"
    with pytest.raises(KeyboardInterrupt):
        go(plan, path, Measuring(stop_at=3))
    second = Measuring()
    assert len(go(plan, path, second)) == 4
    assert second.done == [OURS]


def test_a_line_of_results_that_was_cut_off_is_run_again(tmp_path: Path) -> None:
    path = tmp_path / "raw.jsonl"
    append(path, run_of(RAW))
    with path.open("a") as file:
        file.write('{"case": {"peer": "stream')
    assert read(path) == [run_of(RAW)]


def test_a_run_behind_a_line_that_was_cut_off_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "raw.jsonl"
    append(path, run_of(RAW))
    with path.open("a") as file:
        file.write('{"case": {"peer": "stream')
    append(path, run_of(OURS))
    assert read(path) == [run_of(RAW), run_of(OURS)]


def test_a_report_has_the_runs_of_the_last_commit_of_each_case() -> None:
    old, new = run_of(OURS, commit="abc"), run_of(OURS, commit="def")
    other = run_of(RAW, commit="abc")
    assert latest([old, other, new, new]) == [other, new, new]


@pytest.mark.parametrize("what", list(What))
def test_a_small_plan_has_all_peers_and_no_long_run(what: What) -> None:
    peers = ["raw socket", "streamlink", "another"]
    small, whole = small_plan(what, peers), plan_of(what, peers)
    assert {case.peer for case in small.cases} == {case.peer for case in whole.cases}
    assert sum(case.line.seconds(case.payload.size_bytes) for case in small.cases) < 30
    assert whole.runs == 3


def test_peers_move_the_loads_that_were_promised() -> None:
    cases = plan_of(What.peers, ["streamlink"]).cases
    found = {(case.line.name, case.payload.size_bytes >> 20, case.payload.arrays) for case in cases}
    loads = {("loopback", 1024), ("100Mbit,50ms", 256), ("200Mbit,100ms,loss=0.1%", 512),
             ("1Gbit,200ms", 1024), ("200KiB", 24)}  # fmt: skip
    assert found == {(*load, arrays) for load in loads for arrays in (1, 64)}


@pytest.mark.processes(quick=True)
def test_an_interrupt_ends_the_runs_that_go_on_and_keeps_none_of_them(tmp_path: Path) -> None:
    cases = tuple(case_of(peer, "200KiB") for peer in ("a", "b", "c"))
    processes: Queue[subprocess.Popen[bytes]] = Queue()

    def run_long_or_interrupt(case: Case, accuracy: Accuracy | None) -> Run:
        if case.peer == "a":
            return run_of(case)
        if case.peer == "c":
            processes.put(processes.get(timeout=60))  # the long one has begun
            raise KeyboardInterrupt
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        processes.put(process)
        process.wait(timeout=60)
        return run_of(case, error="its process was ended")

    path = tmp_path / "raw.jsonl"
    with pytest.raises(KeyboardInterrupt):
        run_plan(Plan(cases, runs=1), path, [], Here(), measure=run_long_or_interrupt,
                 measure_line=Measuring().measure_line)  # fmt: skip
    assert {run.case.peer for run in read(path)} <= {"a"}
    with processes.get(timeout=60) as process:
        assert process.wait(timeout=60) != 0
