"""Measures a line itself: what a raw socket finds of its round trip and its rate.

It is done before anything else is measured on a line, and printed with every result: a share of a
line can be no better than the line is known. The rate is that of the bytes that arrive after the
start, so that slow start does not count. A line that loses packets tells how many it has lost.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np

from benchmarks.links.asking import ROUND_TRIPS
from benchmarks.links.cases import Accuracy
from benchmarks.links.lines import Line
from benchmarks.links.places import opened
from benchmarks.processes import Worker

__all__ = ["measure_line", "steady_rate"]

MORE_SECONDS = 60.0


def measure_line(line: Line, seconds: float) -> Accuracy:
    """Send from the near end for ``seconds`` over a line of its own, and then from the far end.

    Raises:
        OSError: the line cannot be had on this machine.
        WorkerFailed: an end failed.
    """
    with ExitStack() as stack:
        place = stack.enter_context(opened(line))
        with place.far():
            facts = {"host": place.host, "seconds": seconds}
            far = Worker("benchmarks.links.asking:answer", facts, name="far")
        stack.enter_context(far)
        host, number = place.reach(int(far.expect("listening")["number"]))
        asking = {"host": host, "number": number, "seconds": seconds}
        with place.near():
            near = Worker("benchmarks.links.asking:ask", asking, name="near")
        stack.enter_context(near)
        limit = seconds + MORE_SECONDS + 2 * ROUND_TRIPS * line.round_trip
        trips = near.expect("round trips", timeout_seconds=limit)["seconds"]
        up, down = (
            steady_rate(end.expect("arrived", timeout_seconds=limit)["moments"])
            for end in (far, near)
        )
        said = place.finish()
        lost = [_lost(said.get(way, {})) for way in ("up", "down")]
    low, middle, high = np.quantile(np.asarray(trips), [0.1, 0.5, 0.9])
    return Accuracy(float(middle), float(high - low), up, seconds, down, *lost)


def _lost(way: dict[str, Any]) -> float | None:
    """Return the share of packets that one direction of a line has lost."""
    return way["lost"] / way["packets"] if way.get("packets") else None


def steady_rate(moments: list[tuple[float, int]]) -> float:
    """Return bits per second over the last two thirds of the time.

    Args:
        moments: seconds, and bytes that had arrived by then, in order.
    """
    start, end = moments[0][0], moments[-1][0]
    later = [each for each in moments if each[0] >= start + (end - start) / 3]
    (first_at, first), (last_at, last) = later[0], later[-1]
    return (last - first) * 8 / (last_at - first_at) if last_at > first_at else 0.0
