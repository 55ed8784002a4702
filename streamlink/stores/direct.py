"""Direct I/O: past the page cache, where the system and the file system permit it.

For files that are written once, and read once, from front to back: what the page cache keeps of
them is read too late or never, costs a copy and new pages, and evicts what others read again. What
cannot go this way, such as the end of a file that is no whole page, goes through the cache as ever:
the kernel keeps the two coherent.
"""

from __future__ import annotations

import errno
import os
import weakref
from pathlib import Path

import numpy as np

from streamlink.descriptors import patiently
from streamlink.model.payloads import PAGE_BYTES
from streamlink.stores.files import close_all, read_into, write_all

__all__ = ["DirectFiles"]

_REFUSED = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOENT}


class DirectFiles:
    """Further descriptors of some files, by their number, for direct I/O."""

    def __init__(self) -> None:
        self._fds: list[int] = []
        self._places: dict[int, int] = {}  # number → descriptor
        self.close = weakref.finalize(self, close_all, self._fds)

    def add(self, number: int, path: Path, flags: int) -> None:
        """Open a file. Where the file system has no direct I/O, nothing happens.

        Nor where the name is gone: another model may have replaced one that is open.
        """
        try:
            fd = patiently(os.open, path, flags | getattr(os, "O_DIRECT", 0))
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            return
        self._fds.append(fd)
        self._places[number] = fd

    def write(self, number: int, view: memoryview, place: int) -> bool:
        """Write ``view``, and return True; False: that has to go through the cache."""
        if number not in self._places or not _is_aligned(view, place):
            return False
        try:
            write_all(self._places[number], view, place)
        except OSError as error:
            return self._refuse(number, error)
        return True

    def read_into(self, number: int, view: memoryview, place: int, path: Path) -> bool:
        """Fill ``view``, and return True; False: that has to go through the cache."""
        if number not in self._places or not _is_aligned(view, place):
            return False
        try:
            read_into(self._places[number], view, place, path)
        except OSError as error:
            return self._refuse(number, error)
        return True

    def _refuse(self, number: int, error: OSError) -> bool:
        # Some file systems open such a file, and refuse it where it is used.
        if error.errno not in _REFUSED:
            raise error
        del self._places[number]
        return False


def _is_aligned(view: memoryview, place: int) -> bool:
    address = np.frombuffer(view, np.uint8).ctypes.data
    return not (address % PAGE_BYTES or place % PAGE_BYTES or view.nbytes % PAGE_BYTES)
