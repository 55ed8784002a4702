"""What is measured of one stream: its snapshot, ack latency, what limited it, and its mean rate.

Nothing here decides anything: ``flow_control`` has its own rate. All figures are kept as sums and
counts, so that they can be added up over streams and compared between two moments.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from streamlink.extent import Extent

# --- ack latency ---------------------------------------------------------------------

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper ends of the buckets (seconds); one more bucket has what took longer.

Fixed, so that the counts of several streams and processes add up, as in a Prometheus histogram.
"""


@dataclass(frozen=True, slots=True)
class AckTimes:
    """A histogram of how long chunks took to be acknowledged."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    """How many were in each bucket; the last bucket has no upper bound."""
    seconds: float = 0.0
    """The sum of all (seconds)."""

    def __add__(self, other: AckTimes) -> AckTimes:
        pairs = zip(self.counts, other.counts, strict=True)
        return AckTimes(tuple(a + b for a, b in pairs), self.seconds + other.seconds)


class AckLatency:
    """Collects the times between sending a byte and learning that it arrived."""

    __slots__ = ("_counts", "_seconds")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one acknowledgement."""
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self._seconds += seconds

    @property
    def mean(self) -> float:
        """The mean of all so far (seconds); 0.0: nothing was measured."""
        return self._seconds / max(1, sum(self._counts))

    def so_far(self) -> AckTimes:
        """Return what was measured so far."""
        return AckTimes(tuple(self._counts), self._seconds)


# --- the snapshot ------------------------------------------------------------------

_NO_BYTES = Extent(0, 0)


class SharedStats(TypedDict):
    """The fields of a ``StreamStats`` that both halves fill in the same way."""

    chunks: int
    repairs: int
    resumes: int
    damaged: int
    carrier: str
    stall_seconds: Mapping[str, float]
    stalled_by: str
    stalled_at: float
    held_for: str


@dataclass(frozen=True, slots=True)
class StreamStats:
    """A snapshot of one stream for logs, progress bars and benchmarks. Bytes unless named else."""

    total_bytes: int
    sent_bytes: int
    received_bytes: int
    consumed_bytes: int
    chunks: int
    repairs: int
    resent_bytes: int
    resumes: int
    window_bytes: int
    chunk_bytes: int
    rate: float
    """Delivery rate measured by the sender (bytes on the wire per second)."""
    in_flight_bytes: int = 0
    """Sender: sent and not known to be received. Receiver: received and not consumed."""
    ack_times: AckTimes = field(default_factory=AckTimes)
    """Sender: how long chunks took to be acknowledged."""
    stall_seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds by what limited the stream (``Stalls``), up to ``stalled_at``."""
    stalled_by: str = ""
    """What limits it now; empty: nothing, it has not begun or has ended."""
    stalled_at: float = 0.0
    """Since when (monotonic seconds)."""
    held_for: str = ""
    """Whom it waits for, where either end has reported that it waits for a third party."""
    damaged: int = 0
    """Frames that arrived damaged and cost their call; damaged chunks count as ``repairs``."""
    carrier: str = ""
    """What carries it, or did last, such as ``grpc`` or ``tcp``."""
    moving_seconds: float = 0.0
    """How long bytes were in flight, without waits for work, others, or a call."""
    moving_bytes: int = 0
    """How many arrived in that time, counted on the wire."""
    saved_bytes: int = 0
    """How many did not travel, because chunks were encoded."""
    wasted_bytes: int = 0
    """Receiver: payload that arrived and was not used, because it was here already or damaged."""
    extent: Extent = _NO_BYTES
    """The bytes that travel: those of its extent that the receiver did not have from before."""

    @property
    def moved_bytes(self) -> int:
        """How many of them the receiver has, in order."""
        return max(0, self.received_bytes - self.extent.start)

    @property
    def wire_bytes(self) -> int:
        """How many bytes of payload brought ``moved_bytes``; each chunk counts once."""
        return self.moved_bytes - self.saved_bytes

    @property
    def is_all_received(self) -> bool:
        """Whether the receiver has all of a model that is not empty."""
        return self.total_bytes > 0 and self.received_bytes == self.extent.stop

    @property
    def mean_rate(self) -> float | None:
        """Bytes per second while bytes were in flight; None: too few to measure."""
        return self.moving_bytes / self.moving_seconds if self.moving_seconds > 0 else None

    def stalls(self, *, now: float) -> dict[str, float]:
        """Return the seconds by cause, including the running interval up to ``now``."""
        seconds = dict(self.stall_seconds)
        # The interval that runs is not in the sums yet, and may be the longest of all.
        if self.stalled_by:
            running = max(0.0, now - self.stalled_at)
            seconds[self.stalled_by] = seconds.get(self.stalled_by, 0.0) + running
        return seconds


# --- what limits a stream --------------------------------------------------------------------

NETWORK, CREDIT, READER, HELD, LIMIT = "network", "credit", "reader", "held", "limit"
"""The causes. A stream is limited by exactly one of them at any moment.

    network   bytes are in flight, or there is no call: the link, or a peer that sends nothing
    credit    a sender's: the receiver has what was sent and does not consume or commit it
    reader    our own upper layer: a sender's source gives no bytes, a receiver's sink takes none
    held      a third party is waited for, by this end or, as it reports, by the other
    limit     the bandwidth limit of this process lets nothing more travel yet
"""

CAUSES = (NETWORK, CREDIT, READER, HELD, LIMIT)

NOTHING = ""
"""The cause of a stream that has not begun, or has ended."""


class Stalls:
    """Seconds by cause, as intervals: the machines report their cause whenever they change.

    Only a change of the cause costs arithmetic, so a stream at full speed pays one comparison.
    """

    __slots__ = ("_seconds", "cause", "since")

    def __init__(self) -> None:
        self.cause = NOTHING
        self.since = 0.0
        """When the running interval began (monotonic seconds)."""
        self._seconds = dict.fromkeys(CAUSES, 0.0)

    def switch_to(self, cause: str, *, now: float) -> None:
        """Note that from ``now`` on it is ``cause`` that limits the stream."""
        if self.cause:
            self._seconds[self.cause] += now - self.since
        self.cause, self.since = cause, now

    def reattribute(self, cause: str, *, instead_of: str) -> None:
        """Count the running interval as ``cause``, where it was ``instead_of``.

        A cause may be known only after its interval began: a peer reports that it is held by a
        third party some seconds after it stopped.
        """
        if self.cause == instead_of:
            self.cause = cause

    def finished(self) -> dict[str, float]:
        """Return the seconds of all finished intervals, by cause."""
        return dict(self._seconds)


# --- mean rate ---------------------------------------------------------------------------

PAUSE_SECONDS = 1.0
"""A longer wait for the next chunk is more likely the sender's work than the link (seconds)."""


class SendMeter:
    """Counts the time that the mean rate is over: sent bytes were in flight, or a limit waited for.

    A rate over the whole life of a stream says little of the link: most of that life may be a
    client's training, a wait for the slowest client, or a broken connection.
    """

    __slots__ = ("_at", "_counted_to", "_was_in_flight", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        """Up to the last ``update``."""
        self._was_in_flight = False
        self._at = self._counted_to = 0.0

    def update(self, is_in_flight: bool, *, now: float) -> None:
        """Note whether bytes are in flight from ``now`` on, or this end's limit is waited for."""
        if self._was_in_flight:
            self.seconds += now - self._at
            self._counted_to = now
        self._was_in_flight, self._at = is_in_flight, now

    def add_wait(self, since: float, *, now: float) -> None:
        """Count the time until ``now``, too: it was a wait for the other end's bandwidth limit."""
        if not self._was_in_flight:
            self.seconds += now - max(since, self._counted_to)
            self._counted_to = now


class ReceiveMeter:
    """Counts the time from one arrival to the next while the sender may send.

    A receiver sees arrivals only. The first one just starts the clock: what came before it was the
    sender's work. Of a later wait that is longer than ``PAUSE_SECONDS`` a receiver cannot know
    whether the link or the sender's work was slow, so these waits are counted apart. They count as
    the sender's work and are left out, unless most bytes came after such a wait: then the link is
    that slow.
    """

    __slots__ = ("_at", "_has_arrived", "_long", "_short")

    def __init__(self) -> None:
        self._at: float | None = None  # None: the sender may not send, or waits for a third party
        self._has_arrived = False
        self._short, self._long = (0.0, 0), (0.0, 0)  # seconds and bytes

    def set_running(self, is_running: bool, *, now: float) -> None:
        """Note whether the sender may send, and has a call for it, from ``now`` on."""
        if not is_running:
            self._at = None
        elif self._at is None:
            self._at = now

    def skip_wait(self) -> None:
        """Leave out the wait for the next arrival: the sender has reported that it cannot send."""
        self._at = None

    def arrived(self, nbytes: int, *, now: float) -> None:
        """Count ``nbytes`` that have just arrived."""
        if self._at is not None and self._has_arrived:
            wait = now - self._at
            if wait > PAUSE_SECONDS:
                self._long = self._long[0] + wait, self._long[1] + nbytes
            else:
                self._short = self._short[0] + wait, self._short[1] + nbytes
        self._has_arrived = True
        self._at = now

    @property
    def measured(self) -> tuple[float, int]:
        """The seconds that count, and the bytes that arrived in them."""
        (short_seconds, short_bytes), (long_seconds, long_bytes) = self._short, self._long
        # A link slower than a chunk a second has nothing but long waits: then they are the link.
        if long_bytes <= short_bytes:
            return self._short
        return short_seconds + long_seconds, short_bytes + long_bytes
