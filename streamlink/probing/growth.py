"""The initial window of a probe's model, and how long other streams take to grow to it.

A window begins small and about doubles with each round trip. A line that is long and fast has
carried all that one measurement may move before its window is large enough, and what was measured
would be the window. So a model begins with the window that the last one would have got to, had it
been larger, and how long that growth takes is computed. Arithmetic only.
"""

from __future__ import annotations

from streamlink.probing.speed import Samples
from streamlink.protocol.flow_control import LONG_MARGIN

__all__ = ["burst_rate", "grown_window", "growth_seconds", "rate_in_window"]

_BURST_SECONDS = 0.015
"""More than from one sample to the next, whose moments are not so certain."""


def burst_rate(samples: Samples) -> float:
    """Return the highest rate of a short burst (bytes per second); 0: there are too few samples.

    A window that is too small arrives in a burst at the rate of the line, and then the line is idle
    until acks return.
    """
    highest = 0.0
    for last, (moment, done) in enumerate(samples):
        for first in reversed(range(last)):
            began, before = samples[first]
            seconds = moment - began
            highest = max(highest, (done - before) / max(seconds, _BURST_SECONDS))
            if seconds >= _BURST_SECONDS:
                break
    return highest


def grown_window(rate: float, round_trip: float) -> int:
    """Return the window to which a stream grows (bytes).

    Args:
        rate: what the line carries (bytes per second).
        round_trip: of the idle line (seconds).
    """
    return int(LONG_MARGIN * rate * round_trip)


def rate_in_window(window: float, round_trip: float) -> float:
    """Return the rate for which a window grows to this size (bytes per second)."""
    return window / (LONG_MARGIN * round_trip)


def growth_seconds(window: float, rate: float, round_trip: float) -> float:
    """Return how much longer a transfer takes because its window has to grow (seconds).

    In each round trip it moves its window, and not all that the line holds.

    Args:
        window: that it begins with (bytes).
        rate: what the line carries (bytes per second).
        round_trip: of the idle line (seconds).

    Raises:
        ValueError: the window is not positive.
    """
    if window <= 0:
        raise ValueError(f"a window of {window} bytes does not grow")
    held, seconds = rate * round_trip, 0.0
    while window < held:
        seconds += round_trip * (1 - window / held)
        window *= 2
    return seconds
