"""The command line of one framework's cases: ``python -m benchmarks.integrations.appfl ...``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.integrations.cases import LINES, Case
from benchmarks.integrations.report import print_report
from benchmarks.integrations.series import Limits, measure, run_series
from streamlink.config import parse_size

__all__ = ["main"]


def main(framework: str) -> None:
    """Read the command line and run the cases that it names."""

    def command(
        size: Annotated[str, typer.Option(help="All arrays together.")] = "64MB",
        arrays: Annotated[int, typer.Option(help="How many arrays it is in.")] = 64,
        line: Annotated[list[str] | None, typer.Option(help="Of bare, first, second: all.")] = None,
        rounds: Annotated[int, typer.Option(help="Rounds in each run.")] = 3,
        clients: Annotated[int, typer.Option()] = 2,
        dtype: Annotated[str, typer.Option()] = "float32",
        runs: Annotated[int, typer.Option(help="Runs of each line, in turn.")] = 1,
        json: Annotated[Path | None, typer.Option(help="Append each run to this file.")] = None,
        failure: Annotated[str | None, typer.Option(help="What goes wrong.")] = None,
        mode: Annotated[str, typer.Option()] = "processes",
        limit: Annotated[str, typer.Option(help="Memory of all sides together.")] = "14GB",
        timeout: Annotated[float, typer.Option(help="Of one run (seconds).")] = 900.0,
    ) -> None:
        shared = (clients, rounds, dtype, failure, mode)
        cases = [Case(framework, parse_size(size), arrays, each, *shared) for each in line or LINES]
        limits = Limits(parse_size(limit), timeout)
        results = run_series(cases, runs, json, lambda case: measure(case, limits))
        print_report([each for each in results if each.case in cases])

    typer.run(command)
