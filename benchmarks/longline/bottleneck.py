"""One direction of a long line: when a packet arrives at the other end, or that it never does.

``Line`` is what a program asks for, ``Bottleneck`` the state of one direction. It has no devices,
and its time comes in from outside; ``forwarder.py`` has both.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["BURST_SECONDS", "Bottleneck", "Counts", "Line"]

BURST_SECONDS = 0.005
"""How much of an idle line's past the next packets may use: a forwarder that was not scheduled for
a moment needs it to keep the rate."""
MIN_QUEUE_PACKETS = 16


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
        """What waits at most in one direction: one bandwidth-delay product (bytes)."""
        product = int(self.bytes_per_second * self.round_trip)
        return max(product, MIN_QUEUE_PACKETS * self.mtu)

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
    """The state of one direction: a queue that drops at its tail, a rate, then a delay and losses.

    Which packets are lost depends on the seed and on how many entered before, never on time. A lost
    packet has used the line: it is lost behind the queue.

    Args:
        line: how it behaves.
        direction: a number, so that both directions of a line do not lose the same packets.
    """

    def __init__(self, line: Line, direction: int = 0) -> None:
        self.counts = Counts()
        self._loss, self._delay = line.loss, line.round_trip / 2
        self._bandwidth, self._queue_bytes = line.bytes_per_second, line.queue_bytes
        self._random = random.Random(f"{line.seed}/{direction}")
        self._free_at = 0.0

    def enter(self, nbytes: int, *, now: float) -> float | None:
        """Take a packet; returns when it arrives at the other end, or None: it does not."""
        counts = self.counts
        counts.packets += 1
        counts.nbytes += nbytes
        # Drawn for each packet, so that its fate does not depend on the queue's.
        is_lost = self._loss > 0 and self._random.random() < self._loss
        queued_bytes = (self._free_at - now) * self._bandwidth + nbytes
        if queued_bytes > self._queue_bytes:
            counts.dropped += 1
            return None
        if queued_bytes > counts.most_queued_bytes:
            counts.most_queued_bytes = int(queued_bytes)
        self._free_at = max(self._free_at, now - BURST_SECONDS) + nbytes / self._bandwidth
        if is_lost:
            counts.lost += 1
            return None
        return max(self._free_at, now) + self._delay
