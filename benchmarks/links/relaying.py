"""The relay of a line, in a process of its own: in one of the ends it would share the GIL."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

from benchmarks.lanes import Link
from benchmarks.links.lines import Line, Stalls, Way
from benchmarks.relay import Direction, Relay, Step
from benchmarks.worker import Port

__all__ = ["relay", "shape"]

HOST = "127.0.0.1"


def shape(way: Way, seed: int = 0) -> Link:
    """Return a direction as the relay knows it."""
    rate = None if way.rate is None else way.rate / 8
    return Link(bandwidth=rate, delay=way.delay, jitter=way.jitter, seed=seed)


def relay(port: Port, line: dict[str, Any], number: int, with_data_port: bool) -> None:
    """Relay to a port of this machine, and answer each ``count`` with what has passed."""
    plan = Line.from_json(line)
    up, down = shape(plan.up, plan.seed), shape(plan.down, plan.seed + 1)
    with Relay(HOST, number, up=up, down=down, with_data_port=with_data_port) as lines:
        for direction, way in (("up", plan.up), ("down", plan.down)):
            if way.stalls is not None:
                _stall(way.stalls, direction, lines)  # type: ignore[arg-type]
        port.tell("listening", number=lines.port)
        while port.next_command()["event"] == "count":
            port.tell("counted", **asdict(lines.counts))


def _stall(stalls: Stalls, direction: Direction, lines: Relay) -> None:
    """Let the direction run, stand still, and so on."""

    def stop(relay: Relay) -> None:
        relay.stall(direction)
        relay.play([Step(action=run, after_seconds=stalls.seconds)])

    def run(relay: Relay) -> None:
        relay.resume(direction)
        relay.play([Step(action=stop, after_seconds=stalls.every - stalls.seconds)])

    lines.play([Step(action=partial(stop), after_seconds=stalls.every - stalls.seconds)])
