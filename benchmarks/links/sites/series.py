"""Runs what is left of a plan of the two-site job, and keeps each run as soon as it is known."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from benchmarks.links.cases import Accuracy
from benchmarks.links.failures import given_up
from benchmarks.links.kept import append
from benchmarks.links.lines import Line
from benchmarks.links.series import found_of
from benchmarks.links.sites.cases import Probed, SiteCase, SiteRun
from benchmarks.links.sites.plans import SitePlan, lines_of, plan_seconds

__all__ = ["MEASURED", "left_to_do", "run_plan", "summary"]

SHOWING = ("command", "flare", "goals", "page", "pictures", "plans", "report", "series", "tables")
USED = ("accuracy", "asking", "lines", "loopback", "payload", "places", "relaying", "rounded",
        "shaped")  # fmt: skip
PROCESSES = ("closing", "lanes", "lines", "pipes", "processes", "relay", "worker")
MEASURED = (
    ":(top)streamlink",
    ":(top)benchmarks/links/sites",
    *(f":(top)benchmarks/links/{name}.py" for name in USED),
    ":(top)benchmarks/longline",
    *(f":(top)benchmarks/{name}.py" for name in PROCESSES),
    *(f":(top,exclude)benchmarks/links/sites/{name}.py" for name in SHOWING),
)
"""What a run depends on, as git's paths."""

RunCase = Callable[[SiteCase, dict[str, Probed]], SiteRun]
ProbeLines = Callable[[Mapping[str, Line], float], dict[str, Probed]]
MeasureLine = Callable[[Line, float], Accuracy]


class Counting(Protocol):
    """What a series asks of its checkout; ``integrations.kept.Checkout`` is it."""

    @property
    def where(self) -> str:
        """The kind of this machine."""

    def counts(self, outcome: SiteRun) -> bool:
        """Tell whether an earlier run used the code that would run now."""


def left_to_do(plan: SitePlan, known: Iterable[SiteRun], here: Counting) -> list[SiteCase]:
    """Return the runs that are left, interleaved; a case that failed is tried once more."""
    have = [run for run in known if run.where == here.where and here.counts(run)]
    times = Counter(run.case for run in have if not run.error)
    failed = given_up(have)
    return [case for number in range(plan.runs) for case in plan.cases
            if times[case] <= number and case not in failed]  # fmt: skip


def run_plan(
    plan: SitePlan,
    path: Path,
    known: Iterable[SiteRun],
    here: Counting,
    *,
    run_case: RunCase,
    measure_line: MeasureLine,
    probe_lines: ProbeLines,
    tell: Callable[[str], object],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Measure and probe the lines of the remaining cases, then run these while time allows.

    A case that failed is left to the next invocation.

    Raises:
        OSError: a line cannot be had on this machine.
        WorkerFailed: a line could not be measured, or a probe failed: there are no settings then.
    """
    began_at = clock()
    to_do = left_to_do(plan, known, here)
    left = plan_seconds(to_do, plan) / 60
    tell(f"{len(to_do)} of {len(plan.cases) * plan.runs} runs to do, about {left:.0f} minutes")
    accuracy: dict[tuple[Line, Line], dict[str, Accuracy]] = {}
    probed: dict[tuple[Line, Line], dict[str, Probed]] = {}
    failed: set[SiteCase] = set()
    for at, case in enumerate(to_do):
        left = plan_seconds(to_do[at:], plan) / 60
        tell(f"[{at + 1}/{len(to_do)}, {left:.0f} minutes left] {case}")
        if case in failed:
            continue
        if clock() - began_at + plan_seconds([case], plan) > plan.stop_seconds:
            tell("  not run, the deadline comes first; run the command again")
            continue
        if (lines := (case.near, case.far)) not in probed:
            accuracy[lines] = _measured(case, plan, measure_line, tell)
            probed[lines] = _probed(case, plan, probe_lines, tell)
        run = run_case(case, probed[lines])
        run.accuracy = accuracy[lines]
        append(path, run)
        if run.error:
            failed.add(case)
        tell(f"  {summary(run)}")


def _measured(
    case: SiteCase, plan: SitePlan, measure_line: MeasureLine, tell: Callable[[str], object]
) -> dict[str, Accuracy]:
    accuracy: dict[str, Accuracy] = {}
    for name, line in lines_of(case).items():
        tell(f"the line of {name} itself: {line}")
        accuracy[name] = measure_line(line, plan.accuracy_seconds)
        tell(f"  {found_of(line, accuracy[name])}")
    return accuracy


def _probed(
    case: SiteCase, plan: SitePlan, probe_lines: ProbeLines, tell: Callable[[str], object]
) -> dict[str, Probed]:
    tell(f"the probe: {case.near} and {case.far}")
    probed = probe_lines(lines_of(case), plan.probe_seconds)
    for name, found in probed.items():
        tell(f"  {name}: {_found(found)}")
    return probed


def summary(run: SiteRun) -> str:
    """Return one line of what a run showed."""
    if run.error:
        return f"failed: {run.error}"
    peaks = [f"{name} +{each.over_base_bytes / 2**20:.0f} MiB" for name, each in run.used.items()]
    rounds = ", ".join(f"{seconds:.1f}" for seconds in run.round_seconds)
    return f"{run.seconds:.1f} s (rounds {rounds}), {', '.join(peaks)}"


def _found(found: Probed) -> str:
    rates = f"down {found.down * 8e-6:.4g}, up {found.up * 8e-6:.4g} Mbit/s"
    settings = ", ".join(f"{name.partition('.')[2]} {value:g}"
                         for name, value in found.settings.items())  # fmt: skip
    return f"{rates}, {found.round_trip * 1e3:.1f} ms; {settings}"
