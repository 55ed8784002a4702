"""What all streams of one end have moved, by peer and direction.

Counters only grow: an ended stream is added to its peer's totals and forgotten. Peers that
were not here for longest share one name once there are too many: no stranger can make this grow.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Protocol

from streamlink.clock import Clock, running_time
from streamlink.protocol.stats import CAUSES, AckTimes, StreamStats
from streamlink.transport.receive_pump import ReceivePump
from streamlink.transport.send_pump import SendPump

__all__ = ["OTHERS", "HasTraffic", "Totals", "Traffic", "TrafficCounter", "WireCount"]

OTHERS = "(others)"
"""Whose name peers share that were not here for longest."""

REMEMBERED = 64  # peers whose totals are kept beside those that may be here

MOST_ENDED = 8  # ended streams that are kept until their totals are added up

_SUMMED = ("chunks", "resumes", "repairs", "resent_bytes")


@dataclass(frozen=True, slots=True)
class Totals:
    """What the streams with one peer in one direction have moved. Bytes unless named else."""

    bytes: int = 0
    """Received, whole and in order, at the other end or here."""
    wire_bytes: int = 0
    """What brought them, as encodings left it."""
    chunks: int = 0
    resumes: int = 0
    repairs: int = 0
    damaged: int = 0
    resent_bytes: int = 0
    streams: int = 0
    """Streams that run now (count)."""
    in_flight_bytes: int = 0
    """Of those that run: sent and not received, or received and not consumed."""
    window_bytes: int = 0
    """Of those that run: what may be in flight."""
    ack_times: AckTimes = field(default_factory=AckTimes)
    stall_seconds: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0.0))

    def __add__(self, other: Totals) -> Totals:
        values = {
            each.name: getattr(self, each.name) + getattr(other, each.name)
            for each in fields(self)
            if each.name != "stall_seconds"
        }
        stalls = {name: self.stall_seconds[name] + other.stall_seconds[name] for name in CAUSES}
        return Totals(**values, stall_seconds=stalls)


class Traffic(Protocol):
    """What all streams of a server or a client have moved so far."""

    def totals(self) -> Mapping[tuple[str, str], Totals]:
        """Return the totals by peer and direction (``sent``, ``received``), from any thread."""


class HasTraffic(Protocol):
    """A server or a client: an end whose traffic can be asked for."""

    @property
    def traffic(self) -> Traffic:
        """What its streams have moved."""


class TrafficCounter:
    """The streams of one end. Any thread may add and ask.

    Args:
        most_peers: so many are remembered by name, and ``REMEMBERED`` more.
        clock: what the streams' times are measured with.
    """

    def __init__(self, most_peers: int = 1, *, clock: Clock = running_time) -> None:
        self._most = most_peers + REMEMBERED
        self._clock = clock
        self._lock = threading.Lock()
        self._ended: dict[tuple[str, str], Totals] = {}
        self._running: dict[SendPump | ReceivePump, tuple[str, str]] = {}
        self._settles_at = MOST_ENDED

    @property
    def traffic(self) -> TrafficCounter:
        """Itself: what takes an end's traffic takes this, too."""
        return self

    def begin(self, peer_name: str, pump: SendPump | ReceivePump) -> None:
        """Count a stream with ``peer`` from now on; harmless when it is counted already."""
        direction = "sent" if isinstance(pump, SendPump) else "received"
        with self._lock:
            # Ended streams are added up here, too: totals may never be read. Not on every call: a
            # round begins two streams for each client, and ``_settle`` checks all that are kept.
            if len(self._running) >= self._settles_at:
                self._settle()
            self._running.setdefault(pump, (peer_name, direction))

    def totals(self) -> dict[tuple[str, str], Totals]:
        """Return what was moved, by peer and direction (``sent`` or ``received``)."""
        with self._lock:
            self._settle()
            totals = dict(self._ended)
            now = self._clock()
            for pump, key in self._running.items():
                totals[key] = totals.get(key, Totals()) + _running(pump.stream.stats, now)
        return totals

    def _settle(self) -> None:
        """Add up the streams that are over, and let go of them."""
        now = self._clock()
        for pump in [pump for pump in self._running if pump.is_over]:
            key = self._running.pop(pump)
            ended = self._ended.pop(key, Totals())  # to the end: it was here last
            self._ended[key] = ended + _moved(pump.stream.stats, now)
        self._settles_at = len(self._running) + MOST_ENDED
        for key in self._too_many():
            other = (OTHERS, key[1])
            self._ended[other] = self._ended.get(other, Totals()) + self._ended.pop(key)

    def _too_many(self) -> Iterator[tuple[str, str]]:
        named = [key for key in self._ended if key[0] != OTHERS]
        # In the order in which their last stream ended, the earliest first.
        # Two keys for each peer, one per direction.
        yield from named[: max(0, len(named) - 2 * self._most)]


def _moved(stats: StreamStats, now: float) -> Totals:
    return Totals(
        bytes=stats.moved_bytes,
        wire_bytes=stats.wire_bytes,
        damaged=stats.damaged,
        ack_times=stats.ack_times,
        stall_seconds=dict.fromkeys(CAUSES, 0.0) | stats.stalls(now=now),
        **{name: getattr(stats, name) for name in _SUMMED},
    )


def _running(stats: StreamStats, now: float) -> Totals:
    gauges = Totals(
        streams=1, in_flight_bytes=stats.in_flight_bytes, window_bytes=stats.window_bytes
    )
    return _moved(stats, now) + gauges


class WireCount:
    """Bytes of the transfers' frames, over every carrier, both ways, since the server began."""

    def __init__(self) -> None:
        self.sent = self.received = 0
        self._lock = threading.Lock()

    def add(self, *, sent: int = 0, received: int = 0) -> None:
        """Count one message."""
        with self._lock:
            self.sent += sent
            self.received += received
