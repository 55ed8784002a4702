"""``start_timer``: an action after a time. One thread waits for all timers of a clock.

A server has a timer for each exchange with a ``timeout`` and for each connection that has not
proven itself. Nearly all of them are cancelled before they expire, so a thread for each is a waste.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from math import inf
from weakref import WeakValueDictionary

from streamlink.clock import Clock

__all__ = ["Timer", "start_timer"]

logger = logging.getLogger("streamlink.clock")

_IDLE_SECONDS = 2.0  # that the thread stays for the next timer: most come soon after each other


def start_timer(clock: Clock, seconds: float, action: Callable[[], object]) -> Timer:
    """Call ``action`` after ``seconds``, in a thread of its own, unless it is cancelled before.

    Time in which this process stood still does not count.

    Args:
        clock: what the time goes by.
        seconds: how long; infinity is never.
        action: is called once. It may wait: it holds up no other timer.

    Raises:
        RuntimeError: there is no thread to wait for it.
    """
    with _making:
        timers = _of_clocks.get(id(clock)) or _Timers(clock)
        _of_clocks[id(clock)] = timers
    return timers.start(seconds, action)


class Timer:
    """One action that is still to come."""

    def __init__(self, timers: _Timers, due_at: float, action: Callable[[], object]) -> None:
        self._timers, self._action = timers, action
        self.due_at = due_at

    def cancel(self) -> None:
        """Have it not called, unless that has begun; harmless afterwards."""
        self._timers.forget(self)

    def act(self) -> None:
        """Call the action in a thread of its own."""
        try:
            threading.Thread(target=self._run, name="timer", daemon=True).start()
        except RuntimeError:  # no thread is left: a late timer is better than one that is lost
            self._run()

    def _run(self) -> None:
        try:
            self._action()
        except Exception:
            logger.exception("what a timer was for has failed")


class _Timers:
    """Those of one clock, and the thread that waits for them while there are any."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._changed = clock.condition(self._lock)
        self._timers: set[Timer] = set()
        self._looks_at = inf
        self._has_thread = False

    def start(self, seconds: float, action: Callable[[], object]) -> Timer:
        """See ``start_timer``."""
        timer = Timer(self, self._clock() + seconds, action)
        with self._lock:
            if not self._has_thread:  # where the start fails, nothing is noted
                threading.Thread(target=self._run, name="timers", daemon=True).start()
                self._has_thread = True
            self._timers.add(timer)
            if timer.due_at < self._looks_at:
                self._changed.notify()
        return timer

    def forget(self, timer: Timer) -> None:
        """Drop a timer."""
        with self._lock:
            self._timers.discard(timer)

    def _run(self) -> None:
        while (due := self._next()) is not None:
            while due:  # none is kept: what they refer to must not wait with this thread
                due.pop(0).act()

    def _next(self) -> list[Timer] | None:
        """Wait; return the timers that have expired by then. None: no timer is left."""
        with self._lock:
            now = self._clock()
            if not self._timers:
                self._looks_at = inf
                self._changed.wait_for(lambda: self._timers, _IDLE_SECONDS)
            elif (due_at := min(each.due_at for each in self._timers)) > now:
                # In steps: where no ticker reads the clock, a longer wait would look like a
                # standstill of this process.
                self._looks_at = min(due_at, now + self._clock.read_seconds)
                self._changed.wait(self._looks_at - now)
            now = self._clock()
            due = sorted((each for each in self._timers if each.due_at <= now), key=_due_at)
            self._timers.difference_update(due)
            # In one step under the lock: a timer that comes now finds the thread, or starts one.
            self._has_thread = bool(due or self._timers)
            return due if self._has_thread else None


def _due_at(timer: Timer) -> float:
    return timer.due_at


_making = threading.Lock()
# By the id of the clock, which they keep; they are gone once no thread and no timer keeps them.
_of_clocks: WeakValueDictionary[int, _Timers] = WeakValueDictionary()
