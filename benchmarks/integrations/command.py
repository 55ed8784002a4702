"""The command line of one framework's cases: ``python -m benchmarks.integrations.appfl ...``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.integrations.cases import Case, lines_of
from benchmarks.integrations.report import print_report
from benchmarks.integrations.series import Limits, Series, measure, run_series
from streamlink.config import parse_size

__all__ = ["main"]


def main(framework: str) -> None:
    """Read the command line and run the cases that it names."""

    def command(
        size: Annotated[str, typer.Option(help="All arrays together.")] = "64MB",
        arrays: Annotated[int, typer.Option(help="How many arrays it is in.")] = 64,
        line: Annotated[list[str] | None, typer.Option(help="bare, tuned, first, second.")] = None,
        rounds: Annotated[int, typer.Option(help="Rounds in each run.")] = 3,
        clients: Annotated[int, typer.Option()] = 2,
        dtype: Annotated[str, typer.Option()] = "float32",
        runs: Annotated[int, typer.Option(help="Runs of each line, in turn.")] = 1,
        json: Annotated[Path | None, typer.Option(help="Append each run to this file.")] = None,
        failure: Annotated[str | None, typer.Option(help="What goes wrong.")] = None,
        mode: Annotated[str, typer.Option()] = "processes",
        limit: Annotated[str, typer.Option(help="Memory of all sides together.")] = "14GB",
        timeout: Annotated[float | None, typer.Option(help="Of one run (seconds).")] = None,
    ) -> None:
        shared = (clients, rounds, dtype, failure, mode)
        lines = line or lines_of(framework)
        cases = [Case(framework, parse_size(size), arrays, each, *shared) for each in lines]
        limits = Limits(parse_size(limit), timeout)
        plan = [Series(tuple(cases), runs)]
        results = run_series(plan, json, partial(measure, limits=limits))
        print_report([each for each in results if each.case in cases])

    typer.run(command)
