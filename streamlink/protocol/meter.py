"""How many bytes a stream moved, and in how many seconds of moving them: what its mean rate is.

A rate over the whole life of a stream says little of the link: most of that life may be a client's
training, a wait for the slowest, or a broken connection. A sender knows when its bytes are on their
way, and counts just that time (``SendMeter``). A receiver sees arrivals only. It counts the time
from one to the next, unless it knows that the sender could not send meanwhile (``ReceiveMeter``).
"""

from __future__ import annotations

PAUSE_SECONDS = 1.0
"""A longer wait for the next chunk is more likely the sender's work than the link (seconds)."""


class SendMeter:
    """Counts the time in which sent bytes were not yet received."""

    __slots__ = ("_at", "_was_moving", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        """Up to the last ``note``."""
        self._was_moving = False
        self._at = 0.0

    def note(self, is_moving: bool, *, now: float) -> None:
        """Note whether bytes are on their way from ``now`` on."""
        if self._was_moving:
            self.seconds += now - self._at
        self._was_moving, self._at = is_moving, now


class ReceiveMeter:
    """Counts the time from one arrival to the next while the sender may send.

    The first arrival only starts the clock: what came before it was the sender's work. Of a later
    wait that is longer than ``PAUSE_SECONDS`` a receiver cannot tell whether the link or the
    sender's work was slow, so these are counted apart. They are taken for the sender's work and are
    left out, unless most bytes came after such a wait: then that is how fast it goes.
    """

    __slots__ = ("_at", "_has_arrived", "_long", "_short")

    def __init__(self) -> None:
        self._at: float | None = None  # None: the sender may not send, or waits for somebody
        self._has_arrived = False
        self._short, self._long = (0.0, 0), (0.0, 0)  # seconds and bytes

    def may_arrive(self, may: bool, *, now: float) -> None:
        """Note whether it is the sender's turn, on a call, from ``now`` on."""
        if not may:
            self._at = None
        elif self._at is None:
            self._at = now

    def excuse(self) -> None:
        """Leave out the wait for the next arrival: the sender has said that it cannot send."""
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
    def moved(self) -> tuple[float, int]:
        """The seconds that count, and the bytes that arrived in them."""
        (short_seconds, short_bytes), (long_seconds, long_bytes) = self._short, self._long
        if long_bytes <= short_bytes:
            return self._short
        return short_seconds + long_seconds, short_bytes + long_bytes
