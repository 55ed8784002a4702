"""The model's shape must not matter: one huge tensor, a few large ones, a hundred thousand tiny.

All cases go through streamlink's part of ``bulk.py``. The same number of bytes is sent as one
tensor and as 64; the tiny tensors are a load of their own, since 100,000 of 4 KB are only 0.4 GB.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.arrays import Load, MiB
from benchmarks.bulk import STREAMLINK
from benchmarks.peers import COLUMNS, Run, measure, row, runs_json
from benchmarks.stats import MIN_PAIRS, Result, compare, interleave

__all__ = ["Shape", "is_met", "run", "shapes"]

GB, KB = 10**9, 10**3
AT_LEAST = 0.9  # of the rate of 64 tensors of the same total, for one tensor
EXTRA_AT_MOST_BYTES = 256 * MiB  # over base and array, whatever the shape
FEWEST_BYTES_PER_S = 100 * 10**6  # for tiny tensors: names and views cost, but not minutes


@dataclass(frozen=True)
class Shape:
    """A named way to cut a number of bytes into equal tensors."""

    name: str
    total_bytes: int
    tensors: int

    @property
    def load(self) -> Load:
        """The run that moves it."""
        return Load(total_bytes=self.total_bytes, tensors=self.tensors)


def shapes(quick: bool) -> tuple[Shape, Shape, Shape]:
    """Return one tensor, 64 tensors of the same total, and 100,000 tensors of 4 KB."""
    total = (GB if quick else 5 * GB) // 512 * 512  # whole 8-byte elements in each of 64
    tiny = 10_000 if quick else 100_000
    return (
        Shape(f"one tensor of {total / GB:.0f} GB", total, 1),
        Shape("64 tensors of the same total", total, 64),
        Shape(f"{tiny:,} tensors of 4 KB", tiny * 4 * KB, tiny),
    )


def run(quick: bool) -> Result:
    """Measure the three shapes in turn."""
    cases = shapes(quick)
    results = interleave(
        {case.name: _once(case) for case in cases}, pairs=1 if quick else MIN_PAIRS
    )
    return Result(
        name="shapes",
        claim=f"one tensor moves at {AT_LEAST:.0%} or more of the rate of 64, 100,000 tiny ones go "
        f"through, and no shape costs more than {EXTRA_AT_MOST_BYTES // MiB} MiB over its array",
        columns=COLUMNS,
        rows=tuple(row(name, runs) for name, runs in results.items()),
        facts={
            "loads": {case.name: case.load.as_json() for case in cases},
            "runs": runs_json(results),
        },
        met=None if quick else is_met([results[case.name] for case in cases]),
    )


def is_met(runs: list[list[Run]]) -> bool:
    """Judge the runs of one tensor, of 64, and of the tiny ones, in this order."""
    one, many, tiny = runs
    ratio = compare("one", [r.rate for r in one], "64", [r.rate for r in many]).summary.median
    extra = max(max(r.receiver_extra_bytes, r.sender_extra_bytes) for r in (*one, *many, *tiny))
    slowest = min(r.rate for r in tiny)
    return ratio >= AT_LEAST and extra <= EXTRA_AT_MOST_BYTES and slowest >= FEWEST_BYTES_PER_S


def _once(case: Shape) -> Callable[[], Run]:
    return lambda: measure(STREAMLINK, case.load)
