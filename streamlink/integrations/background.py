"""Work in threads of its own, so that a framework's thread can go on looking after its clocks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Generic, TypeVar

from streamlink import CancelToken

__all__ = ["OnceEach", "begin"]

T = TypeVar("T")


def begin(work: Callable[[], T]) -> Future[T]:
    """Run ``work`` in a thread of its own, which no process waits for at its end."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # raised by ``result``, in the caller's thread
            future.set_exception(error)

    threading.Thread(target=run, name="streamlink-integration", daemon=True).start()
    return future


class OnceEach(Generic[T]):
    """Runs a work once for each name, in threads of its own. Any thread may use it.

    Args:
        work: called with a name, and the token that ``end`` cancels.
        undo: called at the end with each result, also with one that comes after that.
    """

    def __init__(self, work: Callable[[str, CancelToken], T], undo: Callable[[T], object]) -> None:
        self._work: Callable[[str, CancelToken], T] | None = work
        self._undo = undo
        self._lock = threading.Lock()
        self._begun: dict[str, Future[T]] = {}
        self._ended = CancelToken()

    def of(self, name: str) -> Future[T]:
        """Return the work of that name, which begins now unless it has before.

        Raises:
            Cancelled: ``end`` was called.
        """
        # Under the lock: ``end`` finds every work, or it does not begin.
        with self._lock:
            self._ended.check()
            if name not in self._begun and self._work is not None:
                self._begun[name] = begin(partial(self._work, name, self._ended))
            return self._begun[name]

    def end(self, reason: str) -> None:
        """Cancel the works that run, undo all others, and let go of what they work on.

        Harmless when called twice.
        """
        with self._lock:
            self._ended.cancel(reason)
            begun, self._begun, self._work = self._begun, {}, None
        for future in begun.values():
            future.add_done_callback(self._undo_one)

    def _undo_one(self, future: Future[T]) -> None:
        if future.exception() is None:
            self._undo(future.result())
