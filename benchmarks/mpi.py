"""Rounds over MPI: streamlink beside bare buffers of mpi4py, and beside pickled messages.

Three processes of one ``mpiexec``, a server and two clients, move a model down and up; what each
does is in ``mpi_ranks``. Bare buffers are the ceiling: they have no hash, no flow control, no mean
and no store, they know every size in advance, and every process polls at 100 % of a core.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.arrays import GiB, Load
from benchmarks.processes import REPOSITORY, WorkerFailed
from benchmarks.stats import MIN_PAIRS, Comparison, Result, compare, interleave, summarize

__all__ = ["CLAIM", "WAYS", "Run", "is_met", "measure", "mpiexec", "run"]

CLIENTS, ROUNDS = 2, 3
RUN_SECONDS = 1800.0
STREAMLINK = "streamlink"
WAYS = {STREAMLINK: "streamlink", "raw": "mpi4py buffers", "pickled": "pickled messages"}
AT_LEAST = {"raw": 0.6, "pickled": 3.0}
CLAIM = (
    f"over MPI, rounds with {CLIENTS} clients reach {AT_LEAST['raw']} of the rate of bare mpi4py "
    f"buffers, and {AT_LEAST['pickled']:g} x that of pickled messages"
)


@dataclass(frozen=True)
class Run:
    """Some rounds: payload of both directions and all clients (bytes), and what they took."""

    payload_bytes: int
    seconds: float
    server_over_base_bytes: int
    server_cpu_seconds: float
    waiting_share: float | None = None
    """What the server takes of a core while nothing moves; None: not measured."""

    @property
    def rate(self) -> float:
        """Payload per second (bytes/s)."""
        return self.payload_bytes / self.seconds


def run(quick: bool) -> Result:
    """Measure the three ways in turn."""
    if mpiexec() is None:
        words = "skipped: there is no mpiexec with mpi4py (pip install 'streamlink-fl[mpi]')"
        return Result("mpi", CLAIM, ("what",), ((words,),))
    load = Load(total_bytes=GiB // 8 if quick else GiB, tensors=64, tuned=True)
    runs = interleave(
        {way: partial(measure, way, load) for way in WAYS}, pairs=1 if quick else MIN_PAIRS
    )
    ratios = _ratios(runs)
    return Result(
        name="mpi",
        claim=CLAIM,
        columns=("what", "GB/s, median", "p10..p90", "streamlink is", "server over base, MiB",
                 "of a core while it waits, %"),
        rows=tuple(_row(way, found, ratios) for way, found in runs.items()),
        facts={
            "load": load.as_json(),
            "runs": {way: [asdict(each) for each in found] for way, found in runs.items()},
        },
        met=None if quick else is_met(ratios),
    )  # fmt: skip


def measure(way: str, load: Load, rounds: int = ROUNDS) -> Run:
    """Run the rounds once, in fresh processes.

    Raises:
        WorkerFailed: a process failed, or the final model is wrong.
    """
    program = mpiexec()
    assert program is not None
    facts = json.dumps({**load.as_json(), "rounds": rounds})
    words = ["-n", str(CLIENTS + 1), sys.executable, "-m", "benchmarks.mpi_ranks", way, facts]
    done = subprocess.run(
        [program, *words], cwd=REPOSITORY, capture_output=True, text=True, timeout=RUN_SECONDS
    )
    if done.returncode != 0:
        raise WorkerFailed(f"{WAYS[way]} ended with {done.returncode}: {done.stderr[-2000:]}")
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if not told.pop("verified"):
        raise WorkerFailed(f"{WAYS[way]}: the final model is not what the rounds should give")
    return Run(2 * CLIENTS * rounds * load.total_bytes, **told)


def mpiexec() -> str | None:
    """Return the program that starts MPI jobs; None: it, or mpi4py, is not installed."""
    if importlib.util.find_spec("mpi4py") is None:
        return None
    beside = shutil.which("mpiexec", path=Path(sys.executable).parent)
    return beside or shutil.which("mpiexec")


def is_met(ratios: dict[str, Comparison]) -> bool:
    """Return whether the claim holds."""
    return all(ratios[way].summary.median >= least for way, least in AT_LEAST.items())


def _ratios(runs: dict[str, list[Run]]) -> dict[str, Comparison]:
    rates = {way: [each.rate for each in found] for way, found in runs.items()}
    return {way: compare(STREAMLINK, rates[STREAMLINK], way, rates[way]) for way in AT_LEAST}


def _row(way: str, runs: list[Run], ratios: dict[str, Comparison]) -> tuple[str, ...]:
    seen = summarize([each.rate / 1e9 for each in runs])
    extra = max(each.server_over_base_bytes for each in runs)
    waiting = [each.waiting_share for each in runs if each.waiting_share is not None]
    return (
        WAYS[way],
        f"{seen.median:.2f}",
        f"{seen.low:.2f}..{seen.high:.2f}",
        str(ratios.get(way, "")),
        f"{extra / (1 << 20):.0f}",
        f"{100 * max(waiting):.1f}" if waiting else "",
    )
