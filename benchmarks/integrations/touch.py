"""What new memory costs on this machine: python -m benchmarks.integrations.touch

A virtual machine may give memory that is free to its host. Whoever uses it next waits until the
host has found some and cleared it, page by page, and all of that is time in the kernel. Frameworks
and streamlink alike touch new memory for each model that arrives: arrays, or the files of a spool.
So on such a machine this is a part of each figure of the integrations, and no program can avoid it.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from benchmarks.stats import commit, environment
from benchmarks.tables import print_table, report_progress

PAGE_BYTES = 4096
COLUMNS = ("1 GB of", "seconds", "of these in the kernel")


def arrays(nbytes: int, folder: Path) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Touch each page of a new array, as one does that receives a model into it."""
    array = np.empty(nbytes, np.uint8)
    array[::PAGE_BYTES] = 1
    return array


def file(nbytes: int, folder: Path) -> None:
    """Write a new file, and remove it, as a spool does; what the disk takes later is not in it."""
    piece = bytes(1 << 20)
    with tempfile.TemporaryFile(dir=folder) as target:
        for _ in range(0, nbytes, len(piece)):
            target.write(piece)


def measure(act: Callable[[int, Path], object], nbytes: int, folder: Path) -> tuple[float, float]:
    """Return the seconds that ``act`` takes, and those of them in the kernel; for 1 GB."""
    began, in_kernel = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_stime
    act(nbytes, folder)
    seconds = time.monotonic() - began
    in_kernel = resource.getrusage(resource.RUSAGE_SELF).ru_stime - in_kernel
    return seconds * 1e9 / nbytes, in_kernel * 1e9 / nbytes


def main(
    megabytes: Annotated[int, typer.Option(min=1, help="memory to touch (MB)")] = 2000,
    idle: Annotated[float, typer.Option(min=0, help="seconds for which it is free before")] = 20.0,
    repeats: Annotated[int, typer.Option(min=1, help="times; medians are printed")] = 3,
) -> None:
    """Print what it costs to touch new memory: free for a while, and freed a moment ago."""
    rows: dict[str, list[tuple[float, float]]] = {}
    folder = Path(tempfile.gettempdir())
    for number in range(repeats):
        report_progress(f"round {number + 1} of {repeats}")
        for name, act in (("arrays", arrays), ("a file in the page cache", file)):
            time.sleep(idle)
            for before in (f"free for {idle:g} s", "freed just before"):
                found = measure(act, megabytes * 1_000_000, folder)
                rows.setdefault(f"{name}, memory {before}", []).append(found)
    table = [
        (name, *(f"{median(each):.2f}" for each in zip(*found, strict=True)))
        for name, found in rows.items()
    ]
    machine = environment()["machine"]
    print(f"commit {commit()}, {machine['cores']} × {machine['cpu']}, Linux {machine['kernel']}")
    print_table(Console(), COLUMNS, table)


if __name__ == "__main__":
    typer.run(main)
