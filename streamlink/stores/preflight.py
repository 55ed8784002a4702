"""Whether files can be made in a directory, found by making one before anything depends on it.

A job that waits for its clients for minutes should fail before that, not after, where its store,
spool or ledger cannot be written.
"""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from streamlink.errors import StoreError, StoreFull

__all__ = ["require_replaceable", "require_writable"]

_FULL = {errno.ENOSPC, errno.EDQUOT}


def require_writable(directory: Path, consequence: str) -> None:
    """Raise unless a file can be made in ``directory``, or in the nearest one above that exists.

    Nothing stays there: the file has no name, or loses it at once. ``os.access`` would not do: it
    allows everything to root, on a read-only disk too, and knows no quota.

    Args:
        directory: where files will be made; it may be missing still.
        consequence: what is impossible otherwise, for the error's sentence.

    Raises:
        StoreFull: the disk has no room for one more file.
        StoreError: it is no directory, or this user may not write there.
    """
    existing = directory.absolute()
    while not os.path.lexists(existing):
        existing = existing.parent
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        where = "" if existing == directory.absolute() else f" (of {existing})"
        if error.errno in _FULL:
            raise StoreFull(
                f"{directory}: {consequence}: {error.strerror}{where}; make room there"
            ) from error
        raise StoreError(
            f"{directory}: {consequence}: {error.strerror or error}{where}; name a directory that "
            f"this process (user {os.geteuid()}) can write to"
        ) from error


def require_replaceable(path: Path, aside: Path, consequence: str) -> None:
    """Raise unless a file can be written at ``aside`` and then renamed to ``path``.

    Raises:
        StoreFull, StoreError: as ``require_writable`` does for their directory; or one of the two
            is a directory; or ``aside`` was left by another user and cannot be written.
    """
    require_writable(path.parent, consequence)
    for file in (path, aside):
        if file.is_dir():
            raise StoreError(f"{file}: {consequence}: this is a directory; name another file")
    if aside.exists() and not os.access(aside, os.W_OK, effective_ids=True):
        raise StoreError(
            f"{aside}: {consequence}: this file is left over from another user's process; remove it"
        )
