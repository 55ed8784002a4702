"""Runs cases in turn (bare, first, second, bare, ...) and keeps each result at once.

A line of the result file is one run. A series that was interrupted goes on: what the file has of
the same case is not run again, as long as it counts (``kept.Checkout``).
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fcntl import LOCK_EX, LOCK_UN, flock
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Protocol

import psutil

from benchmarks.integrations.cases import Case, Outcome, short
from benchmarks.integrations.environments import BrokenEnvironment, NoEnvironment, build
from benchmarks.integrations.kept import Checkout, append, read
from benchmarks.integrations.running import run_case

__all__ = [
    "ALONE_SECONDS",
    "REPEATED_SECONDS",
    "Counting",
    "Limits",
    "Series",
    "estimate",
    "left_to_do",
    "measure",
    "run_series",
    "settled",
    "summary",
    "tell",
]

GB = 1_000_000_000
_MEASURING = Path("/tmp/streamlink-measuring.lock")
_START_SECONDS = 30.0
_SECONDS_PER_GB = {"bare": 15.0, "tuned": 10.0, "first": 7.0, "second": 7.0}
"""A first guess of what 1 GB for each client and round takes; results of the file replace it."""

ALONE_SECONDS = 360.0
"""When a run in which a framework is alone is ended."""

REPEATED_SECONDS = 240.0
"""The most that all such runs of one case take together: once another one would take longer, there
is none."""

_TELLING_GB = 2.0  # smaller cases took no longer than their start, and tell nothing of large ones


@dataclass(frozen=True)
class Series:
    """Cases that are run in turn, ``runs`` times each."""

    cases: tuple[Case, ...]
    runs: int = 1


@dataclass(frozen=True)
class Limits:
    """What ends a run: memory of all sides together (bytes), and time (seconds).

    None stands for what the machine has, but for 3 GB, and for a time that grows with the case.
    """

    limit_bytes: int | None = None
    timeout: float | None = None

    def of(self, case: Case) -> tuple[int, float]:
        """Return both limits of a case."""
        most = self.limit_bytes or psutil.virtual_memory().total - 3 * GB
        ours = 900.0 + 400.0 * case.size_bytes / GB * case.clients
        return most, self.timeout or (ours if case.is_ours else ALONE_SECONDS)


class Counting(Protocol):
    """What a series asks of its checkout; ``kept.Checkout`` is it."""

    @property
    def head(self) -> str:
        """The commit at the start."""

    @property
    def where(self) -> str:
        """The kind of this machine."""

    def counts(self, outcome: Outcome) -> bool:
        """Tell whether a run of before belongs to what is measured here."""

    def moved(self) -> str:
        """Return why what would be run now is something else; empty: it is not."""


def left_to_do(plan: Sequence[Series], results: Sequence[Outcome], here: Counting) -> list[Case]:
    """Return the runs that ``results`` do not have, in their order.

    A series is whole if one machine has all of it, whichever: its lines are compared with each
    other. Runs of a framework alone that are not needed are left out; see ``settled``.
    """
    known = [each for each in results if here.counts(each)]
    places = [here.where, *sorted({each.where for each in known} - {here.where})]
    to_do: list[Case] = []
    for series in plan:
        foreseen = [_likely(each, results) for each in dict.fromkeys(to_do)]
        lacking = [
            _lacking(series, [each for each in known if each.where == place], foreseen, results)
            for place in places
        ]
        to_do += lacking[0] if all(lacking) else []
    return to_do


def _lacking(
    series: Series,
    there: Sequence[Outcome],
    foreseen: Sequence[Outcome],
    results: Sequence[Outcome],
) -> list[Case]:
    """Return the runs of a series that one machine does not have."""
    have = Counter(each.case for each in there)
    to_do: list[Case] = []
    for number in range(series.runs):
        for case in series.cases:
            likely = [_likely(each, results) for each in to_do if each == case]
            if have[case] <= number and not settled(case, [*there, *foreseen, *likely]):
                to_do.append(case)
    return to_do


def _likely(case: Case, results: Sequence[Outcome]) -> Outcome:
    seconds = _estimate(case, results)
    is_cut = not case.is_ours and seconds >= ALONE_SECONDS
    return Outcome(case, "timeout" if is_cut else "done", seconds)


def settled(case: Case, known: Sequence[Outcome]) -> str:
    """Return why a framework alone need not run this case (again); empty: it has to.

    Streamlink's own lines always have to. Alone, a framework may take an hour for what streamlink
    does in a minute, and the hour says no more than that it was not done in ``ALONE_SECONDS``.
    """
    if case.is_ours:
        return ""
    mine = [each.seconds for each in known if each.case == case]
    if mine and case.line == "tuned":
        return "it is only there to explain, and once is enough"
    if mine and sum(mine) + max(mine) > REPEATED_SECONDS:
        return f"{len(mine)} run(s) took {sum(mine):.0f} s"
    for each in known:
        other = each.case
        is_smaller = other.size_bytes <= case.size_bytes and _volume(other) <= _volume(case)
        is_same = replace(case, size_bytes=other.size_bytes, clients=other.clients) == other
        if is_smaller and is_same and each.ended in ("timeout", "out of memory"):
            return f"{each.ended} with {short(other.size_bytes)} already"
    return ""


def run_series(
    plan: Sequence[Series],
    path: Path | None,
    perform: Callable[[Case], Outcome],
    here: Counting | None = None,
) -> list[Outcome]:
    """Run every series of ``plan``, and return all results, those of before too.

    Results of before count as ``here`` says; None: as this checkout and machine are.

    What a framework has no environment for is skipped, with the reason. Where its environment is
    broken, one failed result says so.
    """
    here = here or Checkout()
    results, ended = read(path), set[str]()
    to_do = left_to_do(plan, results, here)
    total = sum(len(series.cases) * series.runs for series in plan)
    tell(f"{len(to_do)} of {total} runs to do, about {_clock(estimate(to_do, results))}")
    for at, case in enumerate(to_do):
        if case.framework in ended:
            continue
        if why := here.moved():
            tell(f"{why}; what is left is for another series")
            break
        if why := settled(case, [each for each in results if here.counts(each)]):
            tell(f"[{at + 1}/{len(to_do)}] {case}: not needed, {why}")
            continue
        left = _clock(estimate(to_do[at:], results))
        tell(f"[{at + 1}/{len(to_do)}, {left} left] {case}")
        try:
            outcome = perform(case)
        except NoEnvironment as error:
            ended.add(case.framework)
            tell(f"{case.framework} is skipped: {error}")
            continue
        except BrokenEnvironment as error:
            ended.add(case.framework)
            outcome = Outcome(case, "failed", 0.0, said=str(error), commit=here.head)
        else:
            append(path, outcome)
        results.append(outcome)
        tell(f"  {summary(outcome)}")
    return results


def estimate(cases: Sequence[Case], results: Sequence[Outcome]) -> float:
    """Return about how long the cases take (seconds), as runs of the same line took before."""
    return sum(_estimate(case, results) for case in cases)


def _estimate(case: Case, results: Sequence[Outcome]) -> float:
    same = [each.seconds for each in results if each.case == case]
    if same:
        return median(same)
    alike = [each for each in results if _volume(each.case) and
             (each.case.framework, each.case.line) == (case.framework, case.line)]  # fmt: skip
    whole = [each for each in alike if each.ended == "done" and not each.case.failure]
    # Of the largest alone: what a small one takes is its start, and whatever ran beside it.
    most = max((_volume(each.case) for each in whole), default=0.0)
    rates = [(each.seconds - _START_SECONDS) / most for each in whole
             if _volume(each.case) == most]  # fmt: skip
    guess = _SECONDS_PER_GB[case.line]
    rate = median(rates) if most >= _TELLING_GB else max([guess, *rates])
    seconds = _START_SECONDS * (2 if case.failure else 1) + rate * _volume(case)
    return seconds if case.is_ours else min(seconds, ALONE_SECONDS)


def _volume(case: Case) -> float:
    """Return how many GB all clients send, in all rounds."""
    return case.size_bytes * case.clients * case.rounds / GB


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02d} h"


def measure(case: Case, limits: Limits) -> Outcome:
    """Run a case once, while no other case of this machine is measured.

    Raises:
        NoEnvironment: its framework cannot be had here.
        BrokenEnvironment: its environment cannot be built, although an index answers.
    """
    python = build(case.framework, tell)
    module = import_module(f"benchmarks.integrations.{case.framework}")
    limit_bytes, timeout = limits.of(case)
    with _alone():
        return run_case(case, module.run, python, limit_bytes=limit_bytes, timeout=timeout)


@contextmanager
def _alone() -> Iterator[None]:
    """Keep two series of this machine from measuring at the same moment."""
    with _MEASURING.open("a") as file:
        flock(file, LOCK_EX)
        try:
            yield
        finally:
            flock(file, LOCK_UN)


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
