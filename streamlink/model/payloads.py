"""Helpers for payloads, which sources and sinks share: split, join, view as bytes, pool buffers."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink.model.interfaces import Payload

__all__ = ["PAGE_BYTES", "BufferPool", "PayloadReader", "aligned", "as_bytes_view", "join"]

Bytes = npt.NDArray[np.uint8]

PAGE_BYTES = 4096
"""What direct I/O needs memory, places in a file and lengths to be multiples of (bytes)."""


class PayloadReader:
    """Reads a payload's views in pieces of the sizes that the caller wants."""

    def __init__(self, payload: Payload) -> None:
        self._views = iter(payload)
        self._view = memoryview(b"")
        self._position = 0

    def take(self, length: int) -> memoryview:
        """Return the next ``length`` bytes: a view if one view holds them all, else a copy.

        Raises:
            ValueError: fewer bytes are left.
        """
        if self._position + length > self._view.nbytes:
            return self._take_across(length)
        start = self._position
        self._position = start + length
        return self._view[start : start + length]

    def _take_across(self, length: int) -> memoryview:
        if self._position == self._view.nbytes:
            self._view, self._position = self._next_view(), 0
            return self.take(length)
        joined = np.empty(length, np.uint8)
        filled = 0
        while filled < length:
            if self._position == self._view.nbytes:
                self._view, self._position = self._next_view(), 0
            step = min(length - filled, self._view.nbytes - self._position)
            joined[filled : filled + step] = self._view[self._position : self._position + step]
            filled += step
            self._position += step
        return joined.data

    def _next_view(self) -> memoryview:
        view = next(self._views, None)
        if view is None:
            raise ValueError("the payload has fewer bytes than were requested")
        return view


class BufferPool:
    """A pool of byte buffers; each returns to it when the last view of it is garbage.

    Fresh memory costs more than filling it: the kernel must clear every page (page faults). A
    source's views stay valid as long as anyone holds them, so no caller can return them explicitly;
    a weak reference reports when the last view is gone.

    Args:
        idle_bytes: how many bytes may lie idle; beyond that the oldest buffers are freed.
    """

    def __init__(self, idle_bytes: int) -> None:
        self._idle_bytes = idle_bytes
        self._idle: list[Bytes] = []
        self._lent: dict[int, tuple[weakref.ref[Bytes], Bytes]] = {}
        # Re-entrant: a garbage collection inside ``take`` may call ``_give_back`` on this thread.
        self._lock = threading.RLock()

    def take(self, length: int) -> memoryview:
        """Return a writable view of ``length`` bytes, content unspecified."""
        buffer = self._find(length)
        # The weak reference must die with the last memoryview. A memoryview keeps the array alive
        # that it was made from, and that array is this new view: nothing else refers to it.
        lent = buffer[:length]
        key = id(lent)
        with self._lock:
            self._lent[key] = weakref.ref(lent, lambda _: self._give_back(key)), buffer
        return lent.data

    def _find(self, length: int) -> Bytes:
        with self._lock:
            for position in reversed(range(len(self._idle))):  # LIFO: the most likely in cache
                # At most twice the length: a small read must not hold a large buffer that the next
                # one needs.
                if length <= self._idle[position].nbytes <= 2 * length:
                    return self._idle.pop(position)
        return aligned(length)

    def _give_back(self, key: int) -> None:
        with self._lock:
            _, buffer = self._lent.pop(key)
            self._idle.append(buffer)
            while sum(idle.nbytes for idle in self._idle) > self._idle_bytes:
                self._idle.pop(0)


def aligned(length: int) -> Bytes:
    """Return ``length`` bytes that begin with a page of memory, content unspecified."""
    room = np.empty(length + PAGE_BYTES, np.uint8)
    start = -room.ctypes.data % PAGE_BYTES
    return room[start : start + length]


def join(payload: Payload) -> memoryview:
    """Return the payload as one view, without a copy if it has one view only."""
    if len(payload) == 1:
        return payload[0]
    return memoryview(b"".join(payload))


def as_bytes_view(array: npt.NDArray[Any]) -> memoryview:
    """Return a C-contiguous array of any supported dtype as flat bytes, without a copy."""
    # ``reshape`` first: a 0-d array cannot be viewed with another item size.
    return array.reshape(-1).view(np.uint8).data
