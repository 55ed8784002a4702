"""``Spool``: the directory where what clients put is stored, one folder for each object.

References do not outlive the server, so its folders are of no use after it: the next server that
takes the directory removes them. A lock keeps two servers from taking the same one; the kernel
releases it when the process dies.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

from streamlink.descriptors import patiently
from streamlink.errors import StoreError
from streamlink.stores.files import disk_errors, lock, remove_tree

__all__ = ["Spool"]

logger = logging.getLogger("streamlink.objects")

_LOCK = ".streamlink-objects"
_FOLDER = re.compile(r"[0-9a-f]{32}")


class Spool:
    """A directory that this process has for itself until ``close``.

    Args:
        directory: made where it is not there; folders that a killed server has left are removed.

    Raises:
        StoreError: another server has it, or the disk refuses.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._left: set[str] = set()  # what was removed and is still there
        with disk_errors(directory, "opening the spool of objects"):
            directory.mkdir(parents=True, exist_ok=True)
            # Not followed if it is a link: it may lead out of the directory.
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._fd = patiently(os.open, directory / _LOCK, flags, 0o600)
            try:
                self._take()
            except BaseException:
                os.close(self._fd)
                raise

    def _take(self) -> None:
        try:
            lock(self._fd, self._directory)
        except StoreError as error:
            raise StoreError(
                f"{self._directory}: another object server has this spool; give each its own"
            ) from error
        for path in self._folders():
            remove_tree(path)

    def path_of(self, object_id: str) -> Path:
        """Return where the object of that id is stored."""
        assert _FOLDER.fullmatch(object_id), object_id
        return self._directory / object_id

    def remove(self, object_id: str) -> None:
        """Remove an object; harmless where there is none.

        What the disk does not let go of is tried again by ``remove_left``.
        """
        path = self.path_of(object_id)
        remove_tree(path)
        if not os.path.lexists(path):
            self._left.discard(object_id)
        elif object_id not in self._left:
            self._left.add(object_id)
            logger.warning("%s: could not be removed; it is tried again every minute", path)

    def remove_left(self) -> None:
        """Try again to remove what could not be removed before."""
        for object_id in tuple(self._left):
            self.remove(object_id)

    def close(self) -> None:
        """Remove what is left, and let another server have the directory."""
        for path in self._folders():
            remove_tree(path)
        os.close(self._fd)

    def _folders(self) -> list[Path]:
        with os.scandir(self._directory) as found:
            # A symbolic link is not followed: it may lead out of the spool.
            return [
                Path(each.path)
                for each in found
                if _FOLDER.fullmatch(each.name) and each.is_dir(follow_symlinks=False)
            ]
