"""The disk space of one directory that several ends share for the versions they keep: one limit.

Each end, which is a job's server or a client, has a folder in it, locked as long as it runs. The
files of all folders count; each has its full length from its beginning, so what an end begins to
write is seen by the others at once. Folders that nobody has locked are of jobs and clients that
have ended: their files may be removed, and nobody else's.

The directory itself is locked by whoever starts or makes room, for that moment only. So whoever
starts never finds its folder locked by somebody who only looks whether it is used.
"""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from streamlink.descriptors import patiently
from streamlink.errors import StoreError
from streamlink.stores.expiry import unless_in_use
from streamlink.stores.files import reason, remove

__all__ = ["HEAD_BYTES", "PARTIAL", "SUFFIX", "KeptFile", "SharedSpace", "remove_kept"]

logger = logging.getLogger("streamlink.stores")

HEAD_BYTES = 4096
SUFFIX, PARTIAL = ".version", ".partial"

_WAIT_SECONDS = 10.0  # removing some large files takes seconds on a slow disk
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
        own: the folder of this end; the directory is its parent.
        most_bytes: all models there together (bytes).
    """

    def __init__(self, own: Path, most_bytes: int) -> None:
        self._own, self._directory, self._most_bytes = own, own.parent, most_bytes

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let nobody else start or make room there within the block.

        Raises:
            StoreError: somebody else has done so for 10 s.
            OSError: the directory cannot be opened.
        """
        until = time.monotonic() + _WAIT_SECONDS
        while True:
            with unless_in_use(self._directory) as is_free:
                if is_free:
                    yield
                    return
            if time.monotonic() >= until:
                raise StoreError(
                    f"{self._directory}: another process has held the lock (flock) of this "
                    f"directory for {_WAIT_SECONDS:g} s; end it, or set another stream.kept"
                )
            time.sleep(_PAUSE_SECONDS)  # flock has no timeout

    def excess(self) -> int:
        """Return by how much all files exceed the limit (bytes); negative: what is left of it.

        Raises:
            OSError: a folder cannot be read.
        """
        return sum(each.nbytes for each in self._files()) - self._most_bytes

    def unused(self) -> list[KeptFile]:
        """Return the files in folders that nobody uses, the oldest first; only ``alone``.

        Raises:
            OSError: a folder cannot be read.
        """
        others = [each for each in self._files() if each.path.parent != self._own]
        free = {folder for folder in {each.path.parent for each in others} if _is_free(folder)}
        return sorted(
            (each for each in others if each.path.parent in free), key=lambda each: each.written
        )

    def remove(self, files: Sequence[KeptFile]) -> set[Path]:
        """Remove the first of ``files``, as many as the limit needs, and return their paths.

        Raises:
            OSError: a folder cannot be read.
        """
        excess, gone = self.excess(), set[Path]()
        for each in files:
            if excess <= 0:
                break
            excess -= each.nbytes
            remove_kept(each.path)
            gone.add(each.path)
            if each.path.parent != self._own:
                with suppress(OSError):  # it has other files
                    each.path.parent.rmdir()
        return gone

    def _files(self) -> Iterator[KeptFile]:
        with patiently(os.scandir, self._directory) as entries:
            folders = [Path(each.path) for each in entries if each.is_dir()]
        for folder in folders:
            # Others remove files, and folders that are empty, while we look; and some folders, such
            # as lost+found, are not for us to read.
            with suppress(FileNotFoundError, PermissionError):
                for name in patiently(os.listdir, folder):
                    with suppress(FileNotFoundError):
                        yield from _counted(folder / name)


def remove_kept(path: Path) -> None:
    """Remove a file; one that stays costs disk space, and never the model or the start."""
    try:
        remove(path)
    except OSError as error:
        logger.warning("%s cannot be removed: %s; remove it yourself", path, reason(error, path))


def _counted(path: Path) -> Iterator[KeptFile]:
    """Yield ``path`` if it is a version, or the beginning of one."""
    if path.suffix not in (SUFFIX, PARTIAL) or not path.stem.isdecimal():
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
