"""``python -m benchmarks``: run the programs one after another, print a table for each claim."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import (
    bulk,
    chunk,
    clients,
    crowd,
    duplex,
    executors,
    flat,
    peers,
    shapes,
    straggler,
    traverse,
)
from benchmarks.stats import Result, environment, print_result, write_json

PROGRAMS: dict[str, Callable[[bool], Result]] = {
    "bulk": bulk.run,
    "duplex": duplex.run,
    "flat": flat.run,
    "shapes": shapes.run,
    "clients": clients.run,
    "executors": executors.run,
    "straggler": straggler.run,
    "traverse": traverse.run,
    "crowd": crowd.run,
    "peers": peers.run,
    "chunk": chunk.run,
}
UNJUDGED = ("peers", "chunk")


class What(StrEnum):
    """What can be asked for; ``all`` is every program that judges a claim."""

    bulk = "bulk"
    duplex = "duplex"
    flat = "flat"
    shapes = "shapes"
    clients = "clients"
    executors = "executors"
    straggler = "straggler"
    traverse = "traverse"
    crowd = "crowd"
    peers = "peers"
    chunk = "chunk"
    all = "all"


def main(
    what: Annotated[What, typer.Argument(help="Which claim to measure.")] = What.all,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write everything measured to this file.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One small run each: does it work? Judges nothing.")
    ] = False,
) -> None:
    """Measure what streamlink claims; ends with status 1 when a claim was not met."""
    names = (
        [name for name in PROGRAMS if name not in UNJUDGED] if what is What.all else [what.value]
    )
    console = Console()
    console.print(f"commit {environment()['commit']}")
    results: list[Result] = []
    for name in names:
        results.append(PROGRAMS[name](quick))
        print_result(results[-1], console)
        if json_file is not None:
            write_json(json_file, results)  # after each: a later failure must not cost the earlier
    if any(result.met is False for result in results):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
