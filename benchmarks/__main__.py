"""``python -m benchmarks``: run the programs one after another, print a table for each claim."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import (
    auto,
    bulk,
    bwlimit,
    carriers,
    chunk,
    clients,
    cpu,
    crowd,
    cuts,
    differences,
    duplex,
    executors,
    finetune,
    flat,
    flips,
    lossy,
    mpi,
    peers,
    probes,
    sessions,
    shapes,
    shipped,
    slow,
    soak,
    sockets,
    straggler,
    strategies,
    tls,
    traverse,
)
from benchmarks.longline import beside, capacity, reference
from benchmarks.stats import Result, environment, print_result, write_json

PROGRAMS: dict[str, Callable[..., Result]] = {
    "bulk": bulk.run,
    "carriers": carriers.run,
    "tls": tls.run,
    "duplex": duplex.run,
    "flat": flat.run,
    "shapes": shapes.run,
    "clients": clients.run,
    "executors": executors.run,
    "straggler": straggler.run,
    "traverse": traverse.run,
    "crowd": crowd.run,
    "cpu": cpu.run,
    "strategies": strategies.run,
    "lossy": lossy.run,
    "auto": auto.run,
    "finetune": finetune.run,
    "cuts": cuts.run,
    "slow": slow.run,
    "bwlimit": bwlimit.run,
    "flips": flips.run,
    "mpi": mpi.run,
    "sessions": sessions.run,
    "soak": soak.run,
    "peers": peers.run,
    "shipped": shipped.run,
    "probe": probes.run,
    "differences": differences.run,
    "chunk": chunk.run,
    "raw": sockets.run,
    "line": capacity.run,
    "rawline": reference.run,
    "longline": beside.run,
}
# Half an hour each; those that judge nothing; and those that need root, one of them an hour.
LEFT_OUT = (
    "soak",
    "finetune",
    "peers",
    "shipped",
    "probe",
    "differences",
    "chunk",
    "raw",
    "line",
    "rawline",
    "longline",
)
TIMED = ("line", "rawline", "longline")


class What(StrEnum):
    """What can be asked for; ``all`` is every program that judges a claim, but for long ones."""

    bulk = "bulk"
    carriers = "carriers"
    tls = "tls"
    duplex = "duplex"
    flat = "flat"
    shapes = "shapes"
    clients = "clients"
    executors = "executors"
    straggler = "straggler"
    traverse = "traverse"
    crowd = "crowd"
    cpu = "cpu"
    strategies = "strategies"
    lossy = "lossy"
    auto = "auto"
    finetune = "finetune"
    cuts = "cuts"
    slow = "slow"
    bwlimit = "bwlimit"
    flips = "flips"
    mpi = "mpi"
    sessions = "sessions"
    soak = "soak"
    peers = "peers"
    shipped = "shipped"
    probe = "probe"
    differences = "differences"
    chunk = "chunk"
    raw = "raw"
    line = "line"
    rawline = "rawline"
    longline = "longline"
    all = "all"


class Carrier(StrEnum):
    """What carries the models of ``cuts`` and ``flips``."""

    grpc = "grpc"
    tcp = "tcp"


def main(
    what: Annotated[What, typer.Argument(help="Which claim to measure.")] = What.all,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write everything measured to this file.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One small run each: does it work? Judges nothing.")
    ] = False,
    minutes: Annotated[
        float, typer.Option(min=1, help="How long the soak lasts; the others know it themselves.")
    ] = 30.0,
    seconds: Annotated[
        float | None,
        typer.Option(min=1, help="How long each run on a long line measures; a trial is short."),
    ] = None,
    carrier: Annotated[Carrier, typer.Option(help="Of cuts and flips.")] = Carrier.grpc,
    lanes: Annotated[
        int, typer.Option(min=0, help="Connections for the model of cuts over tcp; 0: one.")
    ] = 0,
) -> None:
    """Measure what streamlink claims; ends with status 1 when a claim was not met."""
    names = (
        [name for name in PROGRAMS if name not in LEFT_OUT] if what is What.all else [what.value]
    )
    console = Console()
    console.print(f"commit {environment()['commit']}")
    results: list[Result] = []
    for name in names:
        measure = PROGRAMS[name]
        if name == "soak":
            measure = partial(soak.run, minutes=minutes)
        elif name == "cuts" and carrier is not Carrier.grpc:
            measure = partial(measure, carrier=carrier.value, lanes=lanes)
        elif name == "flips" and carrier is not Carrier.grpc:
            measure = partial(measure, carrier=carrier.value)
        elif name == "strategies" and json_file is not None:
            measure = partial(measure, keep=partial(_keep, json_file, results))
        elif name in TIMED and seconds is not None:
            measure = partial(measure, seconds=seconds)
        results.append(measure(quick))
        print_result(results[-1], console)
        if json_file is not None:
            write_json(json_file, results)  # after each: a later failure must not cost the earlier
    if any(result.met is False for result in results):
        raise typer.Exit(1)


def _keep(json_file: Path, results: list[Result], so_far: Result) -> None:
    write_json(json_file, [*results, so_far])


if __name__ == "__main__":
    typer.run(main)
