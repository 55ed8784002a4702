"""``running_time``: the clock of every deadline. It stands still while this process does.

A process that was stopped, starved or suspended finds, when it wakes, that every deadline has
passed; but it was not its peers who were silent. So what it slept through is no time here. Whoever
reads the clock notices the gap since it was last read, before anyone can act on a deadline; a
``Ticker`` reads it five times a second, wherever there are deadlines.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

__all__ = ["PAUSE_SECONDS", "READ_SECONDS", "RunningClock", "running_time"]

READ_SECONDS = 0.2
"""A clock is read at least this often while its process runs (seconds)."""

PAUSE_SECONDS = 1.0
"""One that was not read for longer than this stood still (seconds)."""


class RunningClock:
    """Monotonic seconds without those in which this process stood still."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at = clock()
        self._missed = 0.0
        self._pause = (0.0, 0.0)

    def __call__(self) -> float:
        """Return the time."""
        # Without the lock where there was no gap: every frame at either end asks a few times.
        missed = self._missed
        now = self._clock()
        if now - self._read_at > PAUSE_SECONDS or missed != self._missed:
            return self._after_gap()
        if now > self._read_at:
            self._read_at = now
        return now - missed

    def _after_gap(self) -> float:
        with self._lock:
            now = self._clock()
            gap = now - self._read_at
            if gap > PAUSE_SECONDS:
                # Time passes even on a machine so busy that every gap is a pause.
                self._missed += gap - READ_SECONDS
                self._pause = (now - self._missed, gap)
            self._read_at = now  # last: who sees it small again has to see what was missed
            return now - self._missed

    @property
    def missed(self) -> float:
        """How long this process has stood still until the clock was last read (seconds)."""
        with self._lock:
            return self._missed

    def paused_since(self, time: float) -> float:
        """Return how long the last standstill was (seconds); 0: it was over before ``time``."""
        with self._lock:
            ended_at, seconds = self._pause
        return seconds if ended_at >= time else 0.0


running_time = RunningClock()
"""This process's own."""
