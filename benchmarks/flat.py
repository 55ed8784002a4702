"""Memory that does not know the model's size: the same job with keys 16 times as large."""

from __future__ import annotations

from typing import Any

from benchmarks.example import Job, extra_bytes, processes_of, run_example
from benchmarks.stats import Result

__all__ = ["is_flat", "peaks", "run"]

MIB = 1 << 20
TOLERANCE = 0.10
SLACK_BYTES = 8 * MIB  # allocators and Python itself move by this much between equal runs


def run(quick: bool) -> Result:
    """Run 64 keys of 16 MB and of 256 MB (quick: 1 and 16 MB) and compare the peaks."""
    sizes = ("1MB", "16MB") if quick else ("16MB", "256MB")
    reports = {
        size: run_example(Job(keys=64, key_size=size, weights="random", compress="none"))
        for size in sizes
    }
    small, large = (peaks(reports[size]) for size in sizes)
    return Result(
        name="flat",
        claim="a model 16 times as large raises no process's peak by more than "
        f"{TOLERANCE:.0%} + {SLACK_BYTES // MIB} MiB, and the server stays under peak_bytes",
        columns=("process", f"64 x {sizes[0]}: MiB over base", f"64 x {sizes[1]}: MiB over base"),
        rows=tuple(
            (name, f"{small[name] / MIB:.0f}", f"{large[name] / MIB:.0f}") for name in small
        ),
        facts={"reports": reports},
        met=None if quick else is_flat(small, large) and within_budget(reports[sizes[1]]),
    )


def peaks(report: dict[str, Any]) -> dict[str, int]:
    """Return each process's peak over base (bytes), by name."""
    return {process["name"]: extra_bytes(process) for process in report["processes"]}


def is_flat(small: dict[str, int], large: dict[str, int]) -> bool:
    """Tell whether every process of the large run stays near its peak of the small run."""
    return small.keys() == large.keys() and all(
        large[name] <= small[name] * (1 + TOLERANCE) + SLACK_BYTES for name in small
    )


def within_budget(report: dict[str, Any]) -> bool:
    """Tell whether the server's resident memory stayed under base + its computed peak."""
    servers = processes_of(report, "server")
    return all(extra_bytes(server) <= report["server_peak_bytes"] for server in servers)
