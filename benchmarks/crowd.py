"""Sixty-four clients at once: each a process of its own, all of them in the mean, in lockstep."""

from __future__ import annotations

from benchmarks.jobs import Job, Ran, Site, run_job
from benchmarks.models import Layout
from benchmarks.stats import Result

__all__ = ["crowded", "run"]

GB, MB, MIB = 10**9, 10**6, 1 << 20


def run(quick: bool) -> Result:
    """Run one round of 64 clients with 64 MB (quick: 3 with 4 MB)."""
    clients, tensors = (3, 2) if quick else (64, 32)
    job = crowded(clients, Layout(tensors=tensors, tensor_bytes=2 * MB))
    ran = run_job(job, sites(clients))
    return Result(
        name="crowd",
        claim=f"{clients} clients finish a round in lockstep, their mean is exact, and the server "
        "stays under base + peak_bytes",
        columns=("clients", "model, MB", "round, s", "server, MiB", "peak_bytes, MiB",
                 "server's CPU in the round, s per GB of wire", "with its start and joining"),
        rows=(
            (
                str(clients),
                f"{job.layout.nbytes / MB:.0f}",
                f"{ran.seconds:.1f}",
                f"{ran.server.over_base_bytes / MIB:.0f}",
                f"{ran.peak_bytes / MIB:.0f}",
                f"{ran.cpu_seconds / (2 * clients * job.layout.nbytes / GB):.2f}",
                f"{ran.server.cpu_seconds / (2 * clients * job.layout.nbytes / GB):.2f}",
            ),
        ),
        facts={"job": job.as_json(), "ran": ran.as_json()},
        met=None if quick else is_met(ran, clients),
    )  # fmt: skip


def crowded(clients: int, layout: Layout) -> Job:
    """Return one round of clients number 1, 2, 3, … that add their number."""
    rules = {"min_clients": clients, "num_rounds": 1, "gather": "lockstep"}
    return Job(layout, (clients + 1) / 2, clients, rules)


def sites(clients: int) -> list[Site]:
    """Return the clients, each with its number."""
    return [
        Site(f"site-{number:02d}", "benchmarks.jobs:client", {"added": number})
        for number in range(1, clients + 1)
    ]


def is_met(ran: Ran, clients: int) -> bool:
    """Tell whether all are in the mean and the budget held; the model itself was checked."""
    return len(ran.rounds[-1]["weights"]) == clients and ran.is_within_budget
