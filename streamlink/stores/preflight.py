"""Preflight checks: whether files can be created in a directory, found out by creating one.

A job may wait minutes for its clients. If its store, spool or ledger cannot be written, it should
fail before that wait.
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
    """Raise unless a file can be created in ``directory``, or in its nearest existing parent.

    The trial file has no name (``O_TMPFILE``), or loses it at once. ``os.access`` was rejected: for
    root it allows everything, also on a read-only disk, and it does not know quotas.

    Args:
        directory: where files will be created; it may not exist yet.
        consequence: what is impossible otherwise, for the error message.

    Raises:
        StoreFull: the disk has no room for one more file.
        StoreError: it is not a directory, or this user may not write there.
    """
    existing = directory.absolute()
    # ``lexists``: a dangling link is in the way of a new directory, and must not be passed over.
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
    """Raise unless a file can be written as ``aside`` and then renamed to ``path``.

    Raises:
        StoreFull, StoreError: as ``require_writable``; also if one of the two is a directory, or
            ``aside`` is a leftover of another user that cannot be overwritten.
    """
    require_writable(path.parent, consequence)
    for file in (path, aside):
        if file.is_dir():
            raise StoreError(f"{file}: {consequence}: this is a directory; name another file")
    # ``open`` looks at the effective user; ``os.access`` by default looks at the real one.
    if aside.exists() and not os.access(aside, os.W_OK, effective_ids=True):
        raise StoreError(
            f"{aside}: {consequence}: this file is a leftover of another user's process; remove it"
        )
