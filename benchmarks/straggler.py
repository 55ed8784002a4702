"""One of three clients is ten times as slow: spooled, a round ends without it; in lockstep not.

Three clients stream behind shaped lines, one of them a tenth as wide. The server of the spooled
round keeps whole updates on its disk, so its memory is compared with that of the lockstep one.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.jobs import Job, Ran, Site, run_job
from benchmarks.lines import Line
from benchmarks.models import Layout
from benchmarks.stats import Result, interleave, summarize

__all__ = ["is_met", "run"]

MB, MIB = 10**6, 1 << 20
PAIRS = 3
TENTH = 10
ADDED = {"site-1": 1.0, "site-2": 3.0, "slow": 8.0}
MEANS = {"spool": 2.0, "lockstep": 4.0}  # of the first two; of all three
FAST = ("site-1", "site-2")


def run(quick: bool) -> Result:
    """Run one round of 256 MiB (quick: 8 MiB) each way, in turn."""
    layout = Layout(tensors=8 if quick else 64, tensor_bytes=MIB if quick else 4 * MIB)
    bandwidth, grace = (40 * MB, 0.2) if quick else (100 * MB, 1.0)
    # A busy machine may delay a fast client by seconds; it must still finish before the slow one.
    slower = 10 * TENTH if quick else TENTH
    fast = None if quick else bandwidth  # a quick run has one line only: each is a process more
    results = interleave(
        {
            "spool": lambda: _once("spool", layout, fast, bandwidth / slower, grace),
            "lockstep": lambda: _once("lockstep", layout, fast, bandwidth / TENTH, grace),
        },
        pairs=1 if quick else PAIRS,
    )
    return Result(
        name="straggler",
        claim=f"spooled, a round ends without a client that is {slower} times as slow, its model "
        "is exactly the others' mean, and the server stays under base + peak_bytes",
        columns=(
            "gathered by",
            "in the mean",
            "round, s",
            "server, MiB",
            "peak_bytes, MiB",
            "÷ lockstep",
        ),
        rows=tuple(_row(name, runs, results["lockstep"]) for name, runs in results.items()),
        facts={
            "layout": layout.as_json(),
            "bytes_per_second": [fast, bandwidth / slower],
            "grace_seconds": grace,
            "runs": {name: [ran.as_json() for ran in runs] for name, runs in results.items()},
        },
        met=None if quick else is_met(results["spool"], results["lockstep"]),
    )


def is_met(spooled: Sequence[Ran], lockstep: Sequence[Ran]) -> bool:
    """Tell whether each spooled round left just the slow one out, in time and in its memory.

    That the model is exactly the mean was checked by the store of each run.
    """
    return all(
        tuple(sorted(ran.rounds[0]["weights"])) == FAST
        and ran.seconds < waited.seconds
        and ran.is_within_budget
        for ran, waited in zip(spooled, lockstep, strict=True)
    )


def _once(
    gather: str, layout: Layout, fast: float | None, slow: float, grace_seconds: float
) -> Ran:
    """Run one round; ``fast`` is None where just the slow client is behind a line."""
    rules = {
        "min_clients": len(FAST),
        "num_rounds": 1,
        "gather": gather,
        "wait_time_after_min_received": grace_seconds,
    }
    job = Job(layout, MEANS[gather], len(ADDED), rules, is_spooled=gather == "spool")
    return run_job(job, [_site(name, fast if name in FAST else slow) for name in ADDED])


def _site(name: str, bandwidth: float | None) -> Site:
    line = None if bandwidth is None else Line(bandwidth)
    return Site(name, "benchmarks.jobs:client", {"added": ADDED[name]}, line)


def _row(name: str, runs: Sequence[Ran], lockstep: Sequence[Ran]) -> tuple[str, ...]:
    over = max(ran.server.over_base_bytes for ran in runs)
    ratios = [
        ran.server.over_base_bytes / other.server.over_base_bytes
        for ran, other in zip(runs, lockstep, strict=True)
    ]
    return (
        name,
        ", ".join(sorted(runs[-1].rounds[0]["weights"])),
        f"{summarize([ran.seconds for ran in runs]).median:.1f}",
        f"{over / MIB:.0f}",
        f"{runs[-1].peak_bytes / MIB:.0f}",
        f"{summarize(ratios).median:.2f}",
    )
