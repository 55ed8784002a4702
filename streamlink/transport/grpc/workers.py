"""``Workers``: the threads of a server's calls, for which no process waits at its end."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, TypeVar

__all__ = ["Workers"]

T = TypeVar("T")


class Workers(Executor):
    """Runs each call in a daemon thread, at most ``most`` at the same time; others wait.

    Python joins the threads of a ``ThreadPoolExecutor`` at exit, before anything else can end their
    calls: a server that was not closed would keep its process for ever. And from then on that
    executor takes no call, while a job may still run in a thread of its own.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._running = 0
        self._is_shut = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run ``fn`` now, or once another call has ended.

        Raises:
            RuntimeError: it was shut down, or no thread can be started.
        """
        done = Future[T]()
        work = partial(_run, done, partial(fn, *args, **kwargs))
        with self._lock:
            if self._is_shut:
                raise RuntimeError("this server has stopped")
            if self._running >= self._most:
                self._waiting.append(work)
                return done
            # Under the lock: where the start fails, nothing is counted.
            threading.Thread(target=self._serve, args=(work,), name=self._name, daemon=True).start()
            self._running += 1
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls, and drop those that wait; those that run are ended by the server."""
        with self._lock:
            self._is_shut = True
            self._waiting.clear()

    def _serve(self, work: Callable[[], None] | None) -> None:
        while work is not None:
            work()
            with self._lock:
                # One step under the lock: a call that comes now finds a place free, or is found
                # waiting.
                work = self._waiting.popleft() if self._waiting else None
                self._running -= work is None


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
