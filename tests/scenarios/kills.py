"""The kill matrix: each process of a job, killed at each state of the protocol.

``python -m tests.scenarios.kills`` runs every cell three times and prints what became of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track

from benchmarks.stats import Result, print_result, write_json
from tests.support.forkserver import ForkServer
from tests.support.kill_points import STATES, KillPoint
from tests.support.supervised import ROLES, Supervised

__all__ = ["GATHERS", "Cell", "run_cell", "undisturbed"]

GATHERS = ("lockstep", "spool", "lockstep")
"""How each of the three repetitions gathers."""

_ONCE = ("greeting", "ready", "goodbye")  # states a process without faults comes to once


@dataclass(frozen=True, slots=True)
class Cell:
    """One process, killed at one state, in one of the repetitions (from 0)."""

    role: str
    state: str
    repetition: int
    carrier: str = "grpc"
    """Of the models."""

    @property
    def gather(self) -> str:
        return GATHERS[self.repetition]

    @property
    def kill(self) -> KillPoint:
        """When it dies: each repetition a round later, where there are rounds."""
        side = "server" if self.role == "server" else "client"
        count = 1 if self.state in _ONCE else self.repetition + 1
        return KillPoint(side, self.state, count)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{self.role} killed at {self.state!r} ({self.gather}, {self.repetition + 1})"


def undisturbed(forks: ForkServer, folder: Path, gather: str, carrier: str = "grpc") -> str:
    """Return the digest a job ends with when nobody is killed."""
    job = Supervised(forks, folder, gather, carrier)
    digest = job.run()
    assert not job.deaths
    assert not job.left_over
    return digest


def run_cell(forks: ForkServer, folder: Path, cell: Cell, expected: str) -> None:
    """Run a job in which one process is killed.

    Raises:
        AssertionError: the process was not killed, or the job did not end as if nothing had been.
    """
    job = Supervised(forks, folder, cell.gather, cell.carrier)
    digest = job.run(cell.role, cell.kill)
    assert job.deaths == [cell.role], f"{cell}: killed were {job.deaths}\n{job.log}"
    assert digest == expected, f"{cell}: another model came out\n{job.log}"
    assert not job.left_over, f"{cell}: left over {job.left_over}\n{job.log}"
    job.remove()


def cells(carrier: str) -> Iterator[Cell]:
    """Yield every cell of every repetition."""
    for repetition in range(len(GATHERS)):
        for state in STATES:
            for role in ROLES:
                yield Cell(role, state, repetition, carrier)


def run(carrier: str = "grpc") -> Result:
    """Run every cell of every repetition, three jobs at a time."""
    with TemporaryDirectory() as base, ForkServer() as forks, ThreadPoolExecutor(3) as pool:
        folder, all_cells = Path(base), list(cells(carrier))
        expected = {each: undisturbed(forks, folder / each, each, carrier) for each in set(GATHERS)}
        assert len(set(expected.values())) == 1

        def attempt(number: int, cell: Cell) -> str:
            place, digest = folder / str(number), expected[cell.gather]
            return _outcome(lambda: run_cell(forks, place, cell, digest))

        work = pool.map(attempt, range(len(all_cells)), all_cells)
        outcomes = list(track(work, "kills", total=len(all_cells)))
    failed = {str(cell): fault for cell, fault in zip(all_cells, outcomes, strict=True) if fault}
    return Result(
        name="kills",
        claim="whichever process of a job is killed, at whichever state of the protocol, and begun "
        "anew: the job ends as documented, and nothing is left over",
        columns=("state", *ROLES),
        rows=tuple(_row(state, failed) for state in STATES),
        facts={
            "states": STATES,
            "roles": ROLES,
            "gathers": GATHERS,
            "carrier": carrier,
            "cells": len(all_cells),
            "ended_as_documented": len(all_cells) - len(failed),
            "failed": failed,
        },
        met=not failed,
    )


def _row(state: str, failed: Mapping[str, str]) -> tuple[str, ...]:
    def right(role: str) -> int:
        repeated = (Cell(role, state, each) for each in range(len(GATHERS)))
        return sum(str(cell) not in failed for cell in repeated)  # its name has no carrier

    return (state, *(f"{right(role)} of {len(GATHERS)}" for role in ROLES))


def main(
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the outcome here.")
    ] = None,
    carrier: Annotated[str, typer.Option(help="Carries the models.")] = "grpc",
) -> None:
    """Run the kill matrix; ends with status 1 where a job did not end as documented."""
    result = run(carrier)
    for cell, fault in result.facts["failed"].items():
        print(f"FAILED {cell}: {fault}")
    print_result(result, Console())
    if json_file is not None:
        write_json(json_file, [result])
    raise typer.Exit(0 if result.met else 1)


def _outcome(act: Callable[[], Any]) -> str:
    try:
        act()
    except AssertionError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    typer.run(main)
