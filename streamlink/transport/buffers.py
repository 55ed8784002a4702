"""Memory for payloads that no sink lends: each is used again once nobody holds a view of it."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from contextlib import suppress
from math import inf

import numpy as np
import numpy.typing as npt

__all__ = ["Buffers"]

_MOST_SPARE = 8

_Bytes = npt.NDArray[np.uint8]


class Buffers:
    """Gives memory of one size at a time, which is that of nearly all chunks of a stream.

    What is in use is bounded by the stream's window: a payload comes only against credit. Fresh
    memory of this size costs more than the copy into it, since the kernel has to clear each page.

    The calls of a stream share one: what is spare after one has read may be what another needs, and
    so all of them together keep no more than a window.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # of those who take
        self._nbytes = 0
        self._most_bytes = inf
        self._is_closed = False
        # A deque, since a view may end in any thread, even in one that holds the lock: its calls
        # need none.
        self._spare: deque[_Bytes] = deque(maxlen=_MOST_SPARE)

    def take(self, nbytes: int) -> memoryview:
        """Return memory of this size, with any content."""
        with self._lock:
            if nbytes != self._nbytes:
                self._nbytes = nbytes
                self._spare.clear()
            spare = self._pop()
        if spare is None or spare.nbytes != nbytes:  # given back just as the size changed
            spare = np.empty(nbytes, np.uint8)
        # An array over the memory, of which all views are made: with the last of them it ends, too.
        lent = spare[:]
        weakref.finalize(lent, self._give_back, spare).atexit = False
        return lent.data

    def keep(self, most_bytes: float) -> None:
        """Keep no more than that for later (bytes), from now on."""
        self._most_bytes = most_bytes
        while len(self._spare) * self._nbytes > most_bytes and self._pop() is not None:
            pass

    def close(self) -> None:
        """Keep nothing from now on; what is taken stays as it is."""
        self._is_closed = True
        self._spare.clear()

    def _pop(self) -> _Bytes | None:
        with suppress(IndexError):  # not looked at before: ``keep`` may take the last one
            return self._spare.pop()
        return None

    def _give_back(self, base: _Bytes) -> None:
        is_kept = (len(self._spare) + 1) * base.nbytes <= self._most_bytes
        if base.nbytes == self._nbytes and is_kept and not self._is_closed:
            self._spare.append(base)
