"""The disk space of one directory that several ends share for the versions they keep: one limit.

Each end, which is a job's server or a client, has a folder in it, locked as long as it runs. The
files of all folders count; each has its full length from its beginning, so what an end begins to
write is seen by the others at once. Folders that nobody has locked are of jobs and clients that
have ended: their files may be removed, and nobody else's. What does not have the names that ends
give to folders and files is not theirs: it neither counts nor goes.

Whoever makes room locks the directory, for one file at a time. To see whether a folder is used, an
end takes its lock for a moment; only the end that has locked the directory does so.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from streamlink.descriptors import patiently
from streamlink.errors import StoreError
from streamlink.stores.expiry import unless_in_use
from streamlink.stores.files import directory_for, lock, reason, remove

__all__ = [
    "HEAD_BYTES",
    "PARTIAL",
    "SUFFIX",
    "WAIT_SECONDS",
    "KeptFile",
    "SharedSpace",
    "is_numbered",
    "name_of",
    "remove_kept",
]

logger = logging.getLogger("streamlink.stores")

HEAD_BYTES = 4096
SUFFIX, PARTIAL = ".version", ".partial"

WAIT_SECONDS = 10.0
"""How long a start waits for others (seconds): one removes some large files within seconds."""

_Kind = Literal["server", "kept-client"]
"""What the name of a folder begins with. Not "client": that one has what rounding loses, maybe in
the same directory, and a look whether it is used could make an update fail."""

_FOLDERS = tuple(f"{kind}-" for kind in get_args(_Kind))
_NUMBERED = re.compile(r"[0-9]{12}")  # as ``name_of`` writes it
_PAUSE_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file that counts."""

    path: Path
    nbytes: int
    """Of the model in it, without the head."""
    written: int = 0
    """When it was last written to (ns)."""


class SharedSpace:
    """The directory, as one end sees it.

    Args:
        directory: of all ends.
        kind: with ``name`` what this end is called among them.
        name: such as that of a job.
        most_bytes: all models there together (bytes).
    """

    def __init__(self, directory: Path, kind: _Kind, name: str, most_bytes: int) -> None:
        self.own = directory_for(directory, kind, name)
        """The folder of this end."""
        self._directory, self._most_bytes = directory, most_bytes
        self._stuck: set[Path] = set()

    def enter(self) -> int:
        """Make the folder of this end, lock it, and return its descriptor.

        Raises:
            StoreError: another process uses it.
            OSError: it cannot be made or opened.
        """
        until = time.monotonic() + WAIT_SECONDS
        while True:
            # Whoever makes room may have our folder's lock for a moment, or be removing the folder.
            # Both need the directory's lock, so a failure while we hold it is final. A start does
            # not wait for that lock: it also succeeds while others make room.
            with unless_in_use(self._directory) as is_alone:
                try:
                    if (fd := self._locked()) is not None:
                        return fd
                except OSError:
                    if is_alone or time.monotonic() >= until:
                        raise
            time.sleep(_PAUSE_SECONDS)

    def _locked(self) -> int | None:
        """Return the folder of this end, open and locked; None: it was removed meanwhile."""
        self.own.mkdir(exist_ok=True)
        fd = patiently(os.open, self.own, os.O_RDONLY | os.O_DIRECTORY)
        try:
            lock(fd, self.own)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(fd), os.stat(self.own)):
                    return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        return None

    @contextmanager
    def alone(self, seconds: float) -> Iterator[None]:
        """Hold the lock of the directory, so that no other end makes room; remove one file at most.

        Args:
            seconds: how long to wait for others.

        Raises:
            StoreError: others have done so all that time.
            OSError: the directory cannot be opened.
        """
        until = time.monotonic() + seconds
        while True:
            with unless_in_use(self._directory) as is_free:
                if is_free:
                    yield
                    return
            if time.monotonic() >= until:
                raise StoreError(
                    f"{self._directory}: others have held the lock (flock) of this directory for "
                    f"{seconds:g} s, such as to make room; if one of them hangs, end it"
                )
            time.sleep(_PAUSE_SECONDS)  # flock has no timeout

    def excess(self) -> int:
        """Return by how much all files exceed the limit (bytes); negative: what is left of it.

        Raises:
            OSError: a folder cannot be read.
        """
        return sum(each.nbytes for each in self._files()) - self._most_bytes

    def removable(self, own: Sequence[KeptFile]) -> list[KeptFile]:
        """Return the files that may go, in this order; only ``alone``.

        First those of ends that have ended, the oldest first, then ``own``.

        Raises:
            OSError: a folder cannot be read.
        """
        files = {each.path: each for each in self._files()}
        others = [each for each in files.values() if each.path.parent != self.own]
        free = {folder for folder in {each.path.parent for each in others} if _is_free(folder)}
        unused = [each for each in others if each.path.parent in free]
        unused.sort(key=lambda each: each.written)
        # One of our own that another end has removed frees no more.
        there = [each for each in own if each.path in files]
        return [each for each in [*unused, *there] if each.path not in self._stuck]

    def remove(self, file: KeptFile) -> bool:
        """Remove a file that may go; False: it stays, and may go no more. Only ``alone``."""
        # The lock of its folder is not held: an end that starts just now finds its folder free. If
        # it has opened the file before, it can read it on; and it gives no file that name again.
        if not remove_kept(file.path):
            self._stuck.add(file.path)
            return False
        if file.path.parent != self.own:
            with suppress(OSError), unless_in_use(file.path.parent) as is_free:
                if is_free:
                    file.path.parent.rmdir()  # unless it has other files
        return True

    def pause(self) -> None:
        """Let others have the lock of ``alone`` between two files: they look for it like this."""
        time.sleep(2 * _PAUSE_SECONDS)

    def _files(self) -> Iterator[KeptFile]:
        with patiently(os.scandir, self._directory) as entries:
            # Not through links: a file would count twice, or be anybody's.
            others = [
                Path(each.path)
                for each in entries
                if each.name.startswith(_FOLDERS) and each.is_dir(follow_symlinks=False)
            ]
        for folder in {self.own, *others}:
            # Others remove files, and folders that are empty, while we look; and the folders of
            # another user may not be for us to read.
            with suppress(FileNotFoundError, PermissionError):
                for name in patiently(os.listdir, folder):
                    with suppress(FileNotFoundError):
                        yield from _counted(folder / name)


def name_of(number: int, suffix: str) -> str:
    """Return what a version is called in its folder."""
    return f"{number:012d}{suffix}"


def is_numbered(path: Path) -> bool:
    """Tell whether ``path`` is called as ``name_of`` calls versions."""
    return path.suffix in (SUFFIX, PARTIAL) and _NUMBERED.fullmatch(path.stem) is not None


def remove_kept(path: Path) -> bool:
    """Remove a file; False: it stays, which costs disk space, and never the model or the start."""
    try:
        remove(path)
    except OSError as error:
        logger.warning("%s cannot be removed: %s; remove it yourself", path, reason(error, path))
        return False
    return True


def _counted(path: Path) -> Iterator[KeptFile]:
    """Yield ``path`` if it is a version, or the beginning of one."""
    if not is_numbered(path):
        return
    try:
        found = path.lstat()
    except FileNotFoundError:  # removed; or committed since its name was read
        found = path.with_suffix(SUFFIX).lstat()
    if stat.S_ISREG(found.st_mode):
        yield KeptFile(path, max(0, found.st_size - HEAD_BYTES), found.st_mtime_ns)


def _is_free(folder: Path) -> bool:
    with unless_in_use(folder) as is_free:
        return is_free
