"""Memory of the server as clients join: it may grow by each client's windows, and nothing else."""

from __future__ import annotations

from typing import Any

from benchmarks.example import Job, extra_bytes, processes_of, run_example
from benchmarks.flat import within_budget
from benchmarks.stats import Result

__all__ = ["growth_per_client", "run"]

MIB = 1 << 20


def run(quick: bool) -> Result:
    """Run one job with 2 to 16 clients (quick: 2 and 4) and compare memory with its budget."""
    counts = (2, 4) if quick else (2, 4, 8, 16)
    reports = {
        count: run_example(Job(keys=16, key_size="4MB", clients=count, rounds=1))
        for count in counts
    }
    return Result(
        name="clients",
        claim="from 2 to 16 clients the server stays under base + peak_bytes, as computed",
        columns=("clients", "server over base, MiB", "peak_bytes, MiB", "used", "seconds"),
        rows=tuple(_row(count, report) for count, report in reports.items()),
        facts={
            "reports": {str(count): report for count, report in reports.items()},
            "server_bytes_per_client": growth_per_client(
                {count: _server_extra(report) for count, report in reports.items()}
            ),
        },
        met=None if quick else all(within_budget(report) for report in reports.values()),
    )


def growth_per_client(extra: dict[int, int]) -> float:
    """Return how much the server's peak grew for each client more (bytes), end to end."""
    fewest, most = min(extra), max(extra)
    return (extra[most] - extra[fewest]) / (most - fewest)


def _server_extra(report: dict[str, Any]) -> int:
    return max(extra_bytes(server) for server in processes_of(report, "server"))


def _row(count: int, report: dict[str, Any]) -> tuple[str, ...]:
    seen, budget = _server_extra(report), int(report["server_peak_bytes"])
    return (
        str(count),
        f"{seen / MIB:.0f}",
        f"{budget / MIB:.0f}",
        f"{seen / budget:.0%}",
        f"{report['seconds']:.1f}",
    )
