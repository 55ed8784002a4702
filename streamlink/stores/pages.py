"""Memory for large arrays that goes back to the system when the last of them is gone.

glibc keeps much of what is freed: once one array of a few MiB was freed, it takes the next ones
from its heaps, and a heap shrinks only from its end. A program that gets a new model in each round
would hold parts of several. Memory that is mapped by itself has no neighbours that keep it.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Self

import numpy as np
import numpy.typing as npt

__all__ = ["OwnPages", "empty_bytes"]

_LEAST_BYTES = 1 << 20
"""Smaller arrays are cheap to keep, and a mapping for each would cost more than it saves."""

_HUGE_BYTES = 4 << 20


class OwnPages(mmap.mmap):
    """Anonymous memory of this process: no file is behind it."""

    def __new__(cls, nbytes: int) -> Self:
        """Return ``nbytes`` of zeros that take no memory until they are written."""
        pages = super().__new__(cls, -1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if nbytes >= _HUGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a kernel without them: only slower, as is NumPy then
                pages.madvise(mmap.MADV_HUGEPAGE)
        return pages


def empty_bytes(nbytes: int) -> npt.NDArray[np.uint8]:
    """Return a new array of bytes, with any content.

    Raises:
        MemoryError: the system has not so much memory for this process, as with ``numpy.empty``.
    """
    if nbytes < _LEAST_BYTES:
        return np.empty(nbytes, np.uint8)
    try:
        pages = OwnPages(nbytes)
    except OSError as error:
        raise MemoryError(f"{nbytes} bytes: {error}") from error
    return np.frombuffer(pages, np.uint8)
