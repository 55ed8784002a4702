"""``python -m benchmarks.heap``: memory and rounds beside APPFL 1.12, one job in five ways.

Two clients and a server move float32 numbers for three rounds, as one tensor and as many; the first
round is left out of the times. The five take turns. Memory is resident memory over the base (after
the imports), and in ``--memray`` runs what memray saw allocated, without times.

Memory that a program frees stays resident while glibc keeps it for the next allocation, and how
much it keeps depends on the sizes and the order of what is freed. With ``--return-freed`` every
process gives freed blocks of 64 KiB and more back to the kernel at once (``M_MMAP_THRESHOLD`` of
``mallopt(3)``), so what is resident is what is held. That takes time: then no times are compared.
"""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.heap.environment import python
from benchmarks.heap.measure import APPFL, OURS, Job, Run, run_appfl, run_ours
from benchmarks.stats import environment

__all__ = ["main", "verdicts"]

MANY = [1, 16]
CHUNKS = 4
"""Chunks that APPFL makes of the model: it is as shipped, but a model of 1 GB would be none."""


def main(
    size_mib: Annotated[int, typer.Option(min=4, help="Of the model (MiB).")] = 256,
    tensors: Annotated[list[int], typer.Option(min=1, help="Into how many; repeatable.")] = MANY,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each.")] = 1,
    memray: Annotated[bool, typer.Option("--memray", help="Profile; no times.")] = False,
    return_freed: Annotated[
        bool, typer.Option("--return-freed", help="Freed memory is given back at once.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the figures, too.")
    ] = None,
) -> None:
    """Measure all five, and say which claims were met."""
    if return_freed:
        os.environ["MALLOC_MMAP_THRESHOLD_"] = str(64 << 10)  # its processes inherit it
    interpreter = python()
    figures: dict[str, dict[str, list[Run]]] = {}
    missed = 0
    is_timed = not (memray or return_freed)
    for count in tensors:
        nbytes = size_mib << 20
        job = Job(nbytes, count, nbytes // CHUNKS, memray)
        ways = {way: partial(run_appfl, way, job, interpreter) for way in APPFL}
        ways |= {version: partial(run_ours, version, job) for version in OURS}
        runs: dict[str, list[Run]] = {way: [] for way in ways}
        for _ in range(repeats):
            for way, run in ways.items():
                runs[way].append(run())
        figures[f"{count} tensors"] = runs
        Console().print(_table(count, runs, is_timed=is_timed))
        for text, is_met in verdicts(runs, is_timed=is_timed):
            typer.echo(f"{'met    ' if is_met else 'NOT MET'} {text}")
            missed += not is_met
    if json_file is not None:
        facts = {
            key: {way: [vars(each) for each in found] for way, found in runs.items()}
            for key, runs in figures.items()
        }
        json_file.write_text(json.dumps({**environment(), "runs": facts}, indent=1), "utf-8")
    if missed:
        raise typer.Exit(1)


def verdicts(runs: dict[str, list[Run]], *, is_timed: bool) -> list[tuple[str, bool]]:
    """Return each claim with its figures, and whether it was met."""
    server = {way: median(each.server for each in found) for way, found in runs.items()}
    client = {way: median(each.client for each in found) for way, found in runs.items()}
    seconds = {way: median(each.seconds for each in found) for way, found in runs.items()}
    found = []
    for name, peaks in (("server", server), ("client", client)):
        share = peaks["original"] / peaks["off"] - 1
        text = f"original {name}: {share:+.1%} of APPFL with optimisation off (within 15 %)"
        found.append((text, abs(share) <= 0.15))
    if not is_timed:
        return found
    less = server["chunked"] / server["optimized"]
    faster = seconds["chunked"] / seconds["optimized"]
    best = seconds["tuned"] / seconds["optimized"]
    found.append((f"server: {less:.1f} x less than APPFL chunked (10 x)", less >= 10))
    found.append((f"rounds: {faster:.1f} x faster than APPFL chunked (5 x)", faster >= 5))
    found.append((f"rounds: {best:.1f} x faster than APPFL's best case (1.5 x)", best >= 1.5))
    return found


def _table(tensors: int, runs: dict[str, list[Run]], *, is_timed: bool) -> Table:
    title = f"the model as {tensors} tensor{'s' if tensors > 1 else ''}"
    table = Table(title=title, title_justify="left")
    for heading in ("way", "server, MB", "client, MB", "s a round"):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for way, found in runs.items():
        table.add_row(
            (APPFL | OURS)[way],
            f"{median(each.server for each in found) / 1e6:.1f}",
            f"{median(each.client for each in found) / 1e6:.1f}",
            f"{median(each.seconds for each in found):.2f}" if is_timed else "",
        )
    return table


if __name__ == "__main__":
    typer.run(main)
