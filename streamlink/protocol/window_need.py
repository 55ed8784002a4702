"""How large a window a receiver needs, by what it delivers: on long lines, and in a shared memory.

The sender knows what it could use (``SendWindow``), and does not say it. The receiver learns the
same from its own side. *Round trip*: the first bytes leave when the stream was accepted, and bytes
behind the limit that was known before when new credit has arrived; the shortest time between the
two is the round trip (as dynamic right-sizing does it: Fisk and Feng, "Dynamic Right-Sizing in
TCP", 2001). *Rate*: what the sink consumes, so that a window never grows for a reader that is slow.
The receiver's initial window depends on neither: it is what is set.
"""

from __future__ import annotations

from collections import deque

from streamlink.config import StreamConfig
from streamlink.protocol.flow_control import QUEUE_SECONDS, window_for

__all__ = ["IDLE_SECONDS", "WindowNeed"]

IDLE_SECONDS = 1.0
"""A stream that nothing moves on for so long needs its minimum only (seconds)."""

_SAMPLES = 4


class WindowNeed:
    """What one receiving stream needs; times are monotonic seconds.

    Args:
        config: the first and the largest window.
        consumed: where the stream begins (byte).
        now: when.
    """

    def __init__(self, config: StreamConfig, *, consumed: int, now: float) -> None:
        self._config = config
        self._first = min(config.initial_window_bytes, config.longest_window_bytes)
        self.round_trip = 0.0
        """The shortest that was seen; 0: none was."""
        self._probe: tuple[int, float] | None = None
        self._rates: deque[float] = deque(maxlen=_SAMPLES)
        self._sampled = consumed, now
        self._moved_at = now
        self._needed: int | None = None  # None: not known yet; it is asked for with each chunk

    def accepted(self, received: int, *, now: float) -> None:
        """Note that a sender is told now to begin behind the bytes below ``received``."""
        # In place of what was asked over a call that is lost. A sender that has to look for its
        # first bytes makes the round trip look longer than it is; later ones correct that.
        self._probe = received, now

    def granted(self, before: int, *, now: float) -> None:
        """Note that credit beyond the limit ``before`` leaves now."""
        if self._probe is None:
            self._probe = before, now

    def arrived(self, received: int, *, now: float) -> None:
        """Note that the bytes below ``received`` are here."""
        self._moved_at = now
        if self._probe is not None and received > self._probe[0]:
            seconds = max(now - self._probe[1], 1e-6)
            self.round_trip = min(self.round_trip or seconds, seconds)
            self._probe, self._needed = None, None

    def window_bytes(self, consumed: int, *, now: float) -> int:
        """Return what the stream needs now, given what its sink has consumed; 0: it is idle."""
        self._sample(consumed, now)
        # On a long line a small window arrives in bursts, with a round trip of silence in between.
        if now - self._moved_at > max(IDLE_SECONDS, 3 * self.round_trip):
            self._rates.clear()
            self._needed = None
            return 0
        if self._needed is None:
            rate = max(self._rates, default=0.0)
            self._needed = max(self._first, window_for(self._config, rate, self.round_trip))
        return self._needed

    def _sample(self, consumed: int, now: float) -> None:
        before, at = self._sampled
        # Over a round trip at least: credit comes in bursts, and a burst is no rate.
        if now - at >= max(self.round_trip, QUEUE_SECONDS):
            self._rates.append((consumed - before) / (now - at))
            self._sampled, self._needed = (consumed, now), None
