"""``streamlink profile analyze`` and ``forecast``: from the files of a run to what they mean."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from streamlink.cli.command import Common, a_job, command
from streamlink.cli.errors import CommandError, JobFailed
from streamlink.profiling.heap import analyze as heap
from streamlink.profiling.heap.observed import RunError

__all__ = ["analyze", "forecast"]


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
