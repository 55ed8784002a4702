"""Runs cases in turn (bare, first, second, bare, ...) and keeps each result at once.

A line of the result file is one run. A series that was interrupted goes on: what the file has of
the same case and commit is not run again.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_UN, flock
from importlib import import_module
from pathlib import Path

from benchmarks.integrations.cases import Case, Outcome
from benchmarks.integrations.environments import NoEnvironment, build
from benchmarks.integrations.running import run_case
from benchmarks.stats import commit

__all__ = ["Limits", "measure", "read", "run_series", "summary", "tell"]

_MEASURING = Path("/tmp/streamlink-measuring.lock")


class Limits:
    """What ends a run: memory of all sides together (bytes), and time (seconds)."""

    def __init__(self, limit_bytes: int = 14_000_000_000, timeout: float = 900.0) -> None:
        self.limit_bytes, self.timeout = limit_bytes, timeout


def read(path: Path | None) -> list[Outcome]:
    """Return every run of a result file; none where there is no file."""
    if path is None or not path.exists():
        return []
    lines = path.read_text("utf-8").splitlines(keepends=True)
    # A line that was cut off by a crash is run again.
    return [Outcome.from_json(json.loads(line)) for line in lines if line.endswith("\n")]


def run_series(
    cases: Sequence[Case],
    runs: int,
    path: Path | None,
    perform: Callable[[Case], Outcome],
) -> list[Outcome]:
    """Run every case ``runs`` times, interleaved, and return all results, those of before too.

    What a framework has no environment for is skipped, with the reason.
    """
    results, skipped = read(path), set[str]()
    head = commit()
    for number in range(1, runs + 1):
        for case in cases:
            have = sum(each.case == case and each.commit == head for each in results)
            if case.framework in skipped or have >= number:
                continue
            tell(f"run {number} of {runs}: {case}")
            try:
                outcome = perform(case)
            except NoEnvironment as error:
                skipped.add(case.framework)
                tell(f"{case.framework} is skipped: {error}")
                continue
            results.append(outcome)
            _append(path, outcome)
            tell(f"  {summary(outcome)}")
    return results


def measure(case: Case, limits: Limits) -> Outcome:
    """Run a case once, while no other case of this machine is measured.

    Raises:
        NoEnvironment: its framework cannot be had here.
    """
    python = build(case.framework, tell)
    module = import_module(f"benchmarks.integrations.{case.framework}")
    with _alone():
        return run_case(
            case, module.run, python, limit_bytes=limits.limit_bytes, timeout=limits.timeout
        )


@contextmanager
def _alone() -> Iterator[None]:
    """Keep two series of this machine from measuring at the same moment."""
    with _MEASURING.open("a") as file:
        flock(file, LOCK_EX)
        try:
            yield
        finally:
            flock(file, LOCK_UN)


def _append(path: Path | None, outcome: Outcome) -> None:
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(outcome.as_json()) + "\n")


def summary(outcome: Outcome) -> str:
    """Return one line of what a run showed."""
    words = [outcome.ended, f"{outcome.seconds:.1f} s"]
    if outcome.rounds:
        words.append("rounds " + " ".join(f"{each:.2f}" for each in outcome.rounds))
    for side, calls in sorted(outcome.calls.items()):
        words.append(f"{side} send {calls['send']:.2f} receive {calls['receive']:.2f} s")
    for side, memory in sorted(outcome.memory.items()):
        words.append(f"{side} +{memory.over_base_bytes / 1e6:.0f} MB")
    words.append({True: "exact", False: "NOT EXACT", None: "no result"}[outcome.exact])
    if outcome.left_behind:
        words.append(f"left behind: {outcome.left_behind}")
    return ", ".join(words) + (f"\n{outcome.said}" if outcome.said else "")


def tell(text: str) -> None:
    """Print progress, with the time, where it is not taken for a result."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
