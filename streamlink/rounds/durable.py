"""Small files that survive a kill or a power cut: the ledger, and the manifests in a spool.

A file is written beside its place, synced, and renamed: the usual way to replace it atomically.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from streamlink.descriptors import patiently
from streamlink.errors import StoreError, StoreFull
from streamlink.stores.files import reason

__all__ = ["aside_of", "spool_errors", "sync_directory", "write_durably"]

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def spool_errors(path: Path, what: str = "the spool cannot be used") -> Iterator[None]:
    """Translate ``OSError`` into ``StoreError``, with ``path`` and ``what`` cannot be done."""
    try:
        yield
    # It is an ``OSError``, too, and already says what was refused.
    except StoreError:
        raise
    except OSError as error:
        kind = StoreFull if error.errno in _FULL else StoreError
        raise kind(f"{path}: {what}: {reason(error, path)}") from error


def write_durably(path: Path, data: bytes, what: str = "the spool cannot be used") -> None:
    """Write a small file: atomic, and durable once this returns.

    Raises:
        StoreError: it cannot be written.
    """
    aside = aside_of(path)
    with spool_errors(path, what):
        try:
            with patiently(aside.open, "wb") as file:
                file.write(data)
                file.flush()
                # Before the rename, or a power cut could leave the new name without its data.
                os.fsync(file.fileno())
            os.replace(aside, path)
        except OSError:
            with suppress(OSError):
                aside.unlink()
            raise
        sync_directory(path.parent)  # the rename itself is durable only with the directory


def aside_of(path: Path) -> Path:
    """Return where ``write_durably`` writes a file before it takes its name."""
    return path.with_name(f"{path.name}.part")


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    fd = patiently(os.open, directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
