"""Seconds for each GB of computed models, from 1 to 128 GB: they should not depend on the size."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from benchmarks.links.cases import MIB
from benchmarks.links.tables import Row

__all__ = ["LARGE_COLUMNS", "WITHIN", "is_constant", "large_of", "large_rows", "seconds_per_gb",
           "spread"]  # fmt: skip

GB = 10**9
WITHIN = 0.10
LARGE_COLUMNS = (
    "model, GB", "runs", "seconds", "seconds per GB", "÷ the smallest model's",
    "sender over base, MiB", "receiver over base, MiB", "CPU s per GB, sender", "receiver",
)  # fmt: skip


def large_of(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of computed models, the smallest first."""
    found = [row for row in rows if row.case.payload.kind == "computed" and row.good]
    return sorted(found, key=lambda row: row.case.payload.size_bytes)


def seconds_per_gb(row: Row) -> float:
    """Return the median time for each GB (seconds)."""
    return median(run.seconds for run in row.good) * GB / row.case.payload.size_bytes


def large_rows(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Return a row of text for each size; none where none was run."""
    found = large_of(rows)
    return [_cells(row, seconds_per_gb(found[0])) for row in found]


def spread(rows: Sequence[Row]) -> float | None:
    """Return how far the most seconds for a GB are above the least; None: too few sizes to judge.

    Smaller models than one of 1 GB do not count: of their time the start is a part.
    """
    each = _judged(rows)
    return max(each) / min(each) - 1 if len(each) > 1 else None


def is_constant(rows: Sequence[Row]) -> str:
    """Return as a sentence whether the seconds for each GB stay within a tenth of each other."""
    each, off = _judged(rows), spread(rows)
    if off is None:
        return (
            "It takes two models of 1 GB and more to judge whether the time for each is the same."
        )
    verdict = "met" if off <= WITHIN else "not met"
    return (
        f"From {min(each):.3f} to {max(each):.3f} s for each GB, the highest {off:.1%} above the "
        f"lowest; constant within {WITHIN:.0%}: {verdict}."
    )


def _judged(rows: Sequence[Row]) -> list[float]:
    return [seconds_per_gb(row) for row in large_of(rows) if row.case.payload.size_bytes >= GB]


def _cells(row: Row, first: float) -> tuple[str, ...]:
    good, size = row.good, row.case.payload.size_bytes / GB
    seconds = sorted(run.seconds for run in good)
    over = (max(run.sides[role].peak_over_base_bytes for run in good) for role in _ROLES)
    cpu = (median(run.sides[role].cpu_seconds for run in good) / size for role in _ROLES)
    return (
        f"{size:g}",
        str(len(good)),
        f"{median(seconds):.2f} ({seconds[0]:.2f}..{seconds[-1]:.2f})",
        f"{seconds_per_gb(row):.3f}",
        f"{seconds_per_gb(row) / first:.3f}",
        *(f"{each / MIB:.0f}" for each in over),
        *(f"{each:.2f}" for each in cpu),
    )


_ROLES = ("send", "receive")
