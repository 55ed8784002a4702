"""``make test-stress``: the process tests again and again, beside processes that use all cores.

``python -m tests.support.stress --runs 20`` runs each of them until it has run so often. One pytest
repeats each a few times: to start it, and to wait for the last tests while most workers are idle,
takes a good part of its time. It may be interrupted at any time, and goes on where
it was: each result is a line of ``results.jsonl``, written when it is known. What a failed run
printed is kept beside it. With ``--summary FILE`` it goes on from a summary of such results, on a
machine that has none, and writes it anew at its end: a line for each test, commit and version of
the test's file. A run counts while the file of its test is what it was: who changes it begins anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.stats import commit
from tests.support.commands import REPOSITORY, environment
from tests.support.waiting import WAIT_SETTING

__all__ = ["Keeper", "Tally", "run", "summarize"]

FOLDER = REPOSITORY / ".stress"
_RESULTS = "results.jsonl"
_PLUGIN = "tests.support.stress"
_KEPT_IN = "STREAMLINK_STRESS_FOLDER"
_REPEATED = "STREAMLINK_STRESS_REPEATED"
_ROUNDS = 5  # of one pytest at most: a worker that lives for hours would grow
_BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"


@dataclass(frozen=True, slots=True)
class Tally:
    """How often each test has run, and failed, as its file is now."""

    runs: Counter[str]
    failures: Counter[str]

    @classmethod
    def read(cls, folder: Path, root: Path = REPOSITORY) -> Tally:
        """Return what the results in ``folder`` add up to, of files as they are under ``root``."""
        tally, now = cls(Counter(), Counter()), cache(partial(_version, root))
        for result in _results(folder):
            if result.get("file") == now(result["test"].partition("::")[0]):
                tally.runs[result["test"]] += result["runs"]
                tally.failures[result["test"]] += result["failures"]
        return tally

    def due(self, tests: Sequence[str], runs: int) -> dict[str, int]:
        """Return how often each test is to run now, those that have run least first.

        None of them more often than a process of pytest should live, or than ``runs`` times in all.
        """
        left = [test for test in tests if self.runs[test] < runs]
        left.sort(key=lambda test: self.runs[test])
        return {test: min(_ROUNDS, runs - self.runs[test]) for test in left}


class Keeper:
    """A pytest plugin that notes each result when it is known, and keeps what a failure printed."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._folder, self._root = folder, root
        self._commit = commit()
        self._texts: dict[str, str] = {}
        self._skipped: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test once it is over: its teardown may fail, too."""
        if report.failed:
            text = "\n".join([report.longreprtext, *(f"-- {n}\n{t}" for n, t in report.sections)])
            self._texts[report.nodeid] = self._texts.get(report.nodeid, "") + text
        if report.skipped:
            self._skipped.add(report.nodeid)
        if report.when == "teardown":
            is_run = report.nodeid not in self._skipped
            self._note(report.nodeid, self._texts.pop(report.nodeid, None), int(is_run))

    def _note(self, test: str, failure: str | None, runs: int) -> None:
        if failure is not None:
            number = sum(result["test"] == test for result in _results(self._folder)) + 1
            log = (
                self._folder / "logs" / f"{re.sub(r'[^A-Za-z0-9]+', '-', test)[-150:]}-{number}.txt"
            )
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(failure, "utf-8")
        with (self._folder / _RESULTS).open("a", encoding="utf-8") as results:
            file = _version(self._root, test.partition("::")[0])
            results.write(_line((test, self._commit, file), runs, int(failure is not None)))


def pytest_configure(config: pytest.Config) -> None:
    """Keep results, in the process that hears of all of them."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Keeper(Path(os.environ[_KEPT_IN]), config.rootpath))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Repeat all tests, round after round, each with the time limit of this run."""
    for item in items:
        for node in item.listchain():  # that of its module, too
            node.own_markers = [each for each in node.own_markers if each.name != "timeout"]
    times = json.loads(Path(os.environ[_REPEATED]).read_text("utf-8"))
    items[:] = [each for turn in range(_ROUNDS) for each in items if turn < times[each.nodeid]]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Let go of a test that follows itself: pytest keeps the fixtures that the next one needs."""
    if item is not nextitem:
        return None
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
    return True


def run(
    folder: Path,
    select: Sequence[str],
    *,
    runs: int,
    busy: int,
    workers: int,
    root: Path = REPOSITORY,
) -> Tally:
    """Run what ``select`` selects until each test has run ``runs`` times in all.

    Args:
        folder: takes the results and the logs.
        select: arguments for pytest.
        runs: of each test, with those that ``folder`` knows.
        busy: how many processes compute beside them.
        workers: how many tests run at a time.
        root: where pytest runs.

    Raises:
        RuntimeError: pytest ended without a single result.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tests = _collected(select, root)
    with _busy(busy):
        while due := Tally.read(folder, root).due(tests, runs):
            before = len(list(_results(folder)))
            _run_all(folder, due, workers, root)
            new = list(_results(folder))[before:]
            if not new:
                raise RuntimeError("pytest has run none of the tests; see what it printed")
            # What a test is skipped for does not change while this runs. It counts as no run.
            skipped = {each["test"] for each in new if not each["runs"]}
            tests = [each for each in tests if each not in skipped]
    tally, known = Tally.read(folder, root), set(tests)
    return Tally(
        Counter({test: count for test, count in tally.runs.items() if test in known and count}),
        Counter({test: count for test, count in tally.failures.items() if test in known}),
    )


def summarize(folder: Path, summary: Path) -> None:
    """Write a line to ``summary`` for each test, commit and version of its file in ``folder``."""
    runs: Counter[tuple[str, str, str]] = Counter()
    failures: Counter[tuple[str, str, str]] = Counter()
    for result in _results(folder):
        key = result["test"], result["commit"], result.get("file", "")
        runs[key] += result["runs"]
        failures[key] += result["failures"]
    lines = [_line(key, runs[key], failures[key]) for key in sorted(runs) if runs[key]]
    summary.parent.mkdir(parents=True, exist_ok=True)
    unfinished = summary.with_name(summary.name + ".partial")
    unfinished.write_text("".join(lines), "utf-8")
    unfinished.replace(summary)


def _begin_from(summary: Path, folder: Path) -> None:
    # Results in the folder are newer, and have all that the summary says: it was made of them.
    if summary.exists() and not (folder / _RESULTS).exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _RESULTS).write_bytes(summary.read_bytes())


def _results(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield what the lines in ``folder`` say; one that was cut off is left out."""
    with suppress(FileNotFoundError):
        for line in (folder / _RESULTS).read_text("utf-8").splitlines():
            with suppress(json.JSONDecodeError):
                yield json.loads(line)


def _line(key: tuple[str, str, str], runs: int, failures: int) -> str:
    test, of, file = key
    result = {"test": test, "commit": of, "file": file, "runs": runs, "failures": failures}
    return json.dumps(result) + "\n"


def _version(root: Path, file: str) -> str:
    """Return what tells one content of a test file from another; ``""``: there is no file."""
    with suppress(OSError):
        return hashlib.sha256((root / file).read_bytes()).hexdigest()[:16]
    return ""


def _collected(select: Sequence[str], root: Path) -> list[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", *select]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    if done.returncode:
        raise RuntimeError(f"pytest cannot collect the tests:\n{done.stdout}{done.stderr}")
    return [line for line in done.stdout.splitlines() if "::" in line]


def _run_all(folder: Path, due: Mapping[str, int], workers: int, root: Path) -> None:
    times = (folder / "due.json").absolute()
    times.write_text(json.dumps(due), "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=no", "-p", _PLUGIN]
    command += [
        "-o",
        "timeout=1200",
        "-o",
        "faulthandler_timeout=1190",
    ]  # far slower, no hang
    env = {**environment(), _KEPT_IN: str(folder.absolute()), _REPEATED: str(times)}
    env[WAIT_SETTING] = "240"
    subprocess.run([*command, "-n", str(workers), *due], env=env, check=False, cwd=root)


@contextmanager
def _busy(count: int) -> Iterator[None]:
    """Keep ``count`` processes computing; they end with this one, however that ends."""
    started = [subprocess.Popen([sys.executable, "-S", "-c", _BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def _table(tally: Tally, folder: Path) -> Table:
    table = Table("test", "runs", "failures", title=f"stress ({folder})")
    for test, count in sorted(tally.failures.items()):
        if count:
            table.add_row(test, str(tally.runs[test]), str(count))
    table.add_row(
        f"all {len(tally.runs)} tests", str(tally.runs.total()), str(tally.failures.total())
    )
    return table


def main(
    runs: Annotated[int, typer.Option(help="Runs of each test, in all.")] = 20,
    busy: Annotated[int, typer.Option(help="Processes that compute beside the tests.")] = 4,
    workers: Annotated[int, typer.Option(help="Tests at a time.")] = 2,
    only: Annotated[str, typer.Option(help="Of these names only, as for pytest -k.")] = "",
    folder: Annotated[Path, typer.Option(help="Keeps the results and the logs.")] = FOLDER,
    summary: Annotated[
        Path | None, typer.Option(help="Go on from this summary; written at the end.")
    ] = None,
) -> None:
    """Repeat the process tests beside busy processes; ends with status 1 where one has failed."""
    # What needs a framework's environment builds it first: minutes that stress nothing of ours.
    select = ["-m", "processes and not integrations", *(["-k", only] if only else [])]
    if summary is not None:
        _begin_from(summary, folder)
    try:
        tally = run(folder, select, runs=runs, busy=busy, workers=workers)
    except KeyboardInterrupt:
        tally = Tally.read(folder)
        print("interrupted; the same command goes on from here")
    if summary is not None:
        summarize(folder, summary)
    Console().print(_table(tally, folder))
    raise typer.Exit(1 if tally.failures.total() else 0)


if __name__ == "__main__":
    typer.run(main)
