"""``python -m benchmarks.links``: model transfers over lines, beside their peers.

``links`` is streamlink beside a raw socket over many lines and sizes, ``peers`` all peers over
loopback and four lines. Each run is kept as soon as it is known, so that an interrupted series goes
on where it was; what is kept counts until what it ran is changed, or ``--since`` a commit. A part
of all: ``peers --peer streamlink --peer "plain grpcio" --line loopback``. ``sites`` is a job of
rounds with a near and a far client; see ``sites``. ``probe``, ``bwlimit``, ``traverse``, ``auto``,
``finetune`` and ``shipped`` are programs of ``python -m benchmarks``, kept part by part; see
``programs``. ``theirs`` runs NVIDIA FLARE's own benchmarks from a clone, kept in the same way.
``numbers`` runs nothing: it prints each number to reach, with what was seen, and makes the pages
of both plans anew with them.

The status is 1 if a number is missed or a run of ours failed, and 0 if all are met, or there is
nothing to judge: a peer's failure is a result, and what the deadline leaves is left to later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.integrations.kept import Checkout
from benchmarks.links import theirs
from benchmarks.links.accuracy import measure_line
from benchmarks.links.cases import Run
from benchmarks.links.failures import is_ours, standing
from benchmarks.links.goals import Goal, goals_of
from benchmarks.links.kept import MEASURED, RESULTS, latest, read
from benchmarks.links.lines import parse_line
from benchmarks.links.measuring import measure
from benchmarks.links.numbers import Counts, current, numbers_of, remake_pages, show_numbers
from benchmarks.links.peers import found
from benchmarks.links.plans import RAW, SHAPES, Plan, What, crossed, large_plan, plan_of, small_plan
from benchmarks.links.programs import run_program
from benchmarks.links.reports import NO_RUN, Files, text_of, write
from benchmarks.links.series import left_to_do, run_plan, seconds_left, tell
from benchmarks.links.sites.command import run_sites
from benchmarks.links.tables import rows_of
from benchmarks.links.their_scripts import scripts_of
from streamlink.config import parse_size

SMALL_RESULTS = Path("results") / "links"


class Command(StrEnum):
    """What can be run: a plan of transfers, the two-site job, a program; or the table of all."""

    links = "links"
    peers = "peers"
    sites = "sites"
    probe = "probe"
    bwlimit = "bwlimit"
    traverse = "traverse"
    auto = "auto"
    finetune = "finetune"
    shipped = "shipped"
    theirs = "theirs"
    numbers = "numbers"


def main(
    command: Annotated[
        Command, typer.Argument(help="A plan, the two-site job, a program, or numbers.")
    ] = Command.links,
    small: Annotated[bool, typer.Option("--small", help="Every path once, in minutes.")] = False,
    report: Annotated[
        bool,
        typer.Option(
            "--report",
            help="Run nothing: show what is kept, by --since or the last commit of each case.",
        ),
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Run nothing: what is left to do.")] = False,
    peer: Annotated[list[str] | None, typer.Option(help="Only these, and the raw socket.")] = None,
    line: Annotated[list[str] | None, typer.Option(help="Only these: 100Mbit,50ms")] = None,
    size: Annotated[list[str] | None, typer.Option(help="Models of these sizes: 256MiB")] = None,
    large: Annotated[
        bool, typer.Option("--large", help="Of links: models of 1 to 128 GB, over loopback.")
    ] = False,
    runs: Annotated[int | None, typer.Option(min=1, help="Runs of each case.")] = None,
    output: Annotated[Path | None, typer.Option(help="Folder of the results.")] = None,
    since: Annotated[str | None, typer.Option(help="Count all runs from this commit on.")] = None,
    deadline: Annotated[
        float | None,
        typer.Option(help="As `date +%s`; what would not end by then is left to the next time."),
    ] = None,
    nvflare: Annotated[
        Path | None, typer.Option(help="Of theirs: a clone of NVIDIA FLARE's repository.")
    ] = None,
) -> None:
    """Measure what is left of a plan, and write JSON, table and page of all that is known."""
    seconds = inf if deadline is None else deadline - time.time()
    files = Files(output or (SMALL_RESULTS if small else RESULTS), command.value)
    counts = None if report and since is None else current(since)
    if nvflare and command is not Command.theirs:
        raise typer.BadParameter(f"--nvflare is for theirs, not for {command}")
    if command.value not in list(What):
        if peer or line or size or large or (runs and command is not Command.sites):
            raise typer.BadParameter(
                f"{command} has lines and models of its own; leave out --peer, --line, --size, "
                "--large and, but for sites, --runs"
            )
        if command is Command.sites:
            run_sites(files, small=small, report=report, plan=plan, runs=runs, since=since,
                      seconds=seconds)  # fmt: skip
        elif command is Command.numbers:
            goals = show_numbers(files.folder, counts)
            for each in remake_pages(files.folder, goals, counts):
                tell(f"written: {each.summary}, {each.table}, {each.page}")
            _judge(goals)
        else:
            run_one = partial(run_program, files, small=small, report=report, plan=plan,
                              since=since, seconds=seconds)  # fmt: skip
            if command is Command.theirs:
                _run_theirs(run_one, nvflare, is_run=not (report or plan))
            else:
                run_one()
        return
    what = What(command.value)
    if large and what is not What.links:
        raise typer.BadParameter("--large is for links")
    whole = large_plan(small) if large else (small_plan if small else plan_of)(what, _compared())
    chosen = _chosen(whole, peer, line, size)
    chosen = replace(chosen, runs=runs or chosen.runs).until(seconds)
    here, known = Checkout(since, MEASURED), read(files.raw)
    if large and not small:
        chosen = _leaving_time(chosen, known, here)
    if plan:
        to_do = left_to_do(chosen, known, here)
        for case in dict.fromkeys(to_do):
            print(f"{to_do.count(case)} x {case}")
        print(f"{len(to_do)} runs, about {seconds_left(to_do, known) / 60:.0f} minutes; after "
              f"{chosen.most_seconds / 60:.0f} minutes nothing is repeated")  # fmt: skip
        return
    if report:
        is_part = bool(peer or line or size)
        kept = latest([run for run in known if not is_part or run.case in chosen.cases])
        _report(files, [run for run in kept if since is None or here.counts(run)], counts)
    else:
        try:
            run_plan(chosen, files.raw, known, here, measure=partial(measure, tell=tell),
                     measure_line=measure_line)  # fmt: skip
        except KeyboardInterrupt:
            tell("interrupted; the same command goes on")
            raise typer.Exit(130) from None
        known = read(files.raw)
        also = large_plan(small).cases if what is What.links else ()
        shown = [run for run in known
                 if run.case in (*chosen.cases, *also) and here.counts(run)]  # fmt: skip
        if len(shown) < len(known):
            tell(f"{len(known) - len(shown)} runs of something else are kept, too; see --since")
        _report(files, shown, counts)


def _run_theirs(run_one: Callable[..., None], clone: Path | None, *, is_run: bool) -> None:
    if not is_run:
        run_one(run=partial(theirs.run, scripts=Path()))
        return
    if clone is None:
        raise typer.BadParameter("theirs needs a clone: --nvflare ~/NVFlare")
    with ExitStack() as stack:
        try:
            scripts = stack.enter_context(scripts_of(clone.expanduser()))
        except OSError as error:
            raise typer.BadParameter(str(error)) from None
        run_one(run=partial(theirs.run, scripts=scripts))


def _report(files: Files, shown: list[Run], counts: Counts | None) -> None:
    if not shown:
        raise typer.BadParameter(f"{files.raw} has no run of this; {NO_RUN}")
    numbers = numbers_of(files.folder, counts)
    write(files, shown, numbers)
    print(text_of(files, shown, numbers))
    tell(f"written: {files.summary}, {files.table}, {files.page}")
    # A peer's failure is a result.
    if any(run.error and is_ours(run) for run in standing(shown)):
        raise typer.Exit(1)
    _judge(goals_of(What(files.name), rows_of(shown)))


def _judge(goals: Iterable[Goal]) -> None:
    if any(goal.is_met is False for goal in goals):
        raise typer.Exit(1)


def _leaving_time(chosen: Plan, known: list[Run], here: Checkout) -> Plan:
    """Return the plan of large models, repeated only where one turn of the others has time, too."""
    others = replace(plan_of(What.links, _compared()), runs=1)
    seconds = seconds_left(left_to_do(others, known, here), known)
    return replace(chosen, most_seconds=chosen.most_seconds - seconds)


def _compared() -> list[str]:
    return [name for name, (peer, _) in found().items() if not peer.is_own]


def _chosen(
    whole: Plan,
    only: list[str] | None,
    lines: list[str] | None,
    sizes: list[str] | None,
) -> Plan:
    """Return the plan, or the part of it that was asked for; lines and sizes of one's own too."""
    peers = found()
    if unknown := set(only or ()) - set(peers):
        raise typer.BadParameter(f"no peer {sorted(unknown)[0]!r}; there are {', '.join(peers)}")
    named = [name for name in peers if not only or name in only or name == RAW]
    whole = replace(whole, cases=tuple(case for case in whole.cases if case.peer in named))
    if lines is None and sizes is None:
        return whole
    try:
        asked = [parse_line(each) for each in lines or ()]
        nbytes = [parse_size(each) for each in sizes or ()]
        if lines and sizes:
            loads = [(each.name, size / (1 << 20)) for each in asked for size in nbytes]
            own = [name for name in named if only or name in _compared()]
            return replace(whole, cases=tuple(crossed(own, loads, SHAPES)))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    cases = [case for case in whole.cases if (not lines or case.line in asked)
             and (not sizes or case.payload.size_bytes in nbytes)]  # fmt: skip
    return replace(whole, cases=tuple(cases))


typer.run(main)
