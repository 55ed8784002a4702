"""``python -m benchmarks.links sites``: what the command does with its options."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import typer

from benchmarks.integrations.kept import Checkout
from benchmarks.links.accuracy import measure_line
from benchmarks.links.kept import latest
from benchmarks.links.reports import NO_RUN, Files
from benchmarks.links.series import tell
from benchmarks.links.sites.cases import SiteRun
from benchmarks.links.sites.goals import site_goals
from benchmarks.links.sites.plans import plan_seconds, site_plan, small_site_plan
from benchmarks.links.sites.probing import probe_lines
from benchmarks.links.sites.report import read_sites, text_of, write
from benchmarks.links.sites.running import run_case
from benchmarks.links.sites.series import MEASURED, left_to_do, run_plan
from benchmarks.processes import WorkerFailed

__all__ = ["run_sites"]


def run_sites(
    files: Files,
    *,
    small: bool,
    report: bool,
    plan: bool,
    runs: int | None,
    since: str | None,
    seconds: float = inf,
) -> None:
    """Run what is left of the plan, or only show what is kept.

    Args:
        files: where results are, and reports go.
        small: the plan of a minute. report: show what is kept. plan: print what is left to do.
        runs: of each case. since: a commit from which on all runs count.
        seconds: until the deadline; what would not end by then is not begun.

    Raises:
        typer.BadParameter: there is nothing to show, or a line cannot be had.
        typer.Exit: a number is missed, a run failed, or it was interrupted.
    """
    chosen = small_site_plan() if small else site_plan()
    chosen = replace(chosen, runs=runs or chosen.runs, stop_seconds=seconds)
    here, known = Checkout(since, MEASURED), read_sites(files.raw)
    if plan:
        to_do = left_to_do(chosen, known, here)
        for case in to_do:
            print(case)
        print(f"{len(to_do)} runs, about {plan_seconds(to_do, chosen) / 60:.0f} minutes")
        return
    if report:
        shown = [run for run in latest(known) if since is None or here.counts(run)]
    else:
        try:
            run_plan(chosen, files.raw, known, here, run_case=run_case, measure_line=measure_line,
                     probe_lines=probe_lines, tell=tell)  # fmt: skip
        except KeyboardInterrupt:
            tell("interrupted; the same command goes on")
            raise typer.Exit(130) from None
        except (OSError, WorkerFailed) as error:
            raise typer.BadParameter(f"the lines could not be measured: {error}") from None
        known = read_sites(files.raw)
        shown = [run for run in known if run.case in chosen.cases and here.counts(run)]
    _report(files, shown)


def _report(files: Files, shown: list[SiteRun]) -> None:
    if not shown:
        raise typer.BadParameter(f"{files.raw} has no run of this; {NO_RUN}")
    write(files, shown)
    print(text_of(shown))
    tell(f"written: {files.summary}, {files.table}, {files.page}")
    if any(goal.is_met is False for goal in site_goals(shown)):
        raise typer.Exit(1)
