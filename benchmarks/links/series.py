"""Runs what a plan has left, in turn, and keeps each run as soon as it is known."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Protocol

import psutil

from benchmarks.links.cases import Accuracy, Case, Run
from benchmarks.links.failures import (
    NOT_TRIED,
    TIMED_OUT,
    given_up,
    is_ours,
    is_unavailable,
    kind_of,
)
from benchmarks.links.kept import append
from benchmarks.links.lines import Line
from benchmarks.links.plans import Plan
from benchmarks.processes import WorkerFailed

__all__ = ["Counting", "Measure", "batches", "found_of", "left_to_do", "run_plan", "seconds_left",
           "tell"]  # fmt: skip

START_SECONDS = 8.0  # of a run: processes, imports, the model
SLOW_BITS_PER_SECOND = 4e6
END_TRIES = 60  # of half a second
LOOPBACK_BYTES_PER_SECOND = 1e9  # for the time that a plan is said to take


class Measure(Protocol):
    """Runs a case once; ``measuring.measure`` is it."""

    def __call__(self, case: Case, accuracy: Accuracy | None) -> Run:
        """Return what came of it, with what was found of its line."""


class Counting(Protocol):
    """What a series asks of its checkout; ``integrations.kept.Checkout`` is it."""

    @property
    def where(self) -> str:
        """The kind of this machine."""

    def counts(self, outcome: Run) -> bool:
        """Tell whether an earlier run used the code that would run now."""


def left_to_do(plan: Plan, known: Iterable[Run], here: Counting) -> list[Case]:
    """Return the runs that are not known yet, in their order: interleaved, line by line.

    On a slow line all peers with all models are one turn: they are run at once, see ``batches``.
    All computed models of a line are one turn, too, and run one after the other.

    A case that failed is not run again: the reason is a result. What ``failures`` tells is tried
    again all the same: our own cases once, and peers that could not be had.
    """
    have = [run for run in _counting(known, here) if not is_unavailable(run)]
    times = Counter(run.case for run in have if not run.error)
    failed = given_up(have)
    to_do: list[Case] = []
    for _, neighbours in groupby(plan.cases, key=_turn):
        cases = list(neighbours)
        for turn in range(plan.runs):
            for case in cases:
                often = plan.in_turn(case)
                missing = (turn + 1) * often - times[case]
                to_do += [case] * (0 if case in failed else max(0, min(often, missing)))
    return to_do


def _counting(known: Iterable[Run], here: Counting) -> list[Run]:
    return [run for run in known if run.where == here.where and here.counts(run)]


def _turn(case: Case) -> object:
    if _is_slow(case.line):
        return case.line
    # Models of all sizes are compared, so a machine that slows down must affect all of them alike.
    is_computed = case.payload.kind == "computed"
    return (case.line, "computed" if is_computed else case.payload)


def batches(to_do: Iterable[Case]) -> list[list[Case]]:
    """Return what is run at once: on a slow line all cases of a turn, else one case.

    Each run has a line of its own, and a slow line leaves the processors idle: it takes minutes
    whatever runs beside it.
    """
    found: list[list[Case]] = []
    for case in to_do:
        last = found[-1] if found else []
        if last and _is_slow(case.line) and last[0].line == case.line and case not in last:
            last.append(case)
        else:
            found.append([case])
    return found


def _is_slow(line: Line) -> bool:
    return line.rate is not None and line.rate <= SLOW_BITS_PER_SECOND


def run_plan(
    plan: Plan,
    path: Path,
    known: Sequence[Run],
    here: Counting,
    *,
    measure: Measure,
    measure_line: Callable[[Line, float], Accuracy],
    clock: Callable[[], float] = time.monotonic,
) -> list[Run]:
    """Run what is left of a plan; returns all runs of it, those of before too.

    Each line is measured first. A line that cannot be had is reported by the runs on it. A case
    that timed out is not tried again, and that is kept, too.
    """
    began_at = clock()
    to_do, results = left_to_do(plan, known, here), list(known)
    good = Counter(run.case for run in _counting(known, here) if not run.error)
    left = seconds_left(to_do, known)
    tell(f"{len(to_do)} of {plan.run_count} runs to do, about {_clock(left)}")
    lines: dict[Line, Accuracy | None] = {}
    failed: set[Case] = set()
    done = 0
    for batch in batches(to_do):
        line = batch[0].line
        for at, case in enumerate(batch):
            tell(f"[{done + at + 1}/{len(to_do)}, {_clock(left)} left] {case}")
        chosen = [case for case in batch if case not in failed]
        elapsed = clock() - began_at
        if elapsed + left > plan.most_seconds:
            chosen = _without_repeats(chosen, [*_counting(known, here), *results[len(known) :]])
        chosen = _in_time(chosen, plan.stop_seconds - elapsed, results)
        if chosen and line not in lines:
            lines[line] = _accuracy(line, plan.accuracy_seconds, measure_line)
        with closing(_at_once(chosen, partial(measure, accuracy=lines.get(line)))) as runs:
            for run in runs:
                run.turn = good[run.case] + 1
                good[run.case] += not run.error
                for each in (run, *_not_again(run, to_do[done:])):
                    append(path, each)
                    results.append(each)
                if run.error:
                    failed.add(run.case)
                tell(f"  {run.case.peer}: {summary(run)}")
        done += len(batch)
        left = seconds_left(to_do[done:], results, failed)
    return results


def _not_again(run: Run, to_do: Sequence[Case]) -> list[Run]:
    """Return what stands for the further runs of a peer's case that has just timed out."""
    if not run.error.startswith(TIMED_OUT) or is_ours(run):
        return []
    rest = to_do.count(run.case) - 1
    return [replace(run, error=f"{NOT_TRIED}{run.error}") for _ in range(rest)]


def _without_repeats(cases: Sequence[Case], results: Sequence[Run]) -> list[Case]:
    """Return the cases that were not measured yet: for others the plan has no time left."""
    known = {run.case for run in results if not run.error}
    for case in cases:
        if case in known:
            tell(f"  {case.peer}: not repeated, the plan takes too long; run the command again")
    return [case for case in cases if case not in known]


def _in_time(cases: Sequence[Case], seconds: float, results: Sequence[Run]) -> list[Case]:
    """Return the cases that end before the deadline, by what is known of them."""
    fits = {case: seconds_of(case, results) <= seconds for case in cases}
    for case, is_in_time in fits.items():
        if not is_in_time:
            tell(f"  {case.peer}: not run, the deadline comes first; run the command again")
    return [case for case in cases if fits[case]]


def _at_once(cases: Sequence[Case], measure: Callable[[Case], Run]) -> Generator[Run, None, None]:
    """Yield each run when it has ended; where this is interrupted, the others end at once."""
    if len(cases) <= 1:
        yield from map(measure, cases)
        return
    with ThreadPoolExecutor(len(cases), thread_name_prefix="run") as pool:
        runs = [pool.submit(measure, case) for case in cases]
        try:
            for each in as_completed(runs):
                yield each.result()
        except BaseException:
            _end(runs)
            raise


def _end(runs: Sequence[Future[Run]]) -> None:
    """End the processes of runs that go on, so that each fails; nobody keeps it.

    Without that, whoever interrupts this process alone would wait until all runs have ended.
    """
    for _ in range(END_TRIES):
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                child.kill()
        # A run may have begun to start a process meanwhile.
        if not wait(runs, timeout=0.5).not_done:
            return


def seconds_left(
    to_do: Iterable[Case], known: Sequence[Run], failed: Collection[Case] = ()
) -> float:
    """Return about how long the rest takes (seconds)."""
    rest = batches(case for case in to_do if case not in failed)
    return sum(max(seconds_of(case, known) for case in batch) for batch in rest)


def summary(run: Run) -> str:
    """Return one line of what a run showed."""
    if run.error:
        return f"{kind_of(run.error)}: {run.error}"
    peaks = [f"{role} +{side.peak_over_base_bytes / 2**20:.0f} MiB"
             for role, side in run.sides.items()]  # fmt: skip
    words = [f"{run.seconds:.2f} s", f"{run.rate / 1e6:.3g} MB/s", *peaks]
    return ", ".join([*words, f"started in {run.startup_seconds:.1f} s"])


def seconds_of(case: Case, known: Iterable[Run]) -> float:
    """Return about how long a run takes, as it did before, or as its line allows."""
    same = [each.seconds + each.startup_seconds for each in known
            if each.case == case and not each.error]  # fmt: skip
    if same:
        return median(same)
    nbytes = case.payload.size_bytes
    return START_SECONDS + (case.line.seconds(nbytes) or nbytes / LOOPBACK_BYTES_PER_SECOND)


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
    tell(f"  {found_of(line, found)}")
    return found


def found_of(line: Line, found: Accuracy) -> str:
    """Return as one line of text what a raw socket measured on ``line``."""
    trip = f"{found.round_trip * 1e3:.2f} ms of {line.round_trip * 1e3:g}"
    words = [f"round trip {trip}"]
    for name, way, rate in zip(("up", "down"), line.ways, (found.rate, found.down_rate),
                               strict=True):  # fmt: skip
        share = f", {rate / way.rate:.1%} of its rate" if way.rate else ""
        words.append(f"{name} {rate / 1e6:.4g} Mbit/s{share}")
    return "; ".join(words)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02d} h"
