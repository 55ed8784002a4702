"""What windows of this process have beyond ``window_bytes``, on long lines: a pool of all streams.

A line of 1 Gbit/s and 200 ms holds 25 MB, more than the window of a stream. Few lines are such, so
what they need more is not reserved for each stream, but dealt from ``stream.long_bytes``, and comes
back when a stream ends. A stream that begins with more has it from here, too. Where
``stream.memory_bytes`` is set, that budget does it instead.
"""

from __future__ import annotations

import os
import threading
from weakref import WeakKeyDictionary

__all__ = ["LongWindows", "long_windows"]


class LongWindows:
    """Who has how much. Any thread may ask; its lock is the innermost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Weak: a stream that is dropped without its end must not keep what it had.
        self._dealt: WeakKeyDictionary[object, int] = WeakKeyDictionary()

    @property
    def dealt_bytes(self) -> int:
        """What all streams have together (bytes)."""
        with self._lock:
            return sum(self._dealt.values())

    def deal(self, stream: object, wanted: int, most: int) -> int:
        """Return how much ``stream`` has now (bytes): what it had, and more where there is some.

        Args:
            stream: who asks.
            wanted: what its line needs in all (bytes).
            most: what all streams may have together (bytes).
        """
        with self._lock:
            had = self._dealt.get(stream, 0)
            free = max(0, most - sum(self._dealt.values()))
            has = max(had, min(wanted, had + free))
            if has:
                self._dealt[stream] = has
            return has

    def leave(self, stream: object) -> None:
        """Take back what a stream has."""
        with self._lock:
            self._dealt.pop(stream, None)

    def forget(self) -> None:
        """Begin anew, in a process that was forked: the streams are its parent's."""
        # The lock, too: a thread of the parent may have held it.
        self._lock, self._dealt = threading.Lock(), WeakKeyDictionary()


long_windows = LongWindows()
"""This process's own."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=long_windows.forget)
