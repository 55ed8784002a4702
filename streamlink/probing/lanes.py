"""How many connections a stream gets on a line that was measured, and its time over them.

Arithmetic only. A stream begins with one connection, and opens one more while that makes it faster.
"""

from __future__ import annotations

from streamlink.probing.measured import Measured
from streamlink.probing.speed import Speed

__all__ = [
    "CARRIER",
    "LEAST_GAIN",
    "SECONDS_TO_OPEN",
    "are_worth_it",
    "connections_text",
    "lanes_for",
    "seconds_over",
]

LEAST_GAIN = 1.10
"""What several connections must carry of one, in either direction, to be worth their price."""

SECONDS_TO_OPEN = 6.0
"""How long a stream measures its rate before it opens the next connection (seconds)."""


CARRIER = "tcp"
"""The only one that carries a stream over several connections."""


def lanes_for(measured: Measured) -> int:
    """Return how many connections a stream should have at most: one, or as many as were tried."""
    is_worth_it = are_worth_it(measured.carrier, measured.gain_of_several)
    return measured.several if is_worth_it else 1


def are_worth_it(carrier: str, gain: float) -> bool:
    """Return whether a stream should have several connections.

    Args:
        carrier: of the stream.
        gain: what several connections carry of one.
    """
    return carrier == CARRIER and gain >= LEAST_GAIN


def seconds_over(one: Speed, several: Speed, lanes: int, nbytes: float) -> float:
    """Return how long a transfer of ``nbytes`` takes (seconds).

    Args:
        one: over one connection.
        several: over ``lanes`` connections; not used where it is slower, as then none is opened.
        lanes: the most connections (count); 1: only ``one`` counts.
        nbytes: on the wire.
    """
    gain = max(0.0, several.rate - one.rate)
    if lanes == 1 or not gain:
        return one.seconds_for(nbytes)
    opening, left = 0.0, nbytes
    for opened in range(lanes - 1):
        # Between one and all of them nothing was measured: each is assumed to add the same.
        rate = one.rate + gain * opened / (lanes - 1)
        if left <= rate * SECONDS_TO_OPEN:
            return one.start_seconds + opening + left / rate
        left -= rate * SECONDS_TO_OPEN
        opening += SECONDS_TO_OPEN
    return one.start_seconds + opening + left / several.rate


def connections_text(lanes: int) -> str:
    """Return over how many connections a forecast is, such as ``up to 4 connections each way``."""
    return "one connection each way" if lanes == 1 else f"up to {lanes} connections each way"
