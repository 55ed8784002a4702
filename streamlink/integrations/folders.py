"""A folder for what one process keeps on the disk: gone after its end, also after a kill.

Nobody can remove a folder at a ``SIGKILL``. So its owner holds a lock on it, which the kernel
releases with the process, and the next process that makes such a folder removes those whose lock is
free. No lock file or list of processes is kept, and so none is left behind.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["own_folder"]


@contextmanager
def own_folder(name: str, parent: Path | str = "") -> Iterator[Path]:
    """Make a folder for this process alone, and remove it at the end of the block.

    Folders of the same parent and name whose process was killed are removed first.

    Args:
        name: its name begins with this; each kind of owner has its own.
        parent: where it is made, and which is made as well where it is not there; empty: the
            system's temporary directory.

    Raises:
        OSError: the disk refuses.
    """
    parent = Path(parent or tempfile.gettempdir())
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.glob(f"{name}-*"):
        if (lock := _lock_of(left)) is not None:
            _remove(left, lock)
    path, lock = _made(parent, name)
    try:
        yield path
    finally:
        _remove(path, lock)


def _made(parent: Path, name: str) -> tuple[Path, int]:
    """Return a new folder and its lock."""
    # Between the two calls it looks like one that a killed process has left. Whoever removes it
    # then holds the lock, so another one is made.
    while True:
        path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))
        if (lock := _lock_of(path)) is not None:
            return path, lock


def _lock_of(path: Path) -> int | None:
    """Take the lock of a folder; None: its owner is alive, or it is gone or not this user's."""
    try:
        # Not followed if it is a link: it may lead anywhere.
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # It may have been removed before the lock was taken.
        is_same = os.path.samestat(os.fstat(fd), os.lstat(path))
        if is_same and os.fstat(fd).st_uid == os.geteuid():
            return fd
    os.close(fd)
    return None


def _remove(path: Path, lock: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(lock)  # not before: another process would remove it at the same time
