"""``streamlink profile analyze`` and ``forecast``: from the files of a run to what they mean."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from streamlink.cli.command import Common, a_job, command
from streamlink.cli.errors import CommandError, JobFailed
from streamlink.config import parse_size
from streamlink.profiling.heap import analyze as heap
from streamlink.profiling.heap import formula
from streamlink.profiling.heap.findings import find
from streamlink.profiling.heap.formula import LARGEST, MODELS, WIDTHS
from streamlink.profiling.heap.observation import RunError
from streamlink.profiling.heap.observed import read_run

__all__ = ["analyze", "forecast", "require_analysis"]


@command()
def analyze(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="The folder run_... of a run.")],
    output_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to write; without it analysis/ in the run."),
    ] = None,
    no_plots: Annotated[
        bool, typer.Option("--no-plots", help="Draw no pictures; matplotlib is not needed then.")
    ] = False,
    *,
    common: Common,
) -> None:
    """Analyse the memory profiles of a run: who held the peak, and in which version.

    Writes flame graphs, summaries, tables, CSV files, pictures, report.txt and report.html. A
    profile that is empty, cut or damaged is named, and the others are analysed; so is a run that
    was interrupted. What an earlier analysis of the same run left is replaced.
    """
    require_analysis(plots=not no_plots)
    output = output_dir or run / "analysis"
    try:
        with a_job():
            found = heap.analyze(run, output, not no_plots, lambda line: typer.echo(line, err=True))
    except JobFailed as error:
        if isinstance(error.__cause__, RunError):  # a folder that is named wrongly
            raise CommandError(str(error)) from error
        raise
    typer.echo(f"{found.text}\nreport: {found.page}")
    if not found.has_figures:
        raise JobFailed("no process has figures; see the reasons above")


def require_analysis(*, plots: bool) -> None:
    """Check that the packages of an analysis are installed.

    Raises:
        CommandError: one is not; says how to install it.
    """
    if find_spec("memray") is None:
        raise CommandError("memray cannot be found; pip install 'streamlink-fl[memray]'")
    if plots and find_spec("matplotlib") is None:
        raise CommandError(
            "matplotlib cannot be found; pip install 'streamlink-fl[plot]', or draw no pictures "
            "(--no-plots)"
        )


@command()
def forecast(
    model: Annotated[
        str, typer.Option(metavar="NAME[,NAME...]", help="8B, 70B, or a size such as 1GiB.")
    ] = "8B,70B",
    dtype: Annotated[str, typer.Option(help=f"Of 8B and 70B: {', '.join(WIDTHS)}.")] = "bfloat16",
    clients: Annotated[int, typer.Option(metavar="N", min=1, help="Clients of the job.")] = 2,
    run: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A run without training (llm, synthetic), to check with."),
    ] = None,
    *,
    common: Common,
) -> None:
    """Compute the memory that server and client need for a model, in both versions.

    For a job that does not train. It counts copies of the model, windows and a rest, without the
    program itself.
    """
    for name, nbytes, largest in _models(model, dtype):
        typer.echo(f"{name}: {nbytes / 1e9:.1f} GB, {clients} clients")
        for each in formula.forecast(nbytes, clients, largest):
            typer.echo(f"  {_line(each)}")
    theirs = formula.APPFL_GB
    typer.echo(
        f"APPFL's authors report {theirs['server']} GB for their server and {theirs['client']} GB "
        "for a client of 70B; quoted, not measured here."
    )
    if run is not None:
        _check(run)


def _models(text: str, dtype: str) -> list[tuple[str, int, int]]:
    if dtype not in WIDTHS:
        raise CommandError(f"--dtype is one of {', '.join(WIDTHS)}, not {dtype!r}")
    found = []
    for name in (each.strip() for each in text.split(",")):
        if name in MODELS:
            width = WIDTHS[dtype]
            found.append((f"{name}, {dtype}", MODELS[name] * width, LARGEST[name] * width))
            continue
        try:
            found.append((name, parse_size(name), 0))
        except ValueError as error:
            raise CommandError(f"--model is 8B, 70B or a size such as 1GiB: {error}") from error
    return found


def _check(run: Path) -> None:
    with a_job():
        try:
            found = find(read_run(run, None))
        except RunError as error:
            raise CommandError(str(error)) from error
    made = formula.checks(found.run, found.figures, found.resident)
    if not made:
        raise CommandError(
            f"{run} has no figures to check with: name a run of llm or synthetic, in the versions "
            "original or optimized"
        )
    typer.echo(f"\n{run.name}, {made[0].measure.label}, medians; × of the formula:")
    for each in made:
        typer.echo(
            f"  {each.figures.subject.label}: {_line(each.forecast)}; measured "
            f"{each.measured / 1e9:.3f} GB, {each.ratio:.2f} ×"
        )


def _line(each: formula.Forecast) -> str:
    parts = [f"{each.copies} × the model"]
    if each.largest:
        parts.append(f"{each.largest / 1e6:.1f} MB of its largest tensor")
    parts += [f"{each.windows / 1e6:.1f} MB of windows", f"{each.rest / 1e6:.1f} MB besides"]
    return f"{each.version}, {each.role}: {each.total / 1e9:.3f} GB ({', '.join(parts)})"
