"""What is made of files that somebody may replace at any time: made anew once they were."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from streamlink.errors import SecurityError

__all__ = ["Reloading", "read_file"]

logger = logging.getLogger("streamlink.security")

_TRIES = 3  # files that change under our eyes are read again

T = TypeVar("T")
Signature = tuple[tuple[int, ...] | None, ...]


class Reloading(Generic[T]):
    """Holds what ``make`` made of the files, and makes it anew when one of them has changed.

    Files that change while they are read are read again. Files that cannot be used (one of a pair
    is written already, the other not yet) change nothing: what they made before stays, a warning is
    logged, and the next one who asks tries again.

    Raises:
        SecurityError: the files cannot be used from the beginning.
    """

    def __init__(self, what: str, paths: Sequence[Path], make: Callable[[], T]) -> None:
        self._what = what
        self._paths = tuple(paths)
        self._make = make
        self._lock = threading.Lock()
        self._warned: Signature = ()
        self._signature, self._value = self._read()

    def get(self) -> T:
        """Return it, as new as the files are."""
        self.reloaded()
        return self._value

    def reloaded(self) -> T | None:
        """Return it if it was made anew just now; None: it is as before."""
        with self._lock:
            seen = _signature(self._paths)
            if seen == self._signature:
                return None
            try:
                self._signature, self._value = self._read()
            except SecurityError as error:
                # Once for each state of the files: every handshake asks.
                if seen != self._warned:
                    logger.warning("%s stays as it was: %s", self._what, error)
                self._warned = seen
                return None
        # Without the lock, which every handshake takes: a handler of the log may block.
        logger.info("%s was renewed", self._what)
        return self._value

    def _read(self) -> tuple[Signature, T]:
        # Signature, files, signature again, as a reader of a seqlock does: a pair of which only one
        # file is written yet is never used.
        for tries_left in reversed(range(_TRIES)):
            before = _signature(self._paths)
            try:
                value = self._make()
            except SecurityError:
                if not tries_left or _signature(self._paths) == before:
                    raise
                continue
            # While many clients join, a list of tokens may be replaced during every try. A single
            # file has no other half that could be older, so what was read is used: it has all that
            # was written before this call. The next call reads the file again.
            is_enough = not tries_left and len(self._paths) == 1
            if is_enough or _signature(self._paths) == before:
                return before, value
        raise SecurityError(f"{self._paths[0]}: it, or what belongs to it, is being written")


def read_file(setting: str, path: Path) -> bytes:
    """Return a file's bytes.

    Raises:
        SecurityError: it cannot be read; says for which setting.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise SecurityError(f"security.{setting}: {path}: {error.strerror}") from error


def _signature(paths: Sequence[Path]) -> Signature:
    return tuple(_stat(path) for path in paths)


def _stat(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
