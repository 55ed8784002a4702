"""Calls that have not said who they are: only so many, and the oldest makes room for the next.

A call that is open keeps a worker thread, and anybody can open one. One that says its first word at
once is never here for long; those that say nothing cost each other their places, and nobody else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["HandshakeLimit"]


class HandshakeLimit:
    """Keeps at most ``most`` calls."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._waiting: dict[object, Callable[[], object]] = {}

    def __len__(self) -> int:
        with self._lock:
            return len(self._waiting)

    @contextmanager
    def waiting(self, cut: Callable[[], object]) -> Iterator[None]:
        """Note a call for as long as it has said nothing.

        Args:
            cut: ends it, should it be the oldest when there are too many.
        """
        place = object()
        with self._lock:
            self._waiting[place] = cut
            oldest = next(iter(self._waiting))
            pushed_out = self._waiting.pop(oldest) if len(self._waiting) > self._most else None
        if pushed_out is not None:
            pushed_out()
        try:
            yield
        finally:
            with self._lock:
                self._waiting.pop(place, None)
