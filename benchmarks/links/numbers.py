"""All numbers to reach in one table: what was asked, what was seen, and where it comes from.

It is made from the files that the plans, the two-site job and the programs have written; nothing is
run. What is not measured with the code of this checkout has a row all the same, and says so. The
pages of both plans have the same table, so they are made anew with it: whichever target has ended
last, all files of a folder say the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import auto, bwlimit, finetune, probes, shipped, traverse
from benchmarks.integrations.kept import Checkout, Committed
from benchmarks.links.goals import GOAL_COLUMNS, NOT_MEASURED, Goal, goal_rows, goals_of
from benchmarks.links.kept import MEASURED, R, latest, read
from benchmarks.links.plans import What
from benchmarks.links.programs import PROGRAMS, measured_by, read_parts
from benchmarks.links.reports import Files, print_titled, replace_file, write
from benchmarks.links.sites import series as sites
from benchmarks.links.sites.goals import site_goals
from benchmarks.links.sites.report import read_sites
from benchmarks.links.tables import rows_of

__all__ = ["Counts", "current", "numbers_of", "remake_pages", "show_numbers"]

Summary = dict[str, Any]
Counts = Callable[[str, Committed], bool]
"""Tells whether what a plan or program (its name) found with some code is shown."""


def current(since: str | None = None) -> Counts:
    """Return what counts what this checkout would find, too; see ``Checkout``."""

    @cache
    def checkout(name: str) -> Checkout:
        if name in PROGRAMS:
            return Checkout(since, measured_by(name))
        return Checkout(since, sites.MEASURED if name == "sites" else MEASURED)

    return lambda name, found: checkout(name).counts(found)


def numbers_of(folder: Path, counts: Counts | None = None) -> list[Goal]:
    """Return each number to reach, with what the files of a folder say of it.

    Args:
        folder: of the results.
        counts: what of them is shown; None: what was measured last, with whatever code.
    """
    raws = {name: Files(folder, name).raw for name in ("links", "peers", "sites")}
    rows = {what: rows_of(_shown(what.value, read(raws[what.value]), counts)) for what in What}
    plans = {what: _from(raws[what.value], goals_of(what, rows[what])) for what in What}
    two_sites = site_goals(_shown("sites", read_sites(raws["sites"]), counts))
    programs = {name: _of_program(folder, name, counts) for name in GOALS}
    shipped_goals = programs.pop("shipped")
    return [*plans[What.links], *chain(*programs.values()), *plans[What.peers], *shipped_goals,
            *_from(raws["sites"], two_sites)]  # fmt: skip


def _shown(name: str, runs: Sequence[R], counts: Counts | None) -> list[R]:
    return latest(runs) if counts is None else [run for run in runs if counts(name, run)]


def show_numbers(folder: Path, counts: Counts | None) -> list[Goal]:
    """Print the table, and write it as text and as JSON; returns the numbers."""
    files, goals = Files(folder, "numbers"), numbers_of(folder, counts)
    console = Console(file=StringIO(), width=400)
    print_titled(console, "Numbers to reach", GOAL_COLUMNS, goal_rows(goals))
    text = str(console.file.getvalue()).rstrip() + "\n"  # type: ignore[attr-defined]
    replace_file(files.summary, json.dumps([goal.as_json() for goal in goals], indent=1) + "\n")
    replace_file(files.table, text)
    print(text)
    return goals


def remake_pages(folder: Path, numbers: Sequence[Goal], counts: Counts | None) -> list[Files]:
    """Write tables and page of both plans anew, with these numbers; returns what was written.

    Each shows of a case the runs that count; where none does, those of the last commit. It names
    the commits.
    """
    written: list[Files] = []
    for what in What:
        files = Files(folder, what.value)
        known = read(files.raw)
        counted = {id(run) for run in _shown(what.value, known, counts)}
        cases = {run.case for run in known if id(run) in counted}
        others = {id(run) for run in latest(known) if run.case not in cases}
        if runs := [run for run in known if id(run) in counted | others]:
            write(files, runs, numbers)
            written.append(files)
    return written


def _from(path: Path, goals: Iterable[Goal]) -> list[Goal]:
    """Return each goal that was measured, with the file of its result."""
    return [replace(goal, file=path.name if goal.reached is not None else "") for goal in goals]


# --- the programs -------------------------------------------------------------------------------


@dataclass
class _Code:
    commit: str


def _of_program(folder: Path, name: str, counts: Counts | None) -> list[Goal]:
    files = Files(folder, name)
    summary, why = _summary(files, counts)
    goals = GOALS[name](summary)
    commit = ", ".join(summary.get("commits", ()))
    return _from(files.summary, [
        replace(goal, commit=commit, why=why or goal.why) for goal in goals
    ])  # fmt: skip


def _summary(files: Files, counts: Counts | None) -> tuple[Summary, str]:
    """Return what a program wrote when it had ended; else nothing, and why there is nothing."""
    if files.summary.exists():
        summary: Summary = json.loads(files.summary.read_text("utf-8"))
        if summary["is_small"]:
            return {}, f"{NOT_MEASURED}: it was only tried, with --small"
        commits = map(_Code, summary["commits"])
        if counts is None or all(counts(files.name, each) for each in commits):
            return summary, ""
    parts = [part for part in read_parts(files.raw)
             if counts is None or counts(files.name, part)]  # fmt: skip
    if parts and parts[-1].error:
        return {}, f"{NOT_MEASURED}: {parts[-1].case} failed: {parts[-1].error}"
    if parts:
        done = len({part.case for part in parts if not part.error})
        return {}, f"{NOT_MEASURED}: interrupted, parts kept so far: {done}; run it again"
    return {}, NOT_MEASURED


def _probe(summary: Summary) -> list[Goal]:
    lines = {each["name"]: each for each in summary.get("lines", ())}
    missing = summary.get("missing", {})
    return [
        Goal("forecast of the probe: off by", str(line), line.allowed * 100,
             probes.worst(lines[str(line)]) * 100 if str(line) in lines else None,
             is_most=True, unit=" %", why=f"{NOT_MEASURED}: {missing.get(str(line), 'no run')}")
        for line in probes.LINES
    ]  # fmt: skip


def _bwlimit(summary: Summary) -> list[Goal]:
    cases = [each for each in summary.get("cases", ()) if each["case"]["limited"]]
    late = [each for each in cases if each["heartbeats_late"] is not None]
    what = "share of a limit of 10 Mbit/s in any 10 s"
    return [
        _worst(f"{what}, least", cases, "least", bwlimit.LEAST),
        _worst(f"{what}, most", cases, "most", bwlimit.MOST, is_most=True),
        _worst("heartbeats later than without a limit, s", late, "heartbeats_late",
               bwlimit.MOST_LATE, is_most=True),
    ]  # fmt: skip


def _worst(
    what: str, cases: Sequence[Summary], key: str, bound: float, *, is_most: bool = False
) -> Goal:
    if not cases:
        return Goal(what, "100 Mbit/s, each carrier and end", bound, None, is_most=is_most)
    worst = (max if is_most else min)(cases, key=lambda each: each[key])
    where = f"100 Mbit/s, the worst of {len(cases)}: {worst['name']}"
    return Goal(what, where, bound, worst[key], is_most=is_most)


def _traverse(summary: Summary) -> list[Goal]:
    lines = {each["name"]: each["traverses"]["streaming"] for each in summary.get("lines", ())}
    return [
        Goal("round with streaming clients ÷ one traverse", where, traverse.AT_MOST["streaming"],
             lines.get(where), is_most=True)
        for where in map(traverse.where_of, traverse.LINES)
    ]  # fmt: skip


def _auto(summary: Summary) -> list[Goal]:
    seen = summary.get("ratios", {})
    return [Goal("rate of auto ÷ plain", where, auto.AT_LEAST, seen.get(where))
            for where in map(auto.where_of, auto.PAYLOADS)]  # fmt: skip


def _finetune(summary: Summary) -> list[Goal]:
    runs, plan = summary.get("runs", {}), summary.get("plan")
    why = f"{NOT_MEASURED}: {plan}" if isinstance(plan, str) else NOT_MEASURED
    ratios = [
        Goal("wire time after the first round, plain ÷ auto", f"learning rate {rate:g}",
             finetune.AT_LEAST.get(rate), runs.get(str(rate), {}).get("ratio"), why=why)
        for rate in finetune.LEARNING_RATES
    ]  # fmt: skip
    other = sum(not each["is_equal"] for each in runs.values()) if runs else None
    return [*ratios, Goal("pairs of plain and auto that end with other bits", "both learning rates",
                          0.0, other, is_most=True, why=why)]  # fmt: skip


def _shipped(summary: Summary) -> list[Goal]:
    seen, failed = summary.get("ratios", {}), summary.get("failed", {})
    found: list[Goal] = []
    for name, least in shipped.LEAST.items():
        goal = Goal(f"round of {name} ÷ ours", "loopback, 256 MB in 64 arrays, two clients", least,
                    seen.get(name))  # fmt: skip
        if failed.get(name) and goal.is_met is not False:
            # What is left of its turns must not pass for all of them.
            rest = "" if goal.reached is None else f" ({goal.reached:.4g} in the others)"
            why = f"{NOT_MEASURED}: {'; '.join(failed[name])}{rest}"
            goal = replace(goal, reached=None, why=why)
        found.append(goal)
    return found


GOALS: dict[str, Callable[[Summary], list[Goal]]] = {
    "probe": _probe,
    "bwlimit": _bwlimit,
    "traverse": _traverse,
    "auto": _auto,
    "finetune": _finetune,
    "shipped": _shipped,
}
"""What each program says of its numbers; of an empty summary it says that there is none."""
