"""Memory for payloads that no sink lends: each is used again once nobody holds a view of it."""

from __future__ import annotations

import weakref
from collections import deque

import numpy as np
import numpy.typing as npt

__all__ = ["Buffers"]

_MOST_SPARE = 8

_Bytes = npt.NDArray[np.uint8]


class Buffers:
    """Gives memory of one size at a time, which is that of nearly all chunks of a stream.

    What is in use is bounded by the stream's window: a payload comes only against credit. Fresh
    memory of this size costs more than the copy into it, since the kernel has to clear each page.
    """

    def __init__(self) -> None:
        self._nbytes = 0
        # A deque, since a view may end in any thread: its calls need no lock.
        self._spare: deque[_Bytes] = deque(maxlen=_MOST_SPARE)

    def take(self, nbytes: int) -> memoryview:
        """Return memory of this size, with any content."""
        if nbytes != self._nbytes:
            self._nbytes = nbytes
            self._spare.clear()
        base = self._spare.pop() if self._spare else np.empty(nbytes, np.uint8)
        # An array over the memory, of which all views are made: with the last of them it ends, too.
        lent = base[:]
        weakref.finalize(lent, self._give_back, base).atexit = False
        return lent.data

    def _give_back(self, base: _Bytes) -> None:
        if base.nbytes == self._nbytes:
            self._spare.append(base)
