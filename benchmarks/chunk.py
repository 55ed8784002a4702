"""Which chunk size is fastest, array to array: what ``chunk_bytes`` should default to."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.arrays import GiB, Load, MiB
from benchmarks.bulk import STREAMLINK
from benchmarks.peers import COLUMNS, Run, measure, row, runs_json
from benchmarks.stats import MIN_PAIRS, Result, interleave

__all__ = ["SIZES", "run"]

SIZES = (MiB // 2, MiB, 2 * MiB, 4 * MiB)


def run(quick: bool) -> Result:
    """Measure one stream with each chunk size in turn."""
    total = GiB // 4 if quick else 2 * GiB
    results = interleave(
        {f"{size / MiB:g} MiB": _once(total, size) for size in SIZES},
        pairs=1 if quick else MIN_PAIRS,
    )
    return Result(
        name="chunk",
        claim="none; one stream array to array with chunks of several sizes",
        columns=COLUMNS,
        rows=tuple(row(name, runs) for name, runs in results.items()),
        facts={"total_bytes": total, "runs": runs_json(results)},
        met=None,
    )


def _once(total: int, size: int) -> Callable[[], Run]:
    return lambda: measure(STREAMLINK, Load(total_bytes=total, message_bytes=size))
