"""``python -m benchmarks.integrations``: every case of every framework, interleaved, and the table.

``--small`` is what continuous integration runs: one small case of our lines. ``--table`` prints
what the result file has, and runs nothing; ``--plan`` prints what is left to do, and how long it
takes. An interrupted run goes on where it was, on another day and another machine of the same kind
too: what is kept counts until what it ran is changed, or ``--since`` a commit. A part of all:
``--framework appfl --size 1GB --arrays 64``.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.integrations.cases import OURS, Case, Outcome, lines_of, short
from benchmarks.integrations.environments import PINS
from benchmarks.integrations.kept import Checkout, read
from benchmarks.integrations.page import write_page
from benchmarks.integrations.report import failed, print_report, rows_of
from benchmarks.integrations.series import (
    Limits,
    Series,
    estimate,
    left_to_do,
    measure,
    run_series,
    tell,
)
from benchmarks.integrations.sides import is_in_memory
from streamlink.config import parse_size

MB, GB = 1_000_000, 1_000_000_000
SHAPES = (
    *((size, arrays, 2) for size in (256 * MB, 1 * GB, 2500 * MB) for arrays in (64, 1)),
    (4500 * MB, 1, 1),  # one client, which trains in place
)
RESULTS = Path(__file__).parents[1] / "results" / "integrations.jsonl"


def small_series(framework: str) -> Series:
    """Return one small case of each of our lines."""
    return Series(tuple(Case(framework, 32 * MB, 16, line, rounds=2) for line in OURS))


def series_of(framework: str, size: int, arrays: int, clients: int, runs: int) -> Series:
    """Return the lines of a framework with a model of this shape, to be run in turn."""
    # What the settings of a process bring shows with smaller models, and they are run sooner.
    lines = [line for line in lines_of(framework) if line != "tuned" or size <= 1 * GB]
    return Series(tuple(Case(framework, size, arrays, line, clients, rounds=2) for line in lines),
                  runs)  # fmt: skip


def main(
    framework: Annotated[list[str] | None, typer.Option(help="One of them, or more.")] = None,
    size: Annotated[list[str] | None, typer.Option(help="256MB, 1GB, 2.5GB, 4.5GB.")] = None,
    arrays: Annotated[list[int] | None, typer.Option(help="64, 1.")] = None,
    small: Annotated[bool, typer.Option("--small", help="A small case of our lines.")] = False,
    table: Annotated[bool, typer.Option("--table", help="Run nothing.")] = False,
    page: Annotated[Path | None, typer.Option(help="A page for the tables, in Markdown.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Run nothing, print what would be.")] = False,
    runs: Annotated[int, typer.Option(help="Runs of each case.")] = 3,
    limit: Annotated[str | None, typer.Option(help="Memory of all sides together.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Of one run (seconds).")] = None,
    json: Annotated[Path | None, typer.Option(help="Where each run is kept.")] = None,
    since: Annotated[str | None, typer.Option(help="Count all runs from this commit on.")] = None,
) -> None:
    """Run frameworks with and without streamlink; exit status 1 if a run with streamlink failed."""
    path = json or (None if small else RESULTS)
    frameworks = [name for name in PINS if name in (framework or PINS)]
    sizes = {parse_size(each) for each in size} if size else None
    shapes = [each for each in SHAPES
              if each[0] in (sizes or {each[0]}) and each[1] in (arrays or [each[1]])]  # fmt: skip
    # Small models of all frameworks come first: what is there after an hour is worth reading.
    series = [series_of(name, *shape, runs) for shape in shapes for name in frameworks]
    if small:
        series = [small_series(name) for name in frameworks]
    here = Checkout(since)
    if plan:
        _print_plan(series, read(path), here)
        return
    if not table and is_in_memory(Path(tempfile.gettempdir())):
        # Spools and stores lie there: in memory that nobody counts, they would flatter a side.
        raise typer.BadParameter(f"{tempfile.gettempdir()} is in memory; set TMPDIR to a disk")
    limits = Limits(parse_size(limit) if limit else None, timeout)
    results = (
        read(path) if table else run_series(series, path, partial(measure, limits=limits), here)
    )
    asked = {case for each in series for case in each.cases}
    found = [each for each in results if each.case in asked]
    shown = [each for each in found if here.counts(each)]
    if len(shown) < len(found):
        tell(f"{len(found) - len(shown)} runs of something else are kept, too; see --since")
    print_report(shown, counts=here.counts)
    if page:
        write_page(page, rows_of(shown, here.counts))
    if wrong := failed(shown):
        tell(f"{len(wrong)} of these runs with streamlink failed")
        raise typer.Exit(1)


def _print_plan(series: list[Series], results: list[Outcome], here: Checkout) -> None:
    to_do = left_to_do(series, results, here)
    for each in dict.fromkeys(to_do):
        minutes = estimate([each], results) / 60
        print(f"{to_do.count(each)} × {each}: {minutes:.1f} minutes each")
    for shape in dict.fromkeys((each.size_bytes, each.arrays) for each in to_do):
        alike = [each for each in to_do if (each.size_bytes, each.arrays) == shape]
        hours = estimate(alike, results) / 3600
        print(f"{short(shape[0])} in {shape[1]}: {len(alike)} runs, {hours:.1f} hours")
    print(f"{len(to_do)} runs, about {estimate(to_do, results) / 3600:.1f} hours")


typer.run(main)
