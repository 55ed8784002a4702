"""The rates in the marks of a meter.

Apart from it, since a process that counts what arrives has no need of NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.longline.meter import Mark, Span
from benchmarks.stats import Summary, summarize

__all__ = ["rates_by_second", "steady_rate"]

PARTS = 10


def steady_rate(marks: Sequence[Mark], span: Span) -> float:
    """Return the rate inside the span (bytes per second), linear between marks.

    Raises:
        ValueError: the bytes ended before the span did.
    """
    begin, end = _totals(marks, [span.warm_up, span.end])
    return float((end - begin) / span.seconds)


def rates_by_second(marks: Sequence[Mark], span: Span) -> Summary:
    """Return the rates of each tenth of the span, or of each second of a long one (bytes/s)."""
    parts = max(PARTS, int(span.seconds))
    edges = np.linspace(span.warm_up, span.end, parts + 1).tolist()
    rates = np.diff(_totals(marks, edges)) / (span.seconds / parts)
    return summarize([float(rate) for rate in rates])


def _totals(marks: Sequence[Mark], at: Sequence[float]) -> npt.NDArray[np.float64]:
    until = at[-1]
    if not marks or marks[-1][0] < until:
        seen = marks[-1][0] if marks else 0.0
        raise ValueError(f"the bytes ended too soon: after {seen:.1f} of {until:.1f} s")
    times, totals = zip(*marks, strict=True)
    found: npt.NDArray[np.float64] = np.interp(at, times, totals)
    return found
