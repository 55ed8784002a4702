"""Removes what interrupted transfers left, once it is too old to be resumed.

The age of a partial model is the time since the last change of any of its files. A process that
still writes holds the writer's lock, or changes a file all the time, so its files are never
removed.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from streamlink.descriptors import patiently
from streamlink.stores.files import disk_errors, remove

__all__ = ["expire_file", "is_regular", "remove_if_expired", "remove_paths", "unless_in_use"]

logger = logging.getLogger("streamlink.stores")

_DAY = 86400.0


def expire_file(path: Path, seconds: float) -> None:
    """Remove one partial file that nobody has changed for ``seconds``.

    Raises:
        StoreError: it cannot be removed.
    """
    with disk_errors(path, "removing an expired partial model"):
        if is_regular(path):
            with unless_in_use(path) as is_free:
                if is_free:
                    remove_if_expired("a partial model", [path], seconds, remove_paths)


def remove_if_expired(
    what: str, paths: Sequence[Path], seconds: float, act: Callable[[Sequence[Path]], None]
) -> None:
    """Call ``act(paths)`` if none of the files was changed within ``seconds``, and log it."""
    # Wall time, as file times are; a monotonic clock begins anew when the machine restarts. The
    # newest file counts: a transfer may write to one shard for days.
    age = time.time() - max(path.lstat().st_mtime for path in paths)
    if age > seconds:
        logger.info(
            "%s: removing %s that was last changed %.1f days ago", paths[0], what, age / _DAY
        )
        act(paths)


@contextmanager
def unless_in_use(path: Path) -> Iterator[bool]:
    """Hold the writer's lock on ``path`` within the block; False: another process holds it."""
    # Reading is enough for flock, which locks directories as well.
    fd = patiently(os.open, path, os.O_RDONLY)
    try:
        try:
            # flock locks the open file description and conflicts with every other one, even in the
            # same process; fcntl locks would be shared by all writers of this process.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            try:
                yield True
            finally:
                # Closing is not enough where another thread has forked a process meanwhile.
                fcntl.flock(fd, fcntl.LOCK_UN)
    finally:
        os.close(fd)


def is_regular(path: Path) -> bool:
    """Tell whether ``path`` is a regular file; a symbolic link to one is not."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def remove_paths(paths: Sequence[Path]) -> None:
    """Remove each file, in this order."""
    for path in paths:
        remove(path)
