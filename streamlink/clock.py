"""``Clock``: the time of one process, and all that waits for it.

Whatever has a deadline or waits is given a ``Clock``, made at the public edge. It is called for the
time, and it makes the conditions and events that threads wait on: so a test can replace it by one
whose time is virtual, and a round that waits for an hour takes no time.

``running_time`` is the clock of every process. It stands still while the process does: a process
that was stopped, starved or suspended finds, when it wakes, that every deadline has passed; but it
was not its peers who were silent. So what it slept through is no time here. Whoever reads the clock
notices the gap since it was last read, before anyone can act on a deadline; a ``Ticker`` reads it
five times a second, wherever there are deadlines.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

__all__ = [
    "PAUSE_SECONDS",
    "READ_SECONDS",
    "Clock",
    "RunningClock",
    "running_time",
]

READ_SECONDS = 0.2
"""A clock is read at least this often while its process runs (seconds)."""

PAUSE_SECONDS = 1.0
"""One that was not read for longer than this stood still (seconds)."""


class Clock(Protocol):
    """The time, and what threads wait on. Any thread may use it."""

    @property
    def read_seconds(self) -> float:
        """How often it has to be read while there are deadlines (seconds)."""

    @property
    def missed(self) -> float:
        """How long this process has stood still until the clock was last read (seconds)."""

    def __call__(self) -> float:
        """Return monotonic seconds, without those in which this process stood still."""

    def paused_since(self, time: float) -> float:
        """Return how long the last standstill was (seconds); 0: it was over before ``time``."""

    def wall(self) -> float:
        """Return seconds since the epoch: for records that people read, never for a deadline."""

    def condition(self, lock: threading.Lock | None = None) -> threading.Condition:
        """Return a condition over ``lock``, or over a lock of its own."""

    def event(self) -> threading.Event:
        """Return an event that is not set."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for ``event`` as it does by itself, and keep the clock read meanwhile.

        For waits between connections, when no ``Ticker`` reads the clock.
        """

    def join(self, thread: threading.Thread, seconds: float | None = None) -> None:
        """Wait until ``thread`` has ended, for at most ``seconds``."""


class RunningClock:
    """A ``Clock`` that does not count the time in which this process stood still.

    Its conditions and events are those of ``threading``: waiting costs what it costs there.
    """

    read_seconds = READ_SECONDS

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

    def wall(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    def condition(self, lock: threading.Lock | None = None) -> threading.Condition:
        """Return a condition over ``lock``, or over a lock of its own."""
        return threading.Condition(lock)

    def event(self) -> threading.Event:
        """Return an event that is not set."""
        return threading.Event()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for ``event`` for at most ``seconds``; returns whether it is set."""
        until = self() + seconds
        while (left := until - self()) > 0 and not event.is_set():
            event.wait(min(left, READ_SECONDS))
        return event.is_set()

    def join(self, thread: threading.Thread, seconds: float | None = None) -> None:
        """Wait until ``thread`` has ended, for at most ``seconds``."""
        thread.join(seconds)


running_time = RunningClock()
"""This process's own."""
