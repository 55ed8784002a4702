"""What is known of one stream, as a snapshot: for logs, progress bars and benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from streamlink.extent import Extent
from streamlink.protocol.latency import AckTimes

_NOTHING = Extent(0, 0)


class SharedStats(TypedDict):
    """What a ``StreamStats`` tells of either half in the same way."""

    chunks: int
    repairs: int
    resumes: int
    damaged: int
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
    taken_bytes: int
    chunks: int
    repairs: int
    resent_bytes: int
    resumes: int
    window_bytes: int
    chunk_bytes: int
    rate: float
    """Delivery rate seen by the sender (bytes per second)."""
    in_flight_bytes: int = 0
    """Sender: sent and not known to be received. Receiver: received and not taken."""
    ack_times: AckTimes = field(default_factory=AckTimes)
    """Sender: how long chunks took to be acknowledged."""
    stall_seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds by what limited the stream (``stalls``), up to ``stalled_at``."""
    stalled_by: str = ""
    """What limits it now; empty: nothing, it has not begun or is over."""
    stalled_at: float = 0.0
    """Since when (monotonic seconds)."""
    held_for: str = ""
    """Whom it waits for, where one end says that it waits for somebody else."""
    damaged: int = 0
    """Frames that arrived damaged and cost their call; damaged chunks are ``repairs``."""
    moving_seconds: float = 0.0
    """How long bytes were on their way (``meter``): without waits for work, others, or a call."""
    moving_bytes: int = 0
    """How many arrived in that time."""
    extent: Extent = _NOTHING
    """The bytes that travel: those of its extent that the receiver did not have from before."""

    @property
    def moved_bytes(self) -> int:
        """How many of them the receiver has, in order."""
        return max(0, self.received_bytes - self.extent.start)

    @property
    def is_all_received(self) -> bool:
        """Whether the receiver has all of a model that is not empty."""
        return self.total_bytes > 0 and self.received_bytes == self.extent.stop

    @property
    def mean_rate(self) -> float | None:
        """Bytes per second while bytes were on their way; None: too few to tell."""
        return self.moving_bytes / self.moving_seconds if self.moving_seconds > 0 else None

    def stalls(self, *, now: float) -> dict[str, float]:
        """Return the seconds by cause, with the stretch that runs up to ``now``."""
        seconds = dict(self.stall_seconds)
        if self.stalled_by:
            running = max(0.0, now - self.stalled_at)
            seconds[self.stalled_by] = seconds.get(self.stalled_by, 0.0) + running
        return seconds
