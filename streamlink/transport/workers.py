"""``Workers``: threads for a server's work, for which no process waits at its end.

``Serial`` is one piece of work that they do again and again, never two of them at the same time:
what else would keep a thread of its own waiting, such as the events of a session.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from streamlink.clock import Clock
from streamlink.timers import start_timer

__all__ = ["QUICK", "STUCK_SECONDS", "Serial", "Workers"]

logger = logging.getLogger("streamlink.transport")

T = TypeVar("T")

QUICK = 8
"""Threads that work at the same time, as long as none of them waits for long (count)."""

STUCK_SECONDS = 0.1
"""Queued work gets one more thread when no thread has taken any for this long (seconds)."""

_IDLE_THREADS = 4  # that wait for the next work: to start one costs more than most work does
_IDLE_SECONDS = 2.0


class Workers(Executor):
    """An executor of daemon threads: ``QUICK`` run at the same time, more only while those block.

    Most calls of a server are short, and a thousand may arrive at once: with a thread for each they
    would only contend for the interpreter. But some calls block, for example on a slow client, and
    must not delay the others. So a call that lasts enters ``aside`` and no longer counts; and when
    no call was taken from the queue for ``STUCK_SECONDS``, one more thread is started.

    Python joins the threads of a ``ThreadPoolExecutor`` at exit, before anything else can end their
    calls: a server that was not closed would keep its process for ever. And from then on that
    executor takes no call, while a job may still run in a thread of its own.

    One thread stays until the end, once there was one. So what is submitted is done, if later, also
    where the system has no other, as none has while Python exits.

    Args:
        most: threads in all (count).
        name: of the threads.
        clock: what its waits go by.
    """

    def __init__(self, most: int, name: str, clock: Clock) -> None:
        self._most, self._name, self._clock = most, name, clock
        self._lock = threading.Lock()
        self._has_work = clock.condition(self._lock)
        self._waiting: deque[Callable[[], None]] = deque()
        self._threads = self._idle = self._aside = 0
        self._taken_at = clock()
        self._is_watched = self._is_shut = self._is_retired = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run ``fn`` now, or once another call has ended.

        Raises:
            RuntimeError: it was shut down, or no thread can be started and there is none.
        """
        done = Future[T]()
        work = partial(_run, done, partial(fn, *args, **kwargs))
        with self._lock:
            if self._is_shut:
                raise RuntimeError("this server has stopped")
            self._waiting.append(work)
            try:
                self._have_it_done()
            except RuntimeError:
                if not self._threads:
                    self._waiting.pop()
                    raise
            self._has_work.notify()
        return done

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Do not count this thread among the ``QUICK`` while its call lasts; the call enters it."""
        with self._lock:
            self._aside += 1
            if self._waiting:
                with suppress(RuntimeError):
                    self._have_it_done()
        try:
            yield
        finally:
            with self._lock:
                self._aside -= 1

    def start(self) -> None:
        """Start the thread that stays.

        Raises:
            RuntimeError: the system has none.
        """
        with self._lock:
            self._begin()

    def retire(self) -> None:
        """Let the threads go soon if nothing more comes; work is still taken and done."""
        with self._lock:
            self._is_retired = True
            self._has_work.notify_all()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls, and drop those that wait; those that run are ended by the server."""
        with self._lock:
            self._is_shut = True
            self._waiting.clear()
            self._has_work.notify_all()

    def _have_it_done(self) -> None:
        """Make sure that a thread takes the queued work; the caller holds the lock.

        Raises:
            RuntimeError: no thread can be started.
        """
        # Each idle thread takes one; what waits for them already is not theirs to take again.
        if len(self._waiting) <= self._idle or self._threads >= self._most:
            return
        if self._threads - self._aside < QUICK:
            self._begin()
        elif not self._is_watched:
            start_timer(self._clock, STUCK_SECONDS, self._look_if_stuck)
            self._is_watched = True

    def _look_if_stuck(self) -> None:
        with self._lock:
            self._is_watched = False
            has_room = len(self._waiting) > self._idle and self._threads < self._most
            is_stuck = self._clock() - self._taken_at >= STUCK_SECONDS
            with suppress(RuntimeError):  # the next look tries again
                if has_room and is_stuck:
                    self._begin()
                    self._taken_at = self._clock()
            with suppress(RuntimeError):  # without a timer the next submit looks again
                self._have_it_done()

    def _begin(self) -> None:
        # Under the lock: where the start fails, nothing is counted.
        threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        self._threads += 1

    def _serve(self) -> None:
        while True:
            with self._lock:
                work = self._next()
                # In one step under the lock: a call that comes now finds a place free, or a thread.
                self._threads -= work is None
            if work is None:
                return
            work()
            work = None  # what it refers to must not wait with this thread

    def _next(self) -> Callable[[], None] | None:
        """Return what waits, or comes soon; with the lock."""
        if not self._waiting and not self._is_shut and self._idle < _IDLE_THREADS:
            self._idle += 1
            self._has_work.wait_for(lambda: self._waiting or self._is_shut, _IDLE_SECONDS)
            self._has_work.wait_for(lambda: self._waiting or not self._is_last)
            self._idle -= 1
        if not self._waiting:
            return None
        self._taken_at = self._clock()
        return self._waiting.popleft()

    @property
    def _is_last(self) -> bool:
        """Whether the thread that asks is the one that stays."""
        return self._threads == 1 and not self._is_shut and not self._is_retired


class Serial:
    """Work that ``workers`` do whenever it was asked for, one at a time.

    Args:
        workers: whose threads do it.
        work: does all that there is to do, and returns.
    """

    def __init__(self, workers: Executor, work: Callable[[], object]) -> None:
        self._workers, self._work = workers, work
        self._lock = threading.Lock()
        self._is_due = self._is_running = False

    def wake(self) -> None:
        """Have it done soon; after this there is a look at all that was there before. Never waits.

        Any thread may call it, with locks that the work itself takes.
        """
        with self._lock:
            self._is_due = True
            if self._is_running:
                return
            self._is_running = True
        try:
            self._workers.submit(self._run)
        except RuntimeError as error:
            # No thread is left, and none was there. It stays due, and the next wake tries again.
            with self._lock:
                self._is_running = False
            logger.warning("work of a session has to wait: %s", error)

    def _run(self) -> None:
        while self._is_still_due():
            try:
                self._work()
            except BaseException:  # a handler may raise what ends a thread; this work goes on
                logger.exception("work of a session failed")

    def _is_still_due(self) -> bool:
        with self._lock:
            is_due, self._is_due = self._is_due, False
            self._is_running = is_due
            return is_due


def _run(done: Future[T], call: Callable[[], T]) -> None:
    # False: it was cancelled while it waited, and nobody reads its result.
    if not done.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        done.set_exception(error)
    else:
        done.set_result(result)
