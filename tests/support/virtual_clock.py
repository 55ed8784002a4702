"""``VirtualClock``: a clock for tests, whose time passes only when it is told to, or nobody works.

As in trio's autojump clock: within ``running()`` time jumps to the next deadline as soon as every
thread waits through this clock. A thread that works, or waits elsewhere, holds time still. So an
hour of waiting takes as long as what happens in it, and ends at the same time on any machine.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from weakref import WeakSet

__all__ = ["VirtualClock"]

_POLL_SECONDS = 0.002  # of real time: a thread that ends tells nobody
_EPOCH = 1_800_000_000.0

T = TypeVar("T")


class _Sleeper:
    """One wait of one thread."""

    def __init__(self, until: float, joins: threading.Thread | None = None) -> None:
        self.thread = threading.current_thread()
        self.until = until
        self.joins = joins
        self.is_awake = self.was_notified = False
        self.gate = threading.Lock()
        self.gate.acquire()


class VirtualClock:
    """A ``Clock``: see the module.

    Args:
        at: the time at which it stands.
        longest: how far ``running`` goes (seconds); a test that waits for longer waits in vain.
    """

    read_seconds = 1.0

    def __init__(self, at: float = 1000.0, *, longest: float = 1e6) -> None:
        self.now = at
        self.missed = 0.0
        self._ends = at + longest
        self._pause = (-math.inf, 0.0)
        self._lock = threading.Lock()
        self._asleep: set[_Sleeper] = set()
        self._outsiders: set[threading.Thread] | None = None  # None: time is moved by hand
        self._insiders: WeakSet[threading.Thread] = WeakSet()
        self._owner = threading.current_thread()

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def __repr__(self) -> str:
        return f"<VirtualClock at {self.now:g}>"

    def wall(self) -> float:
        """Return the time as seconds since the epoch."""
        return _EPOCH + self.now

    def paused_since(self, time: float) -> float:
        """Return how long the last standstill was, if it ended after ``time``."""
        ended_at, seconds = self._pause
        return seconds if ended_at >= time else 0.0

    # --- what a test does with it -----------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Let time pass by hand; wakes those whose time has come, in its order."""
        until = self.now + seconds
        with self._lock:
            while (due := min((each.until for each in self._asleep), default=until)) < until:
                self._pass_to(due)
            self._pass_to(until)

    @property
    def waiting(self) -> int:
        """How many threads wait (count)."""
        with self._lock:
            return len(self._asleep)

    def stand_still(self, seconds: float) -> None:
        """Behave as the clock of a process that was stopped for so long."""
        self.missed += seconds
        self._pause = (self.now, seconds)

    @contextmanager
    def running(self) -> Iterator[VirtualClock]:
        """Let time pass by itself in this block, whenever all threads wait.

        That is, this thread and all that are started within this block or an earlier one, such as
        the thread of the timers, which outlives its timer; others do not count.
        """
        is_over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(is_over,), name="clock", daemon=True)
        self._owner = threading.current_thread()
        watcher.start()
        outsiders = {*threading.enumerate()} - {self._owner, *self._insiders}
        with self._lock:
            self._outsiders = outsiders
        try:
            yield self
        finally:
            with self._lock:  # another thread may be looking whether all wait
                self._outsiders = None
            self._insiders.update({*threading.enumerate()} - outsiders)
            is_over.set()
            watcher.join()

    # --- what threads wait on ---------------------------------------------------------

    def condition(self, lock: threading.Lock | None = None) -> threading.Condition:
        """Return a condition whose waits end at virtual times."""
        return _VirtualCondition(self, lock)

    def event(self) -> threading.Event:
        """Return an event whose waits end at virtual times."""
        return _VirtualEvent(self)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for ``event`` for at most ``seconds``; returns whether it is set."""
        return event.wait(seconds)

    def join(self, thread: threading.Thread, seconds: float | None = None) -> None:
        """Wait until ``thread`` has ended, for at most ``seconds``."""
        if thread.is_alive():
            self.sleep(_Sleeper(self.until(seconds), thread))

    def until(self, seconds: float | None) -> float:
        """Return when a wait of ``seconds`` is over; None: never."""
        return math.inf if seconds is None else self.now + seconds

    def sleep(self, sleeper: _Sleeper) -> None:
        """Block this thread until ``sleeper`` is woken."""
        with self._lock:
            if not sleeper.is_awake:
                self._asleep.add(sleeper)
                self._go_on()
        sleeper.gate.acquire()
        if self.now >= self._ends and sleeper.thread is self._owner:
            raise AssertionError(f"nothing that this thread waits for came until {self.now:g}")

    def wake(self, sleeper: _Sleeper) -> bool:
        """Wake a thread that was notified; returns whether nothing else had woken it before."""
        with self._lock:
            is_first = not sleeper.is_awake
            if is_first:
                sleeper.was_notified = True
                self._wake(sleeper)
            return is_first

    # --- how time passes; all with the lock -------------------------------------------

    def _wake(self, sleeper: _Sleeper) -> None:
        sleeper.is_awake = True
        self._asleep.discard(sleeper)
        sleeper.gate.release()

    def _pass_to(self, now: float) -> None:
        self.now = max(self.now, now)
        for sleeper in sorted(self._asleep, key=lambda each: each.until):
            if sleeper.until <= self.now or self.now >= self._ends:
                self._wake(sleeper)

    def _go_on(self) -> None:
        """Pass to the next deadline if everybody waits for one."""
        if self._outsiders is None or self._wake_joiners():
            return
        waiting = {each.thread for each in self._asleep}
        # Who joins an outsider that does not wait here waits for what takes no virtual time.
        if any(each.joins in self._outsiders - waiting for each in self._asleep):
            return
        if all(each in waiting for each in threading.enumerate() if each not in self._outsiders):
            due = min((each.until for each in self._asleep), default=self.now)
            self._pass_to(min(due, self._ends))

    def _wake_joiners(self) -> bool:
        ended = [each for each in self._asleep if each.joins and not each.joins.is_alive()]
        for sleeper in ended:
            self._wake(sleeper)
        return bool(ended)

    def _watch(self, is_over: threading.Event) -> None:
        while not is_over.wait(_POLL_SECONDS):
            with self._lock:
                self._go_on()


class _VirtualCondition(threading.Condition):
    def __init__(self, clock: VirtualClock, lock: threading.Lock | None = None) -> None:
        super().__init__(lock or threading.Lock())
        self._clock = clock
        self._sleepers: deque[_Sleeper] = deque()

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is not None and timeout <= 0:
            return False
        sleeper = _Sleeper(self._clock.until(timeout))
        self._sleepers.append(sleeper)
        self.release()
        try:
            self._clock.sleep(sleeper)
        finally:
            self.acquire()
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)
        return sleeper.was_notified

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T:
        until = self._clock.until(timeout)
        while not (result := predicate()) and (left := until - self._clock()) > 0:
            self.wait(left if left < math.inf else None)
        return result

    def notify(self, n: int = 1) -> None:
        woken = 0
        for sleeper in list(self._sleepers):
            if woken < n and self._clock.wake(sleeper):
                self._sleepers.remove(sleeper)
                woken += 1

    def notify_all(self) -> None:
        self.notify(len(self._sleepers))


class _VirtualEvent(threading.Event):
    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._changed = clock.condition()

    def set(self) -> None:
        with self._changed:
            super().set()
            self._changed.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        with self._changed:
            return self._changed.wait_for(self.is_set, timeout)
