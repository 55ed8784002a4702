"""The system calls under the stores that live on disk, with their failures put into words.

Every read and write of a model's bytes, and every step that makes something durable, goes through
one of these functions, so that a short write, a full disk or a vanished file is handled in one
place.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from streamlink.descriptors import patiently
from streamlink.errors import CorruptStore, SourceChanged, StoreError, StoreFull
from streamlink.model.interfaces import Progress

__all__ = [
    "FileIdentity",
    "Flusher",
    "Steps",
    "close_all",
    "disk_errors",
    "lock",
    "read_bytes",
    "read_into",
    "remove",
    "remove_tree",
    "replace",
    "require_free",
    "said",
    "sync_data",
    "sync_directory",
    "write_all",
]

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM}
_SYNC_BYTES = 256 << 20
_WRITEBACK_BYTES = 32 << 20


@contextlib.contextmanager
def disk_errors(path: Path, doing: str) -> Iterator[None]:
    """Turn the system's errors into ``StoreFull`` or ``StoreError``.

    They name ``path``, and the file that the system refused where that is another one.
    """
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise StoreFull(f"{path}: no room while {doing} ({error.strerror})") from error
        raise StoreError(f"{path}: {doing} failed: {said(error, path)}") from error


def said(error: OSError, path: Path) -> str:
    """Return what the system says, of which file where that is not ``path``, and the remedy."""
    text = error.strerror or str(error)
    if isinstance(error.filename, str | os.PathLike) and Path(error.filename) != path:
        text += f": {os.fspath(error.filename)}"
    if error.errno in _FORBIDDEN:
        text += f"; let this process (user {os.geteuid()}) read and write there"
    return text


def write_all(fd: int, data: memoryview | bytes, offset: int) -> None:
    """Write all of ``data`` at ``offset``, in as many calls as it takes."""
    written = os.pwrite(fd, data, offset)
    if written == len(data):
        return
    view = memoryview(data)
    while written < view.nbytes:
        written += os.pwrite(fd, view[written:], offset + written)


def read_into(fd: int, view: memoryview, offset: int, path: Path) -> None:
    """Fill ``view`` from ``offset``.

    Raises:
        CorruptStore: the file ends before that.
    """
    filled = 0
    while filled < view.nbytes:
        count = os.preadv(fd, [view[filled:]], offset + filled)
        if count == 0:
            raise CorruptStore(
                f"the file ends {view.nbytes - filled} bytes early; it was cut short",
                path=str(path),
            )
        filled += count


def read_bytes(fd: int, length: int, offset: int, path: Path) -> bytes:
    """Return ``length`` bytes from ``offset``; raises as ``read_into`` does."""
    data = os.pread(fd, length, offset)
    if len(data) == length:
        return data
    buffer = bytearray(length)
    read_into(fd, memoryview(buffer), offset, path)
    return bytes(buffer)


def sync_data(fd: int) -> None:
    """Make a file's bytes and size durable.

    macOS has no ``fdatasync``, and ``fsync`` there does not empty the disk's own cache: a process
    that is killed loses nothing, a power cut may.
    """
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    fd = patiently(os.open, path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace(temporary: Path, final: Path) -> None:
    """Give a file that is already durable its final name, durably and at once."""
    os.replace(temporary, final)
    sync_directory(final.parent)


def remove(path: Path) -> None:
    """Remove a file that may be gone already."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def remove_tree(path: Path) -> None:
    """Remove a directory with all that is in it, as far as the disk lets it go."""
    try:
        patiently(shutil.rmtree, path)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def lock(fd: int, path: Path) -> None:
    """Take the writer's lock on an open file or directory, until it is closed or the process dies.

    Raises:
        StoreError: another writer has it.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StoreError(f"{path}: another writer is at work on this store") from error


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """What identifies an open file and its content, so that a reader notices a change.

    Not noticed are a write within one tick of the file system's clock (a few milliseconds) after
    the previous one, and a write through a memory map that the kernel has not written back yet:
    neither changes size or time. Only stored hashes detect those.
    """

    device: int
    inode: int
    nbytes: int
    mtime_ns: int

    @classmethod
    def of(cls, fd: int) -> FileIdentity:
        """Return what the open file is now."""
        return cls._from(os.fstat(fd))

    def require_same(self, fd: int, path: Path, *, tensor: str = "", inside: int = -1) -> None:
        """Compare the open file with what it was.

        Raises:
            SourceChanged: its size or its time of change is another one.
        """
        now = FileIdentity.of(fd)
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
    def _from(cls, status: os.stat_result) -> FileIdentity:
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def require_free(directory: Path, needed: int, reserve: int) -> None:
    """Raise ``StoreFull`` unless ``needed`` bytes fit while ``reserve`` bytes stay free."""
    status = os.statvfs(directory)
    free = status.f_bavail * status.f_frsize
    if free < needed + reserve:
        kept = (
            f" beside the {reserve / 1e6:.1f} MB that stay free (reserve_bytes)" if reserve else ""
        )
        raise StoreFull(
            f"{directory.resolve()}: a new model (the old one stays until it is whole) needs "
            f"{needed / 1e6:.1f} MB{kept}, but only {free / 1e6:.1f} MB are free; make room there, "
            "or put the store on a larger disk"
        )


class Flusher:
    """Keeps what a writer has not yet brought to the disk bounded, so that the last fsync is short.

    Args:
        fd: the file that is written to.
        directory: where it is.
        reserve: bytes that must stay free there; looked at whenever 32 MiB were written.
    """

    def __init__(self, fd: int, directory: Path, reserve: int) -> None:
        self._fd = fd
        self._directory = directory
        self._reserve = reserve
        self._first = self._last = -1  # the range written since writeback was last started
        self._unstarted = 0
        self._unsynced = 0

    def wrote(self, offset: int, length: int) -> None:
        """Note a write of ``length`` bytes at ``offset``.

        Raises:
            StoreFull: the free space fell below the reserve.
        """
        self._first = offset if self._unstarted == 0 else min(self._first, offset)
        self._last = max(self._last, offset + length)
        self._unstarted += length
        if self._unstarted >= _WRITEBACK_BYTES:
            self._start()

    def _start(self) -> None:
        require_free(self._directory, 0, self._reserve)
        self._unsynced += self._unstarted
        if self._unsynced >= _SYNC_BYTES:
            sync_data(self._fd)
            self._unsynced = 0
        elif hasattr(os, "posix_fadvise"):  # not on macOS: there the next sync takes longer
            # Told that dirty pages are not needed, Linux begins to write them out and does not
            # wait; being dirty they stay cached for the next reader. Measured with 1.5 GiB: a last
            # fsync of 0.01 s instead of 0.4 s, and nothing lost before it.
            span = self._last - self._first
            os.posix_fadvise(self._fd, self._first, span, os.POSIX_FADV_DONTNEED)
        self._first = self._last = -1
        self._unstarted = 0


class Steps:
    """Counts the steps of a commit for whoever watches."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._count = 0

    def tell(self) -> None:
        """Say that one more step is done."""
        self._count += 1
        if self._progress is not None:
            self._progress(self._count)


def close_all(fds: list[int]) -> None:
    """Close files and forget them, the last first. Harmless when called twice."""
    while fds:
        os.close(fds.pop())
