"""``python -m benchmarks.integrations``: every case of every framework, interleaved, and the table.

``--small`` is what continuous integration runs: one small case of each line. ``--table`` prints
what the result file has, and runs nothing. An interrupted run goes on where it was.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.integrations.cases import FAILURES, LINES, Case, Outcome
from benchmarks.integrations.environments import PINS
from benchmarks.integrations.report import print_report
from benchmarks.integrations.series import Limits, measure, read, run_series, tell

SIZES = (256_000_000, 1_000_000_000, 2_500_000_000)
LARGEST = 4_500_000_000
RESULTS = Path(__file__).parents[1] / "results" / "integrations.jsonl"


def small_cases(framework: str) -> list[Case]:
    """Return one small case of each line."""
    return [Case(framework, 32_000_000, 16, line, rounds=2) for line in LINES]


def all_cases(framework: str) -> list[list[Case]]:
    """Return what is measured, in series that are interleaved."""
    sizes = [[Case(framework, size, arrays, line) for line in LINES]
             for size in SIZES for arrays in (64, 1)]  # fmt: skip
    return [*sizes, [Case(framework, LARGEST, 1, line, clients=1) for line in LINES]]


def failure_cases(framework: str) -> list[Case]:
    """Return everything that goes wrong, once."""
    return [Case(framework, 64_000_000, 4, line, failure=failure)
            for failure in FAILURES for line in LINES[1:]]  # fmt: skip


def main(
    only: Annotated[list[str] | None, typer.Option(help="Frameworks; all.")] = None,
    small: Annotated[bool, typer.Option("--small", help="One small case of each line.")] = False,
    table: Annotated[bool, typer.Option("--table", help="Run nothing.")] = False,
    runs: Annotated[int, typer.Option(help="Runs of each case.")] = 3,
    json: Annotated[Path | None, typer.Option(help="Where each run is kept.")] = None,
) -> None:
    """Run frameworks with and without streamlink; status 1 where a run was not exact."""
    path = json or (None if small else RESULTS)
    frameworks = [name for name in only or PINS if _is_there(name)]
    results = read(path) if table else _run(frameworks, small, 1 if small else runs, path)
    print_report([each for each in results if each.case.framework in frameworks])
    wanted = [each for each in results if each.case.line != "bare" and not each.case.failure]
    if any(each.exact is not True or each.left_behind for each in wanted):
        raise typer.Exit(1)


def _run(frameworks: list[str], small: bool, runs: int, path: Path | None) -> list[Outcome]:
    results = read(path) if path else []
    for framework in frameworks:
        series = [small_cases(framework)] if small else all_cases(framework)
        for cases in series if small else [*series, failure_cases(framework)]:
            times = 1 if cases[0].failure else runs
            found = run_series(cases, times, path, lambda case: measure(case, Limits()))
            results = found if path else [*results, *found]
    return results


def _is_there(name: str) -> bool:
    there = find_spec(f"benchmarks.integrations.{name}") is not None
    if not there:
        tell(f"{name} has no cases here")
    return there


typer.run(main)
