"""What the emulated line itself can do: the rate it keeps up with, and how exact its delay is.

A line that is asked for more than its forwarder carries shows the forwarder, so lines of other
programs have to stay well below. The line as fast as it goes is bounded by one core.
"""

from __future__ import annotations

from typing import Any

from benchmarks.longline.bottleneck import Line
from benchmarks.longline.meter import Span
from benchmarks.longline.namespace import why_not
from benchmarks.longline.rates import steady_rate
from benchmarks.longline.raw import Raw, measure
from benchmarks.longline.roads import EmulatedRoad
from benchmarks.processes import Worker
from benchmarks.stats import Result, summarize

__all__ = ["LINES", "round_trips", "run"]

SECONDS = 10.0
USE = Raw(4)
UNLIMITED = 40e9
LINES = (
    *(Line(rate=UNLIMITED, round_trip=0.002, mtu=mtu) for mtu in (1500, 9000, 65535)),
    *(Line(rate=1e9, round_trip=0.02, mtu=mtu) for mtu in (1500, 9000)),
    Line(rate=200e6, round_trip=0.02),
    Line(rate=200e6, round_trip=0.2),
)
COLUMNS = ("line", "MTU", "payload, Mbit/s", "packets/s", "forwarder, cores", "unread", "rtt, ms")


def run(quick: bool, seconds: float = SECONDS) -> Result:
    """Measure each line for some seconds (quick: for one)."""
    span, reason = Span.of(1.0 if quick else seconds), why_not()
    found = [] if reason else [_once(line, span) for line in LINES]
    return Result(
        name="line",
        claim=f"none; what the emulated line carries: {USE}, {span.seconds:g} s",
        columns=COLUMNS if found else COLUMNS[:1],
        rows=tuple(_row(facts) for facts in found) or ((f"not measured: {reason}",),),
        facts={"span": span.as_json(), "lines": found, "skipped": reason},
    )


def round_trips(line: Line) -> list[float]:
    """Return how long single small messages take there and back on an idle line (seconds)."""
    with EmulatedRoad(line) as road:
        with road.far():
            far = Worker("benchmarks.longline.echo:answer", {"host": road.host}, name="far")
        with far:
            facts = {"address": road.reach(far.expect("listening")["port"])}
            with road.near():
                near = Worker("benchmarks.longline.echo:ask", facts, name="near")
            with near:
                return list(near.expect("asked")["seconds"])


def _once(line: Line, span: Span) -> dict[str, Any]:
    seen = measure(USE, EmulatedRoad(line), span)
    trips = summarize(round_trips(line))
    return {
        "line": line.as_json(),
        "bytes_per_second": steady_rate(seen.marks, span),
        "seconds": seen.marks[-1][0],
        "road": seen.road,
        "round_trip_seconds": [trips.low, trips.median, trips.high],
    }


def _row(facts: dict[str, Any]) -> tuple[str, ...]:
    line, road, seconds = Line(**facts["line"]), facts["road"], facts["seconds"]
    ways = (road["up"], road["down"])
    low, median, high = (1000 * one for one in facts["round_trip_seconds"])
    return (
        "as fast as it goes" if line.rate == UNLIMITED else str(line),
        str(line.mtu),
        f"{facts['bytes_per_second'] * 8e-6:.0f}",
        f"{sum(way['packets'] for way in ways) / seconds:.0f}",
        f"{road['forwarder_cpu_seconds'] / seconds:.2f}",
        str(sum(way["unread"] for way in ways)),
        f"{median:.1f} ({low:.1f}..{high:.1f})",
    )
