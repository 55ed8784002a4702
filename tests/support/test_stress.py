"""``make test-stress``: what it counts, keeps, and does again after an interruption."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.support.stress import Tally, run, summarize

TESTS = """
from pathlib import Path

def test_good(): pass

def test_bad():
    print("why it failed")
    assert False

def test_at_first():
    flag = Path({flag!r})
    is_first = not flag.exists()
    flag.touch()
    assert not is_first
"""


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    """A file of three tests: one passes, one fails, and one fails once."""
    file = tmp_path / "test_it.py"
    file.write_text(TESTS.format(flag=str(tmp_path / "flag")))
    return file


def outcome(tally: Tally) -> dict[str, tuple[int, int]]:
    """Return runs and failures by the test's own name."""
    return {test.split("::")[1]: (n, tally.failures[test]) for test, n in tally.runs.items()}


@pytest.mark.processes
def test_every_test_runs_so_often_as_is_missing_and_anew_when_its_file_has_changed(
    tmp_path: Path, tests: Path
) -> None:  # one test, since each start of pytest takes a second
    kept = tmp_path / "kept"
    once = run(kept, [tests.name, "-k", "good"], runs=1, busy=0, workers=0, root=tmp_path)
    assert outcome(once) == {"test_good": (1, 0)}
    tally = run(kept, [tests.name], runs=2, busy=1, workers=0, root=tmp_path)
    assert outcome(tally) == {"test_good": (2, 0), "test_bad": (2, 2), "test_at_first": (2, 1)}
    logs = sorted(kept.glob("logs/*"))
    assert len(logs) == 3
    assert all("why it failed" in log.read_text() for log in logs if "test-bad" in log.name)

    tests.write_text("def test_bad(): pass")
    tally = run(kept, [tests.name], runs=1, busy=0, workers=0, root=tmp_path)
    assert outcome(tally) == {"test_bad": (1, 0)}
    summarize(kept, tmp_path / "summary")
    assert len((tmp_path / "summary").read_text().splitlines()) == 4


@pytest.mark.processes
def test_tests_that_cannot_be_collected_are_an_error_with_what_pytest_said(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"cannot collect the tests:\n(.|\n)*no_such_file"):
        run(tmp_path, ["no_such_file.py"], runs=1, busy=0, workers=0, root=tmp_path)


@pytest.mark.processes
def test_a_test_that_is_skipped_here_has_not_run_and_the_others_do(tmp_path: Path) -> None:
    text = "import pytest\ndef test_away(): pytest.skip('no GPU')\ndef test_here(): pass\n"
    (tmp_path / "test_some.py").write_text(text)
    tally = run(tmp_path / "kept", ["test_some.py"], runs=2, busy=0, workers=0, root=tmp_path)
    assert outcome(tally) == {"test_here": (2, 0)}
    summarize(tmp_path / "kept", tmp_path / "summary")
    (line,) = (tmp_path / "summary").read_text().splitlines()
    assert "test_here" in line


@pytest.mark.processes
def test_a_test_that_follows_itself_gets_new_fixtures(tmp_path: Path) -> None:
    alone = "def test_alone(tmp_path): (tmp_path / 'only').mkdir()"
    (tmp_path / "test_one.py").write_text(alone)
    tally = run(tmp_path / "kept", ["test_one.py"], runs=3, busy=0, workers=0, root=tmp_path)
    assert outcome(tally) == {"test_alone": (3, 0)}


def test_a_summary_counts_runs_and_failures_of_each_test_and_commit(tmp_path: Path) -> None:
    lines = [
        {"test": "a", "commit": "old", "file": "", "runs": 3, "failures": 1},
        {"test": "a", "commit": "new", "file": "", "runs": 1, "failures": 0},
        {"test": "a", "commit": "new", "file": "", "runs": 1, "failures": 1},
    ]
    (tmp_path / "results.jsonl").write_text("\n".join(map(json.dumps, lines)) + '\n{"test": "cut')
    summary = tmp_path / "again" / "results.jsonl"
    summarize(tmp_path, summary)
    new, old = map(json.loads, summary.read_text().splitlines())
    assert new == {"test": "a", "commit": "new", "file": "", "runs": 2, "failures": 1}
    assert old == lines[0]
    assert Tally.read(summary.parent) == Tally.read(tmp_path)


def test_each_is_due_as_often_as_it_has_not_run_and_five_times_at_most() -> None:
    tally = Tally(Counter({"a": 18, "b": 2, "d": 20}), Counter())
    assert tally.due(["a", "b", "c", "d"], runs=20) == {"a": 2, "b": 5, "c": 5}


def test_what_has_run_least_is_due_first() -> None:
    tally = Tally(Counter({"a": 2, "b": 1, "d": 3}), Counter())
    assert list(tally.due(["a", "b", "c", "d"], runs=3)) == ["c", "b", "a"]


def test_a_result_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    whole = json.dumps({"test": "a", "commit": "c", "file": "", "runs": 1, "failures": 1})
    (tmp_path / "results.jsonl").write_text(f"{whole}\n{whole[:9]}")
    tally = Tally.read(tmp_path)
    assert (tally.runs, tally.failures) == (Counter(a=1), Counter(a=1))
