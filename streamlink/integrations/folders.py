"""A folder for what one process keeps on the disk: gone after its end, also after a kill.

No code of a process runs at a ``SIGKILL``, nor at the ``os._exit`` with which a framework may end a
job. So a small process watches over the folder: it reads from a pipe that the kernel closes with
the owner, and then removes the folder. Where both are killed, as by ``systemd`` or a container's
end, the next process that makes such a folder does it: the owner holds a lock on its folder, and
one whose lock is free has no owner. No lock file or list of processes is kept, and so none is left
behind.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["own_folder"]

_held: set[int] = set()
"""Descriptors by which a folder is known to have an owner."""
_WATCH = 'trap "" INT TERM HUP; read -r _; rm -rf -- "$1"'


@contextmanager
def own_folder(name: str, parent: Path | str = "") -> Iterator[Path]:
    """Make a folder for this process alone, and remove it at the end of the block.

    Folders of the same parent and name that nobody owns are removed first.

    Args:
        name: its name begins with this; each kind of owner has its own.
        parent: where it is made, and which is made as well where it is not there; empty: the
            system's temporary directory.

    Raises:
        OSError: the disk refuses, or no process can be started.
    """
    parent = Path(parent or tempfile.gettempdir())
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.glob(f"{name}-*"):
        if (lock := _lock_of(left)) is not None:
            _remove(left, lock)
    path, lock = _made(parent, name)
    owner = os.getpid()
    try:
        with _watch(path) as watcher:
            held = {lock, watcher.stdin.fileno()} if watcher.stdin else {lock}
            _held.update(held)
            try:
                yield path
            finally:
                _held.difference_update(held)
    finally:
        if os.getpid() == owner:  # and no process that it has forked
            _remove(path, lock)


def _watch(path: Path) -> subprocess.Popen[bytes]:
    """Start the process that removes ``path`` when this one ends, or when its pipe is closed."""
    # In a session of its own: what is typed at a terminal, or sent to a group, is not meant for it.
    return subprocess.Popen(
        ["/bin/sh", "-c", _WATCH, "sh", path.absolute()],
        stdin=subprocess.PIPE,
        start_new_session=True,
        cwd="/",
    )


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


def _let_go() -> None:
    """In a forked child: let go of the parent's folders, which end with the parent."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in _held:  # replaced, not closed: the objects around them still know the numbers
        os.dup2(null, fd, inheritable=False)
    os.close(null)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)


def _remove(path: Path, lock: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(lock)  # not before: another process would remove it at the same time
