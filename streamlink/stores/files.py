"""The system calls of the stores on disk, with errors that name the path and the step.

Every read and write of a model's bytes, and every step that makes something durable, uses these
functions, so that short writes, full disks and missing files are handled in one place.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from streamlink.descriptors import patiently
from streamlink.errors import CorruptStore, SourceChanged, StoreError, StoreFull
from streamlink.model.interfaces import Progress

__all__ = [
    "FileIdentity",
    "Flusher",
    "Steps",
    "close_all",
    "directory_for",
    "disk_errors",
    "lock",
    "read_bytes",
    "read_into",
    "reason",
    "remove",
    "remove_tree",
    "replace",
    "require_free",
    "sync_data",
    "sync_directory",
    "write_all",
]

# EFBIG: the longest file that the file system or ``ulimit -f`` permits. To a user this is a full
# disk too, and not a broken one.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM}
# The most that the kernel may hold back before a real sync, and how often writeback is requested:
# the request alone promises nothing.
_SYNC_BYTES = 256 << 20
_WRITEBACK_BYTES = 32 << 20
_LONGEST_NAME = 200  # file systems permit 255 bytes


@contextlib.contextmanager
def disk_errors(path: Path, doing: str) -> Iterator[None]:
    """Turn the system's errors into ``StoreFull`` or ``StoreError``.

    They name ``path``, the step (``doing``), and the file that failed if it is another one.
    """
    try:
        yield
    # StoreError is an OSError: without this branch, nested blocks would wrap it once more.
    except StoreError:
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise StoreFull(
                f"{path}: no room while {doing} ({error.strerror}); make room there"
            ) from error
        raise StoreError(f"{path}: {doing} failed: {reason(error, path)}") from error


def reason(error: OSError, path: Path) -> str:
    """Return the system's reason, the file that failed if it is not ``path``, and the remedy."""
    text = error.strerror or str(error)
    if isinstance(error.filename, str | os.PathLike) and Path(error.filename) != path:
        text += f": {os.fspath(error.filename)}"
    if error.errno in _FORBIDDEN:
        text += f"; let this process (user {os.geteuid()}) read and write there"
    return text


def write_all(fd: int, data: memoryview | bytes, offset: int) -> None:
    """Write all of ``data`` at ``offset``; a short write is continued."""
    # pwrite and pread carry their offset: threads share one descriptor without a lock or a seek. A
    # memory map was rejected: an I/O error in it is a SIGBUS that ends the process, its pages count
    # as resident memory, and a file that shrinks under it cannot be reported as an exception.
    written = os.pwrite(fd, data, offset)
    if written == len(data):
        return
    view = memoryview(data)
    while written < view.nbytes:
        written += os.pwrite(fd, view[written:], offset + written)


def read_into(fd: int, view: memoryview, offset: int, path: Path) -> None:
    """Fill ``view`` with the file's bytes from ``offset`` on.

    Raises:
        CorruptStore: the file ends before ``view`` is full.
    """
    # ``preadv`` fills the caller's buffer; ``os.pread`` would allocate new bytes for each piece.
    filled = 0
    while filled < view.nbytes:
        count = os.preadv(fd, [view[filled:]], offset + filled)
        if count == 0:
            raise CorruptStore(
                f"the file ends {view.nbytes - filled} bytes too early; it was cut short",
                path=str(path),
            )
        filled += count


def read_bytes(fd: int, length: int, offset: int, path: Path) -> bytes:
    """Return ``length`` bytes from ``offset``; raises as ``read_into`` does."""
    # Nearly always one system call. Linux transfers less than 2 GiB at once, and a file may have
    # been cut short: then the loop below goes on, or reports it.
    data = os.pread(fd, length, offset)
    if len(data) == length:
        return data
    buffer = bytearray(length)
    read_into(fd, memoryview(buffer), offset, path)
    return bytes(buffer)


def sync_data(fd: int) -> None:
    """Make a file's bytes and size durable.

    ``fdatasync`` skips the timestamps, and so saves a write of the inode. macOS does not have it,
    and its ``fsync`` does not flush the disk's own cache: nothing is lost when the process is
    killed, but a power failure may lose data.
    """
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable: an fsync of a file does not cover its name."""
    fd = patiently(os.open, path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def directory_for(parent: Path, kind: str, name: str) -> Path:
    """Return the directory of one client or job among those under ``parent``.

    Names may have any printable character, and ``parent`` must not be left.
    """
    quoted = quote(name, safe=" ")
    if len(quoted) > _LONGEST_NAME:
        quoted = hashlib.sha256(name.encode(errors="replace")).hexdigest()
    return parent / f"{kind}-{quoted}"


def replace(temporary: Path, final: Path) -> None:
    """Atomically give a file its final name, durably; its bytes must be durable already.

    This is the classic write-fsync-rename-fsync order. A rename before the fsync of the file could
    survive a power failure when the file's bytes do not: the name would point to an empty file.
    """
    os.replace(temporary, final)
    sync_directory(final.parent)


def remove(path: Path) -> None:
    """Remove a file; one that does not exist is no error."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def remove_tree(path: Path) -> None:
    """Remove a directory with its content, as far as the disk permits."""
    try:
        patiently(shutil.rmtree, path)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def lock(fd: int, path: Path) -> None:
    """Take the writer's lock on an open file or directory.

    The kernel releases a flock when the descriptor is closed or the process dies, so a crashed
    writer never leaves a stale lock, as a lock file would.

    Raises:
        StoreError: another writer holds it.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StoreError(
            f"{path}: another writer uses this store; wait until it ends, or name another store"
        ) from error


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
        """Return the present identity of an open file."""
        return cls._from(os.fstat(fd))

    def require_same(self, fd: int, path: Path, *, tensor: str = "", inside: int = -1) -> None:
        """Check that the open file was not modified.

        Raises:
            SourceChanged: its size or its modification time changed.
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
        """Raise ``SourceChanged`` if the name now belongs to another file.

        A file that was removed is no change: the open descriptor still reads all of it.
        """
        try:
            now = self._from(os.stat(path))
        except FileNotFoundError:
            return
        if (now.device, now.inode) != (self.device, self.inode):
            what = "another file replaced this one while it was read"
            raise SourceChanged(what, path=str(path))

    @classmethod
    def _from(cls, status: os.stat_result) -> FileIdentity:
        # Not the ctime: it also changes when the file is renamed or unlinked, as the commit of the
        # next model does with the files that we still read.
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def require_free(directory: Path, needed: int, reserve: int) -> None:
    """Raise ``StoreFull`` unless ``needed`` bytes fit while ``reserve`` bytes stay free."""
    status = os.statvfs(directory)
    # Not ``f_bfree``: that includes the blocks which many file systems reserve for root.
    free = status.f_bavail * status.f_frsize
    if free < needed + reserve:
        kept = f" and {reserve / 1e6:.1f} MB that must stay free (reserve_bytes)" if reserve else ""
        raise StoreFull(
            f"{directory.resolve()}: a new model needs {needed / 1e6:.1f} MB{kept}, but only "
            f"{free / 1e6:.1f} MB are free, and the old model stays until the new one is complete; "
            "make room there, or put the store on a larger disk"
        )


class Flusher:
    """Bounds the dirty pages of one file, so that the final fsync is short.

    Args:
        fd: the file that is written to.
        directory: its directory.
        reserve: how many bytes must stay free there; checked after every 32 MiB written.
    """

    def __init__(self, fd: int, directory: Path, reserve: int) -> None:
        self._fd = fd
        self._directory = directory
        self._reserve = reserve
        self._first = self._last = -1  # the range written since writeback was started last
        self._unstarted = 0
        self._unsynced = 0

    def wrote(self, offset: int, length: int) -> None:
        """Record a write of ``length`` bytes at ``offset``.

        Raises:
            StoreFull: the free space fell below the reserve.
        """
        self._first = offset if self._unstarted == 0 else min(self._first, offset)
        self._last = max(self._last, offset + length)
        self._unstarted += length
        if self._unstarted >= _WRITEBACK_BYTES:
            self._start()

    def _start(self) -> None:
        # Before the pages are forced to the disk. Other programs write to it too, so the check at
        # the beginning of a transfer does not hold until its end.
        require_free(self._directory, 0, self._reserve)
        self._unsynced += self._unstarted
        if self._unsynced >= _SYNC_BYTES:
            sync_data(self._fd)
            self._unsynced = 0
        elif hasattr(os, "posix_fadvise"):  # not on macOS: there the next sync takes longer
            # For dirty pages, DONTNEED makes Linux start writeback without waiting for it; because
            # they are dirty they also stay in the page cache for the next reader. Measured with
            # 1.5 GiB: the final fsync takes 0.01 s instead of 0.4 s, at the same write rate.
            span = self._last - self._first
            os.posix_fadvise(self._fd, self._first, span, os.POSIX_FADV_DONTNEED)
        self._first = self._last = -1
        self._unstarted = 0


class Steps:
    """Counts the steps of a commit for a progress callback."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._count = 0

    def done(self) -> None:
        """Report that one more step is done."""
        self._count += 1
        if self._progress is not None:
            self._progress(self._count)


def close_all(fds: list[int]) -> None:
    """Close all files of the list, the last first, and empty it. Harmless when called twice."""
    # Removed from the list before it is closed: also after an error of ``close`` Linux has freed
    # the number, and a second ``close`` could hit a file that somebody else has opened since.
    while fds:
        os.close(fds.pop())
