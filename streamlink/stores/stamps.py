"""What an open file is known by, so that a change under its reader is noticed.

A write that the clock of the file system cannot tell from the one before it (they are a few
milliseconds apart), or one through a map that has not been written back, leaves size and time as
they were: only stored digests tell those.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from streamlink.errors import SourceChanged

__all__ = ["Stamp"]


@dataclass(frozen=True, slots=True)
class Stamp:
    """One open file as it was at some moment. Make it with ``Stamp.of``."""

    device: int
    inode: int
    nbytes: int
    mtime_ns: int

    @classmethod
    def of(cls, fd: int) -> Stamp:
        """Return what the open file is now."""
        return cls._from(os.fstat(fd))

    def require_same(self, fd: int, path: Path, *, tensor: str = "", inside: int = -1) -> None:
        """Compare the open file with what it was.

        Raises:
            SourceChanged: its size or its time of change is another one.
        """
        now = Stamp.of(fd)
        if now.nbytes != self.nbytes:
            what = f"the file changed from {self.nbytes} to {now.nbytes} bytes while it was read"
        elif now != self:
            what = "the file was written to while it was read"
        else:
            return
        raise SourceChanged(what, path=str(path), tensor=tensor, inside=inside)

    def require_there(self, path: Path) -> None:
        """Raise ``SourceChanged`` where another file has taken the name; a removed one is none."""
        try:
            now = self._from(os.stat(path))
        except FileNotFoundError:
            return
        if (now.device, now.inode) != (self.device, self.inode):
            what = "another file took the place of this one while it was read"
            raise SourceChanged(what, path=str(path))

    @classmethod
    def _from(cls, status: os.stat_result) -> Stamp:
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
