"""One direction of a long line: when a packet arrives at the other end, or that it never does.

``Line`` is what a program asks for where both directions are alike, ``Long`` what all emulated
lines have, ``Bottleneck`` the state of one direction. It has no devices, and its time comes in from
outside; ``forwarder.py`` has both.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from benchmarks.links.lines import Way

__all__ = ["BURST_SECONDS", "Bottleneck", "Counts", "Line", "Long", "queue_bytes"]

BURST_SECONDS = 0.005
"""How much of an idle line's past the next packets may use: a forwarder that was not scheduled for
a moment needs it to keep the rate."""
MIN_QUEUE_PACKETS = 16


class Long(Protocol):
    """A line whose directions may differ: each has a rate."""

    @property
    def ways(self) -> tuple[Way, Way]:
        """Up, from the near end to the far one, and down."""

    @property
    def round_trip(self) -> float:
        """Seconds there and back through empty queues."""

    @property
    def mtu(self) -> int:
        """The largest IP packet (bytes)."""

    @property
    def seed(self) -> int:
        """Of losses and jitter."""


def queue_bytes(rate: float, line: Long) -> int:
    """Return the limit of one direction's queue: its bandwidth-delay product (bytes).

    Args:
        rate: of that direction (bits per second). line: which one.
    """
    return max(int(rate / 8 * line.round_trip), MIN_QUEUE_PACKETS * line.mtu)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line that is alike in both directions.

    Attributes:
        rate: bits per second, IP headers included.
        round_trip: seconds there and back through empty queues.
        loss: share of the packets that are lost at random, in each direction (0 to 1).
        mtu: size of the largest IP packet (bytes).
        seed: of the losses.
    """

    rate: float
    round_trip: float
    loss: float = 0.0
    mtu: int = 1500
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rate <= 0 or not 0 <= self.loss < 1:
            raise ValueError(f"nothing would ever pass: {self!r}")
        if self.round_trip < 0:
            raise ValueError(f"round_trip must not be negative: {self!r}")
        if not 576 <= self.mtu <= 65535:
            raise ValueError(f"IPv4 has packets of 576 to 65535 bytes: {self!r}")

    @property
    def bytes_per_second(self) -> float:
        """The rate in bytes."""
        return self.rate / 8

    @property
    def queue_bytes(self) -> int:
        """The limit of the queue in each direction (bytes)."""
        return queue_bytes(self.rate, self)

    @property
    def ways(self) -> tuple[Way, Way]:
        """See ``Long``."""
        way = Way(rate=self.rate, delay=self.round_trip / 2, loss=self.loss)
        return way, way

    def __str__(self) -> str:
        words = f"{self.rate / 1e6:g} Mbit/s, {self.round_trip * 1000:g} ms"
        return words + (f", {self.loss:.1%} loss" if self.loss else "")

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)


@dataclass(slots=True)
class Counts:
    """What has entered one direction, and what became of it (packets; bytes).

    Attributes:
        lost: at random. dropped: because the queue was full.
        most_queued_bytes: the longest queue.
    """

    packets: int = 0
    nbytes: int = 0
    lost: int = 0
    dropped: int = 0
    most_queued_bytes: int = 0

    def as_json(self) -> dict[str, int]:
        """Return the fields as a JSON object."""
        return asdict(self)


class Bottleneck:
    """The state of one direction: a tail-drop queue, a rate, then delay, jitter and losses.

    Which packets are lost depends on the seed and on how many entered before, never on time. A lost
    packet has used the line: it is lost behind the queue. While the line stands still, packets
    wait in the queue.

    Args:
        line: which one.
        direction: 0 is up, 1 is down; each has random numbers of its own.
        began_at: when it was stood up; stalls are counted from then.

    Raises:
        ValueError: the direction has no rate.
    """

    def __init__(self, line: Long, direction: int = 0, *, began_at: float = 0.0) -> None:
        way = line.ways[direction]
        if way.rate is None:
            raise ValueError(f"an emulated line needs a rate in each direction: {way}")
        self.counts = Counts()
        self._loss, self._delay, self._jitter = way.loss, way.delay, way.jitter
        self._bandwidth, self._queue_bytes = way.rate / 8, queue_bytes(way.rate, line)
        self._stalls, self._began_at = way.stalls, began_at
        self._random = random.Random(f"{line.seed}/{direction}")
        # Its own: which packets are lost must not depend on the jitter.
        self._late = random.Random(f"{line.seed}/{direction}/jitter")
        self._free_at = self._last_due_at = 0.0

    def enter(self, nbytes: int, *, now: float) -> float | None:
        """Take a packet; returns when it arrives at the other end, or None: it does not."""
        counts = self.counts
        counts.packets += 1
        counts.nbytes += nbytes
        # Drawn for each packet, so that its fate does not depend on the queue's.
        is_lost = self._loss > 0 and self._random.random() < self._loss
        late = self._late.uniform(0, self._jitter) if self._jitter else 0.0
        queued_bytes = self._moving_seconds(now) * self._bandwidth + nbytes
        if queued_bytes > self._queue_bytes:
            counts.dropped += 1
            return None
        if queued_bytes > counts.most_queued_bytes:
            counts.most_queued_bytes = int(queued_bytes)
        self._free_at = self._start_at(now) + nbytes / self._bandwidth
        if is_lost:
            counts.lost += 1
            return None
        due_at = max(self._free_at, now) + self._delay + late
        self._last_due_at = max(self._last_due_at, due_at)  # no packet overtakes another
        return self._last_due_at

    def _moving_seconds(self, now: float) -> float:
        """Return how long the queue takes from now on, stalls left out."""
        seconds = self._free_at - now
        if self._stalls is None or seconds <= 0:
            return seconds
        return seconds - (self._stalled(self._free_at) - self._stalled(now))

    def _start_at(self, now: float) -> float:
        """Return when the next packet begins to leave."""
        start_at = max(self._free_at, now - BURST_SECONDS)
        if self._stalls is not None:
            past = max(self._free_at, now) - self._began_at
            number, since = divmod(past, self._stalls.every)
            if number and since < self._stalls.seconds:
                return self._began_at + number * self._stalls.every + self._stalls.seconds
        return start_at

    def _stalled(self, at: float) -> float:
        """Return for how long the line has stood still by then (seconds)."""
        stalls = self._stalls
        if stalls is None or at <= self._began_at:
            return 0.0
        number, since = divmod(at - self._began_at, stalls.every)
        return (number - 1) * stalls.seconds + min(since, stalls.seconds) if number else 0.0
