"""The measuring of frameworks without any of them: plan, resuming, table, environments."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from benchmarks.integrations.cases import Case, Ended, Memory, Outcome, lines_of
from benchmarks.integrations.environments import (
    BrokenEnvironment,
    Environment,
    NoEnvironment,
    install,
)
from benchmarks.integrations.kept import Checkout, append, read
from benchmarks.integrations.page import table_of, write_page
from benchmarks.integrations.report import COLUMNS, rows_of
from benchmarks.integrations.series import (
    ALONE_SECONDS,
    Limits,
    Series,
    estimate,
    left_to_do,
    run_series,
    settled,
)

CASE = Case("appfl", 256_000_000, 64, "bare")
LINES = Series(tuple(replace(CASE, line=line) for line in lines_of("appfl")), runs=3)
IN_TURN = ["bare", "tuned", "first", "second", *(["bare", "first", "second"] * 2)]
MB = 1_000_000


class Commit:
    """A checkout where runs of one commit count; after some runs it is another."""

    def __init__(self, commit: str = "abc", where: str = "", runs: int = 99) -> None:
        self.head, self.where, self.runs = commit, where, runs

    def counts(self, outcome: Outcome) -> bool:
        return outcome.commit == self.head

    def moved(self) -> str:
        self.runs -= 1
        return "it is another checkout now" if self.runs < 0 else ""


HERE = Commit()


def ran(line: str, run: int = 0) -> Outcome:
    """Return a run with the figures of its line."""
    size = {"bare": 4000, "tuned": 4000, "first": 2000, "second": 100}[line] * MB
    seconds = {"bare": 90.0, "tuned": 60.0, "first": 30.0, "second": 20.0}[line] + run
    return Outcome(
        replace(CASE, line=line),
        "done",
        seconds=10.0,
        exact=True,
        rounds=[seconds],
        calls={"site-1": {"send": seconds, "receive": 0.0}},
        memory={"server": Memory(0, size, size), "site-1": Memory(0, 10 * MB, 10 * MB)},
        commit="abc",
    )


def column(name: str, outcomes: list[Outcome], line: str) -> str:
    [row] = [row for row in rows_of(outcomes) if row[1] == line]
    return row[COLUMNS.index(name)]


# --- the series -------------------------------------------------------------


def test_the_lines_of_a_case_are_run_in_turn() -> None:
    lines = [each.line for each in left_to_do([LINES], [], HERE)]
    assert lines == IN_TURN


def test_an_interrupted_series_goes_on_where_it_was(tmp_path: Path) -> None:
    done: list[str] = []

    def perform(case: Case) -> Outcome:
        if len(done) == 5:  # in the second turn
            raise KeyboardInterrupt
        done.append(case.line)
        return ran(case.line)

    with pytest.raises(KeyboardInterrupt):
        run_series([LINES], tmp_path / "runs.jsonl", perform, HERE)
    results = run_series([LINES], tmp_path / "runs.jsonl", lambda case: ran(case.line), HERE)
    assert done == ["bare", "tuned", "first", "second", "bare"]
    assert [each.case.line for each in results] == IN_TURN
    assert results == read(tmp_path / "runs.jsonl")


def test_a_line_that_a_crash_cut_off_is_run_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    run_series([replace(LINES, runs=1)], path, lambda case: ran(case.line), HERE)
    path.write_text(path.read_text()[:-5])
    assert [each.case.line for each in read(path)] == ["bare", "tuned", "first"]


def test_a_series_ends_where_its_checkout_becomes_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = run_series([LINES], None, lambda case: ran(case.line), Commit(runs=2))
    assert [each.case.line for each in results] == ["bare", "tuned"]
    assert (
        "it is another checkout now; what is left is for another series" in capsys.readouterr().err
    )


def test_what_another_machine_has_of_a_series_is_measured_again_until_that_one_has_all() -> None:
    away = [replace(each, machine=OTHER) for each in RUNS]
    assert [each.line for each in left_to_do([LINES], away[:-1], HERE)] == IN_TURN
    assert left_to_do([LINES], away, HERE) == []


def test_a_run_of_which_nothing_was_seen_has_no_figures() -> None:
    run = replace(ran("first"), ended="failed", rounds=[], calls={}, memory={})
    assert column("server, MB", [run], "first") == "-"


def test_runs_of_another_commit_do_not_count() -> None:
    done = [ran("bare"), ran("first")]
    assert len(left_to_do([LINES], done, Commit("later"))) == len(IN_TURN)


def test_what_is_foreseen_to_come_to_no_end_is_not_planned_with_a_larger_model() -> None:
    slow = [replace(ran("bare"), seconds=300.0)]
    sizes = [Series((replace(CASE, size_bytes=n * 10**9),)) for n in (1, 2, 4)]
    assert [each.size_bytes for each in left_to_do(sizes, slow, HERE)] == [10**9]


def test_how_long_large_models_take_is_told_by_large_ones() -> None:
    ours = replace(CASE, line="first", size_bytes=10**9, rounds=2)
    small, large = (replace(ours, size_bytes=n * MB) for n in (16, 1000))
    quick = Outcome(small, "done", seconds=31.0)
    slow = Outcome(large, "done", seconds=30.0 + 4 * 3.0)
    assert estimate([replace(ours, size_bytes=2 * 10**9)], [quick, slow]) == pytest.approx(54.0)
    assert estimate([large], [quick]) > 42.0  # a start tells nothing of what follows


@pytest.mark.parametrize(
    ("ended", "seconds", "runs"),
    [("done", 60.0, 3), ("done", 110.0, 2), ("done", 130.0, 1), ("timeout", ALONE_SECONDS, 1)],
)
def test_a_framework_alone_is_repeated_as_long_as_that_does_not_take_too_long(
    ended: Ended, seconds: float, runs: int
) -> None:
    def perform(case: Case) -> Outcome:
        return replace(ran(case.line), ended=ended, seconds=seconds)

    lines = [each.case.line for each in run_series([LINES], None, perform, HERE)]
    assert (lines.count("bare"), lines.count("first")) == (runs, 3)


@pytest.mark.parametrize("ended", ["timeout", "out of memory"])
def test_what_a_framework_alone_did_not_get_done_is_not_tried_with_a_larger_model(
    ended: Ended,
) -> None:
    seen = [replace(ran("bare"), ended=ended)]
    larger, other = replace(CASE, size_bytes=10**9), replace(CASE, size_bytes=10**9, arrays=1)
    with_one_client = replace(CASE, size_bytes=300 * MB, clients=1)  # moves fewer bytes in all
    assert settled(larger, seen) == f"{ended} with 256 MB already"
    assert not settled(other, seen)
    assert not settled(with_one_client, seen)
    assert not settled(replace(larger, line="first"), seen)


def test_a_framework_that_is_not_to_be_had_is_skipped_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[Case] = []

    def perform(case: Case) -> Outcome:
        asked.append(case)
        raise NoEnvironment("no index here")

    assert run_series([LINES], None, perform, HERE) == []
    assert len(asked) == 1
    assert "appfl is skipped: no index here" in capsys.readouterr().err


def test_a_broken_environment_is_one_failed_result_that_says_why(tmp_path: Path) -> None:
    def perform(case: Case) -> Outcome:
        raise BrokenEnvironment("pip: conflict")

    [failed] = run_series([LINES], tmp_path / "runs.jsonl", perform, HERE)
    assert (failed.ended, failed.said) == ("failed", "pip: conflict")
    assert read(tmp_path / "runs.jsonl") == []  # the next try is to have another one


def test_how_long_a_series_takes_is_told_from_runs_of_before() -> None:
    case = replace(CASE, line="first")
    same = [replace(ran("first"), seconds=300.0)]
    assert estimate([case, case], same) == 600.0
    larger = replace(case, size_bytes=2 * case.size_bytes)
    assert estimate([larger], same) == pytest.approx(30.0 + 2 * 270.0)
    assert estimate([replace(larger, line="bare")], [replace(ran("bare"), seconds=300.0)]) == 360.0


def test_a_case_has_limits_of_its_size_unless_others_are_given() -> None:
    ours = replace(CASE, line="first")
    small, large = (Limits().of(replace(ours, size_bytes=n)) for n in (MB, 1000 * MB))
    assert small[0] == large[0]
    assert small[1] < large[1]
    assert Limits().of(replace(CASE, size_bytes=1000 * MB))[1] == ALONE_SECONDS
    assert Limits(5, 7.0).of(CASE) == (5, 7.0)


# --- the file of results ----------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Make a repository of its own, and commit a change of a file in it: its commit."""
    git = partial(subprocess.run, cwd=tmp_path, check=True, capture_output=True, text=True)
    me = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    git(["git", "init", "-q"])
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path))

    def change(name: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.read_text() + "more\n" if path.exists() else "new\n")
        git(["git", "add", "-A"])
        git(["git", *me, "commit", "-qm", name])
        return str(git(["git", "rev-parse", "HEAD"]).stdout).strip()[:12]

    return change


@pytest.mark.processes(quick=True)
def test_a_run_counts_until_what_it_ran_is_changed(checkout: Callable[[str], str]) -> None:
    run = replace(ran("first"), commit=checkout("streamlink/link.py"))
    checkout("docs/integrations.md")
    checkout("benchmarks/integrations/report.py")
    assert Checkout().counts(run)
    checkout("benchmarks/integrations/running.py")
    assert not Checkout().counts(run)


@pytest.mark.processes(quick=True)
def test_all_runs_count_from_a_commit_on_that_is_named(checkout: Callable[[str], str]) -> None:
    commits = [checkout("streamlink/link.py") for _ in range(4)]
    runs = [replace(ran("first"), commit=each) for each in [*commits, f"{commits[-1]}-dirty"]]
    here = Checkout(since=commits[1])
    assert [here.counts(each) for each in runs] == [False, True, True, True, False]


@pytest.mark.processes(quick=True)
def test_a_checkout_is_another_when_what_is_measured_was_changed(
    checkout: Callable[[str], str],
) -> None:
    first = checkout("streamlink/link.py")
    here = Checkout()
    checkout("docs/integrations.md")
    assert not here.moved()
    last = checkout("streamlink/link.py")
    assert here.moved().startswith(f"the checkout was {first} and is {last} now")


def test_marks_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "results" / "runs.jsonl"
    append(path, replace(ran("first"), marks=[{"event": "round"}]))
    assert read(path) == [ran("first")]


# --- the table --------------------------------------------------------------

OTHER = {"cores": 64, "cpu": "another", "memory_bytes": 10**12}
RUNS = [ran(line, run) for run in range(3) for line in lines_of("appfl")]


def test_a_row_has_the_median_of_all_runs_with_the_lowest_and_the_highest() -> None:
    assert column("runs", RUNS, "first") == "3"
    assert column("commit", RUNS, "first") == "abc"
    assert column("round, s", RUNS, "first") == "31.00 (30.00..32.00)"


def test_what_was_asked_for_is_met_or_not_against_the_framework_alone() -> None:
    told = column("asked for", RUNS, "first")
    assert "round ≤ 2/3 met" in told
    assert "calls ≤ 1/5 NOT MET" in told
    assert "server ≤ 256 MiB + 0.1 model met" in column("asked for", RUNS, "second")
    assert column("asked for", RUNS, "bare") == column("asked for", RUNS, "tuned") == ""


def test_what_the_settings_of_the_process_bring_alone_stands_beside_it() -> None:
    ratios = COLUMNS[COLUMNS.index("to tuned") - 1]
    assert column(ratios, RUNS, "tuned") == "0.67, 0.67, 1.00, 1.00"
    assert column(ratios, RUNS, "first") == "0.34, 0.34, 0.50, 1.00"
    assert column("to tuned", RUNS, "first") == "0.51, 0.51, 0.50, 1.00"


def test_memory_that_ran_out_is_a_result_and_its_peak_a_lower_bound() -> None:
    runs = [replace(ran("bare"), ended="out of memory", exact=None), ran("first")]
    ratios = COLUMNS[COLUMNS.index("to tuned") - 1]
    assert column("ended", runs, "bare") == "out of memory"
    assert column("server, MB", runs, "bare") == ">4000"
    assert column(ratios, runs, "first") == "<0.33, 0.33, <0.50, <1.00"
    # What is above a limit by an upper bound may be below it.
    assert "server ≤ 0.6 met; client ≤ 0.6 -;" in column("asked for", runs, "first")


def test_a_run_that_was_cut_off_says_after_which_time() -> None:
    runs = [replace(ran("bare"), ended="timeout", exact=None, seconds=361.0)]
    assert column("ended", runs, "bare") == "not done within 6 minutes"
    assert column("calls, s", runs, "bare").startswith(">")


def test_what_sets_a_case_up_is_no_client() -> None:
    run = ran("first")
    run.memory["setup"] = Memory(0, 99 * MB, 99 * MB)
    assert column("client, MB", [run], "first") == "10"


def test_runs_of_two_commits_are_two_rows() -> None:
    rows = rows_of([ran("first"), replace(ran("first"), commit="later")])
    assert [row[COLUMNS.index("commit")] for row in rows] == ["abc", "later"]


def test_runs_that_were_measured_together_are_one_row_that_names_their_commits() -> None:
    runs = [ran("first"), replace(ran("first"), commit="later")]
    rows = rows_of(runs, lambda _: True)
    assert [row[COLUMNS.index("commit")] for row in rows] == ["abc, later"]


def test_a_row_names_the_machine_and_machines_of_two_kinds_have_a_row_each() -> None:
    rows = rows_of([ran("first"), replace(ran("first"), machine=OTHER)], lambda _: True)
    assert [row[COLUMNS.index("machine")] for row in rows] == ["", "64 × another, 1000 GB"]


def test_rows_stand_in_the_order_of_their_cases_whenever_they_were_run() -> None:
    larger = [replace(each, case=replace(each.case, size_bytes=10**9)) for each in RUNS]
    backwards = [*reversed(larger), *reversed(RUNS)]
    assert [row[1] for row in rows_of(backwards)] == [*lines_of("appfl")] * 2
    assert rows_of(backwards)[0][0].startswith("appfl 256 MB")


def test_a_page_has_the_table_of_each_framework_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- appfl -->\nold\n<!-- /appfl -->\nafter\n")
    for _ in range(2):  # a page that has been written can be written again
        write_page(page, rows_of(RUNS))
    text = page.read_text()
    assert text.startswith("before\n<!-- appfl -->\n| model | line |")
    assert text.endswith("Commits: abc.\n<!-- /appfl -->\nafter\n")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + len(lines_of("appfl"))
    assert len({line.count(" | ") for line in lines}) == 1


def test_a_page_says_what_was_not_met_and_what_cannot_be_told() -> None:
    slow = replace(ran("first"), rounds=[9.0 * 9], calls=ran("bare").calls)
    late = replace(ran("bare"), ended="out of memory", exact=None)
    table = table_of(rows_of([ran("bare"), slow]))
    assert "| calls ≤ 1/5, round ≤ 2/3, client ≤ 0.6 |" in table
    assert "exact in every element" in table
    table = table_of(rows_of([late, slow]))
    assert "| bare, once: out of memory |" in table
    assert "calls ≤ 1/5?" in table


def test_a_page_without_marks_is_left_as_it_is(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing")
    with pytest.raises(ValueError, match="<!-- appfl -->"):
        write_page(page, rows_of(RUNS))
    assert page.read_text() == "nothing"


# --- the environments -------------------------------------------------------

ONE = Environment(("one==1.0", "two"), alone=("framework==3.0",))


def answering(monkeypatch: pytest.MonkeyPatch, said: Callable[[list[str]], str]) -> None:
    """Let uv end with what ``said`` returns for its words; nothing: it is content."""

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        text = said(command) if "--python" in command else ""
        return subprocess.CompletedProcess(command, bool(text), "", text)

    monkeypatch.setattr(subprocess, "run", run)


@pytest.mark.parametrize(
    "said",
    [
        "Because framework was not found in the package registry",
        "error: Failed to fetch: `https://index/simple/framework/`",
    ],
)
def test_where_no_index_has_the_framework_it_cannot_be_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str
) -> None:
    answering(monkeypatch, lambda _: said)
    with pytest.raises(NoEnvironment, match="no index here has framework"):
        install(tmp_path / "one", ONE)


def test_where_uv_fails_although_an_index_has_the_framework_something_is_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answering(monkeypatch, lambda words: "" if "--dry-run" in words else "error: a conflict")
    with pytest.raises(BrokenEnvironment, match="a conflict"):
        install(tmp_path / "one", ONE)


def test_a_release_that_an_index_no_longer_has_is_no_reason_to_skip(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answering(monkeypatch, lambda _: "Because there is no version of framework==3.0")
    with pytest.raises(BrokenEnvironment, match="no version"):
        install(tmp_path / "one", ONE)
