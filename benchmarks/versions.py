"""Two versions of streamlink in turn, in one run: has this one become slower?

``python -m benchmarks.versions OTHER_TREE`` compares this tree with another one, such as a ``git
worktree`` of an older commit. ``--what`` chooses the load:

- ``job``: the example at the large job's shape: 64 arrays of 16 MB, two clients, three rounds, the
  model stored with zstd, every element verified. Only the rounds are timed.
- ``bulk``: one stream of 4 GiB, array to array.
- ``grpc``: the same over gRPC in both versions, whatever other carriers they have.
- ``crowd``: one round of 64 clients with 64 MB each.
- ``cpu``: rounds of two clients with a streaming executor, models in memory; for a second of the
  server's processor time, from its base to its end, rather than for a second.

Each run is a process that imports everything from its own tree, so each version is measured by its
own benchmarks; both use the interpreter and the packages of this one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from benchmarks.stats import (
    MIN_PAIRS,
    Result,
    compare,
    median_interval,
    print_result,
    summarize,
    write_json,
)

__all__ = ["Load", "compared", "is_precise", "rate_of"]

GB = 10**9
AT_LEAST = 0.97
"""The median ratio that is called *not slower*: the promise of one change to the next."""
WIDEST = 0.10
"""Pairs are added until the confidence interval of the median ratio is at most this wide (share of
that median)."""
MAX_PAIRS = 15
HERE = Path(__file__).resolve().parents[1]
_SECONDS = 600.0


class Load(StrEnum):
    """What both versions run."""

    JOB = "job"
    BULK = "bulk"
    GRPC = "grpc"
    CROWD = "crowd"
    CPU = "cpu"


# Each prints its rate as the last line: bytes for each second, of the processor with ``cpu``. They
# use only what both trees have.
_PROGRAMS = {
    Load.JOB: """
import json, subprocess, sys, tempfile
from pathlib import Path
with tempfile.TemporaryDirectory(prefix="streamlink-benchmark-") as folder:
    report = Path(folder) / "report.json"
    program = Path("examples/hello_numpy_large/run.py")
    words = ["--key-size", "16MB", "--compress", "zstd", "--report", str(report)]
    subprocess.run([sys.executable, str(program), *words], check=True, stdout=subprocess.DEVNULL)
    facts = json.loads(report.read_text(encoding="utf-8"))
print((facts["wire_bytes_sent"] + facts["wire_bytes_received"]) / facts["seconds"])
""",
    Load.BULK: """
from benchmarks.arrays import GiB, Load
from benchmarks.bulk import STREAMLINK
from benchmarks.peers import runs_of
print(runs_of([STREAMLINK], Load(total_bytes=4 * GiB))[STREAMLINK.name]().rate)
""",
    Load.GRPC: """
from benchmarks.arrays import GiB, Load
from benchmarks.peers import runs_of
try:
    from benchmarks.carriers import OVER_GRPC as PEER
except ImportError:  # a version that has no other carrier
    from benchmarks.bulk import STREAMLINK as PEER
print(runs_of([PEER], Load(total_bytes=4 * GiB))[PEER.name]().rate)
""",
    Load.CROWD: """
from benchmarks.crowd import crowded, sites
from benchmarks.jobs import run_job
from benchmarks.models import Layout
job = crowded(64, Layout(tensors=32, tensor_bytes=2_000_000))
print(2 * 64 * job.layout.nbytes / run_job(job, sites(64)).seconds)
""",
    Load.CPU: """
from benchmarks.arrays import GiB, Load
from benchmarks.duplex import ROUNDS, WARM_UP_ROUNDS, measure_rounds
ran = measure_rounds(Load(total_bytes=GiB, tensors=64, tuned=True))
print(ran.payload_bytes * (WARM_UP_ROUNDS + ROUNDS) / ROUNDS / ran.server.cpu_seconds)
""",
}


def rate_of(tree: Path, load: Load) -> float:
    """Run ``load`` in ``tree`` and return its rate (bytes per second, both ways together).

    Raises:
        subprocess.CalledProcessError: it failed, or a model was not right.
    """
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAMS[load]],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=_SECONDS,
    )
    return float(done.stdout.splitlines()[-1])


def compared(here: list[float], there: list[float], other: str, load: Load = Load.JOB) -> Result:
    """Return what may be said of rates (bytes per second) measured in turn.

    Met: the median of the pairs' ratios is at least ``AT_LEAST``.
    """
    found = compare("this version", here, other, there)
    low, high = median_interval(found.ratios)
    return Result(
        name=f"versions-{load}",
        claim=f"{load}: the median rate is at least {AT_LEAST:.2f} x that of {other}",
        columns=("version", "GB/s, median", "ratio, p10..p90", "90 % interval of its median"),
        rows=(
            ("this", f"{summarize(here).median / GB:.2f}", str(found), f"{low:.2f}..{high:.2f}"),
            (other, f"{summarize(there).median / GB:.2f}", "", ""),
        ),
        facts={
            "here": here,
            "there": there,
            "ratios": list(found.ratios),
            "median_interval": [low, high],
            "other": other,
        },
        met=found.summary.median >= AT_LEAST,
    )


def is_precise(here: list[float], there: list[float]) -> bool:
    """Whether enough pairs were run to judge by their median."""
    if len(here) < MIN_PAIRS:
        return False
    ratios = tuple(a / b for a, b in zip(here, there, strict=True))
    low, high = median_interval(ratios)
    return high - low <= WIDEST * float(np.median(ratios))


def main(
    other_tree: Annotated[Path, typer.Argument(help="A checkout of the other version.")],
    what: Annotated[Load, typer.Option(help="The load that both run.")] = Load.JOB,
    pairs: Annotated[
        int, typer.Option(min=1, help="At most so many runs of each, in turn.")
    ] = MAX_PAIRS,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write everything measured to this file.")
    ] = None,
) -> None:
    """Compare this version with another one; ends with status 1 where this one is slower.

    Pairs are added until the median ratio is known within 0.10.
    """
    named = ["git", "-C", str(other_tree), "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(named, capture_output=True, text=True, check=True).stdout.strip()
    console = Console()
    here: list[float] = []
    there: list[float] = []
    while len(here) < pairs and not is_precise(here, there):
        _add_pair(here, there, other_tree.resolve(), what)
        console.print(f"pair {len(here)}: {here[-1] / there[-1]:.2f}x", highlight=False)
    result = compared(here, there, commit, what)
    print_result(result, console)
    if json_file is not None:
        write_json(json_file, [result])
    raise typer.Exit(0 if result.met else 1)


def _add_pair(here: list[float], there: list[float], other: Path, what: Load) -> None:
    # Each begins as often as the other: what the one leaves behind (warm caches, memory that the
    # host of a virtual machine takes back) must not always meet the same one.
    pair = [(here, HERE), (there, other)]
    for rates, tree in pair if len(here) % 2 == 0 else reversed(pair):
        rates.append(rate_of(tree, what))


if __name__ == "__main__":
    typer.run(main)
