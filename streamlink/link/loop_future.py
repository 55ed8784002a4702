"""``LoopFuture``: a future of threads that the tools of asyncio take as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, TypeVar

__all__ = ["LoopFuture"]

T = TypeVar("T")


class LoopFuture(Future[T]):
    """A ``concurrent.futures.Future`` for asyncio, too: ``await`` it, or ``asyncio.wait``."""

    def __init__(self) -> None:
        super().__init__()
        self._in_loops: list[_InLoop[T]] = []

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for it in asyncio, without blocking the loop; a cancelled task cancels it."""
        return asyncio.wrap_future(self).__await__()

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Have ``fn`` called once it is over: by the event loop that runs here, if one does."""
        try:
            # ``asyncio.wait`` adds callbacks that only the thread of its loop may run; the base
            # class runs them in the thread that ends the future.
            call = _InLoop(asyncio.get_running_loop(), fn)
        except RuntimeError:
            super().add_done_callback(fn)
            return
        self._in_loops.append(call)
        super().add_done_callback(call)

    def remove_done_callback(self, fn: Callable[[Future[T]], object]) -> int:
        """Call ``fn`` no more, where an event loop would; returns how often it was added."""
        # Not ``is``: a bound method is another object each time that it is named.
        found = [each for each in self._in_loops if each.fn == fn]
        for each in found:
            each.fn = None  # the base class keeps the entry, but no longer what it refers to
            self._in_loops.remove(each)
        return len(found)


class _InLoop(Generic[T]):
    """A callback that an event loop calls, in its own thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fn: Callable[[Future[T]], object]) -> None:
        self.fn: Callable[[Future[T]], object] | None = fn
        self._loop = loop

    def __call__(self, done: Future[T]) -> None:
        if self.fn is None:
            return
        with suppress(RuntimeError):  # the loop was closed: nobody waits there any more
            self._loop.call_soon_threadsafe(self._call, done)

    def _call(self, done: Future[T]) -> None:
        # Again: it may have been removed while it waited for its turn in the loop.
        if self.fn is not None:
            self.fn(done)
