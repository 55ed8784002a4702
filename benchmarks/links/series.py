"""Runs what a plan has left, in turn, and keeps each run as soon as it is known."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Protocol

from benchmarks.links.cases import Accuracy, Case, Run
from benchmarks.links.kept import append
from benchmarks.links.lines import Line
from benchmarks.links.plans import Plan
from benchmarks.processes import WorkerFailed

__all__ = ["Counting", "left_to_do", "run_plan", "seconds_of", "tell"]

START_SECONDS = 8.0  # of a run: processes, imports, the model


class Counting(Protocol):
    """What a series asks of its checkout; ``integrations.kept.Checkout`` is it."""

    @property
    def where(self) -> str:
        """The kind of this machine."""

    def counts(self, outcome: Run) -> bool:
        """Tell whether a run of before ran what would be run now."""


def left_to_do(plan: Plan, known: Iterable[Run], here: Counting) -> list[Case]:
    """Return the runs that are not known yet, in their order: interleaved, line by line.

    A run that failed counts as well: the reason is a result. A case that failed is not run again,
    unless its peer could not be had.
    """
    have = [run for run in known if run.where == here.where and here.counts(run)]
    times = Counter(run.case for run in have)
    failed = {run.case for run in have if run.error}
    to_do: list[Case] = []
    for _, neighbours in groupby(plan.cases, key=lambda case: (case.line, case.payload)):
        cases = list(neighbours)
        for number in range(plan.runs):
            to_do += [each for each in cases if times[each] <= number and each not in failed]
    return to_do


def run_plan(
    plan: Plan,
    path: Path,
    known: Sequence[Run],
    here: Counting,
    *,
    measure: Callable[[Case, Accuracy | None], Run],
    measure_line: Callable[[Line, float], Accuracy],
) -> list[Run]:
    """Run what is left of a plan; returns all runs of it, those of before too.

    Each line is measured first. A line that cannot be had is reported by the runs on it.
    """
    to_do, results = left_to_do(plan, known, here), list(known)
    left = sum(seconds_of(case, known) for case in to_do)
    total = len(plan.cases) * plan.runs
    tell(f"{len(to_do)} of {total} runs to do, about {_clock(left)}")
    lines: dict[Line, Accuracy | None] = {}
    failed: set[Case] = set()
    for at, case in enumerate(to_do):
        left = sum(seconds_of(each, results) for each in to_do[at:] if each not in failed)
        if case in failed:
            continue
        if case.line not in lines:
            lines[case.line] = _accuracy(case.line, plan.accuracy_seconds, measure_line)
        tell(f"[{at + 1}/{len(to_do)}, {_clock(left)} left] {case}")
        run = measure(case, lines[case.line])
        append(path, run)
        results.append(run)
        if run.error:
            failed.add(case)
        tell(f"  {summary(run)}")
    return results


def summary(run: Run) -> str:
    """Return one line of what a run showed."""
    if run.error:
        return f"failed: {run.error}"
    peaks = [f"{role} +{side.peak_over_base_bytes / 2**20:.0f} MiB"
             for role, side in run.sides.items()]  # fmt: skip
    words = [f"{run.seconds:.2f} s", f"{run.rate / 1e6:.3g} MB/s", *peaks]
    return ", ".join([*words, f"started in {run.startup_seconds:.1f} s"])


def seconds_of(case: Case, known: Iterable[Run]) -> float:
    """Return about how long a run takes, as it did before, or as its line allows."""
    same = [each.seconds + each.startup_seconds for each in known if each.case == case]
    return median(same) if same else START_SECONDS + case.line.seconds(case.payload.size_bytes)


def tell(text: str) -> None:
    """Print progress, with the time, where it is not taken for a result."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _accuracy(
    line: Line, seconds: float, measure_line: Callable[[Line, float], Accuracy]
) -> Accuracy | None:
    tell(f"the line itself: {line}")
    try:
        found = measure_line(line, seconds)
    except (OSError, ValueError, WorkerFailed) as error:
        tell(f"  cannot be measured: {error}")
        return None
    of_rate = f", {found.rate / line.rate:.1%} of its rate" if line.rate else ""
    trip = f"{found.round_trip * 1e3:.2f} ms of {line.round_trip * 1e3:g}"
    tell(f"  round trip {trip}, {found.rate / 1e6:.4g} Mbit/s{of_rate}")
    return found


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02d} h"
