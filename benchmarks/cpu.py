"""What a round costs its server: processor time for each GB, with few clients and with many.

The rounds of ``duplex``: models in memory, streaming clients that add a number. The first rounds
warm up, until the memory has been touched; only the processor time of later ones counts. All
clients are processes on this machine: 64 of them keep most of its cores busy, so the server wakes
more often, and finds less to do each time, than with clients on machines of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from benchmarks.arrays import GiB, Load, MiB
from benchmarks.duplex import Rounds, measure_rounds
from benchmarks.stats import Result, Summary, interleave, summarize

__all__ = ["AT_MOST", "is_met", "run"]

AT_MOST = {2: 0.4, 64: 0.5}
"""The most that is claimed, by the number of clients (seconds of processor time for each GB)."""

_MODEL_BYTES = {2: GiB, 16: 128 * MiB, 64: 64 * MiB}
_RUNS = 3


def run(quick: bool) -> Result:
    """Measure rounds of 2, 16 and 64 clients in turn (quick: one of 2)."""
    models = {2: 64 * MiB} if quick else _MODEL_BYTES
    found = interleave(
        {str(count): partial(_rounds, count, nbytes) for count, nbytes in models.items()},
        pairs=1 if quick else _RUNS,
    )
    used = {int(count): summarize([each.cpu_seconds_per_gb for each in runs])
            for count, runs in found.items()}  # fmt: skip
    return Result(
        name="cpu",
        claim="for each GB of payload, a round costs the server at most "
        + " and ".join(f"{most} s of processor time with {count} clients"
                       for count, most in AT_MOST.items()),
        columns=("clients", "model, MiB", "server's CPU, s per GB", "p10..p90", "GB/s",
                 "server over base, MiB"),
        rows=tuple(_row(count, models[count], used[count], found[str(count)]) for count in models),
        facts={
            "model_bytes": {str(count): nbytes for count, nbytes in models.items()},
            "runs": {count: [each.as_json() for each in runs] for count, runs in found.items()},
        },
        met=None if quick else is_met({count: each.median for count, each in used.items()}),
    )  # fmt: skip


def is_met(used: Mapping[int, float]) -> bool:
    """Tell whether each of the medians (seconds for each GB), by clients, is low enough."""
    return all(used[count] <= most for count, most in AT_MOST.items())


def _rounds(clients: int, nbytes: int) -> Rounds:
    return measure_rounds(Load(total_bytes=nbytes, tensors=64, tuned=True), clients)


def _row(clients: int, nbytes: int, used: Summary, runs: Sequence[Rounds]) -> tuple[str, ...]:
    return (
        str(clients),
        str(nbytes // MiB),
        f"{used.median:.2f}",
        f"{used.low:.2f}..{used.high:.2f}",
        f"{summarize([each.rate / 1e9 for each in runs]).median:.2f}",
        f"{max(each.server.over_base_bytes for each in runs) / MiB:.0f}",
    )
