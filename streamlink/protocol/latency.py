"""How long chunks took to be acknowledged: counts in fixed buckets, which can be added up."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper ends of the buckets (seconds); one more bucket holds what took longer."""


@dataclass(frozen=True, slots=True)
class AckTimes:
    """What was measured so far."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    """How many were in each bucket, the last one above every bound."""
    seconds: float = 0.0
    """The sum of all (seconds)."""

    def __add__(self, other: AckTimes) -> AckTimes:
        pairs = zip(self.counts, other.counts, strict=True)
        return AckTimes(tuple(a + b for a, b in pairs), self.seconds + other.seconds)


class AckClock:
    """Collects the time between sending a byte and hearing that it arrived."""

    __slots__ = ("_counts", "_seconds")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one acknowledgement."""
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self._seconds += seconds

    def so_far(self) -> AckTimes:
        """Return what was measured so far."""
        return AckTimes(tuple(self._counts), self._seconds)
