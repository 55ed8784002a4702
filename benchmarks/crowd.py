"""Sixty-four clients at once: each a process of its own, all of them in the mean, in lockstep."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.jobs import Job, Ran, Site, run_job
from benchmarks.models import Layout
from benchmarks.stats import Result

__all__ = ["crowded", "run"]

GB, MB, MIB = 10**9, 10**6, 1 << 20
SHARED_BYTES = (512 * MIB, 128 * MIB)  # the least that 64 clients can have is 48 MiB


def run(quick: bool) -> Result:
    """Run one round of 64 clients with 64 MB (quick: 3 with 4 MB), with each memory.

    First each stream has a window of its own, then all of the server's share its ``memory_bytes``.
    """
    clients, tensors = (3, 2) if quick else (64, 32)
    job = crowded(clients, Layout(tensors=tensors, tensor_bytes=2 * MB))
    jobs = [job, *(replace(job, memory_bytes=nbytes) for nbytes in SHARED_BYTES)]
    rans = [run_job(each, sites(clients)) for each in jobs]
    return Result(
        name="crowd",
        claim=f"{clients} clients finish a round in lockstep, their mean is exact, and the server "
        "stays under base + peak_bytes, with windows of their own and with memory_bytes",
        columns=("clients", "model, MB", "memory_bytes, MiB", "round, s", "server, MiB",
                 "peak_bytes, MiB", "server's CPU in the round, s per GB of wire",
                 "with its start and joining"),
        rows=tuple(_row(each, ran) for each, ran in zip(jobs, rans, strict=True)),
        facts={
            "job": job.as_json(),
            "ran": rans[0].as_json(),
            "shared": [
                {"job": each.as_json(), "ran": ran.as_json()}
                for each, ran in zip(jobs[1:], rans[1:], strict=True)
            ],
        },
        met=None if quick else all(is_met(ran, clients) for ran in rans),
    )  # fmt: skip


def _row(job: Job, ran: Ran) -> tuple[str, ...]:
    gigabytes = 2 * job.clients * job.layout.nbytes / GB
    return (
        str(job.clients),
        f"{job.layout.nbytes / MB:.0f}",
        f"{job.memory_bytes / MIB:.0f}" if job.memory_bytes else "not set",
        f"{ran.seconds:.1f}",
        f"{ran.server.over_base_bytes / MIB:.0f}",
        f"{ran.peak_bytes / MIB:.0f}",
        f"{ran.cpu_seconds / gigabytes:.2f}",
        f"{ran.server.cpu_seconds / gigabytes:.2f}",
    )


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
