"""File descriptors: the limit of this process, and waiting while none is free (EMFILE).

A connection needs a descriptor just as a file does, and anybody may connect. A server bounds its
connections so that enough descriptors stay for its files (``transport.budget``). If the process has
none left anyway, because other code in it holds them, operations on files wait here instead of
failing, until somebody closes a descriptor.
"""

from __future__ import annotations

import errno
import os
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec, TypeVar

__all__ = [
    "HOW_TO_RAISE",
    "WAIT_SECONDS",
    "in_use",
    "is_shortage",
    "patiently",
    "raise_limit",
    "unhurried",
]

P = ParamSpec("P")
T = TypeVar("T")

WAIT_SECONDS = 30.0
"""How long an operation on a file waits for a free descriptor (seconds)."""

HOW_TO_RAISE = "raise it with `ulimit -n`, or LimitNOFILE= in a systemd unit"

_PAUSE_SECONDS = 0.05
_SYSTEM_LIMIT = "the system's limit fs.file-max is reached; raise it with sysctl"


def patiently(action: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``action``, which opens a descriptor, and retry while none is free.

    It is called again from its beginning, so it must not change anything before it fails.

    Raises:
        OSError: as ``action`` does. After ``WAIT_SECONDS`` without a descriptor its text names the
            limit and how to raise it.
    """
    # Polled: nothing tells when another part of the program closes a file.
    until = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return action(*args, **kwargs)
        except OSError as error:
            if not is_shortage(error):
                raise
            if time.monotonic() >= until:
                raise OSError(error.errno, _sentence(error), error.filename) from error
        time.sleep(_PAUSE_SECONDS)


def unhurried(action: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``action``, which accepts a connection; where no descriptor is free, fail after a pause.

    It is called by a loop that tries again at once, for the connection still waits.
    """
    try:
        return action(*args, **kwargs)
    except OSError as error:
        if is_shortage(error):
            time.sleep(_PAUSE_SECONDS)
        raise


def is_shortage(error: OSError) -> bool:
    """Tell whether an error says that no descriptor is free, in this process or in the system."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def in_use() -> int:
    """Return how many descriptors this process has."""
    return len(os.listdir("/dev/fd")) - 1  # without the one it was listed with


def raise_limit(wanted: int) -> int:
    """Raise this process's own (soft) limit to ``wanted`` as far as it may, and return it.

    It is never lowered.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    # The hard limit is left alone: only root can raise it, so lowering it could not be undone.
    target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if target > soft:
        with suppress(ValueError, OSError):  # macOS has a limit below what it calls the hard one
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _sentence(error: OSError) -> str:
    waited = f"no file descriptor became free within {WAIT_SECONDS:g} s"
    if error.errno == errno.ENFILE:
        return f"{waited}: {_SYSTEM_LIMIT}"
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"{waited}: this process may have {soft} (RLIMIT_NOFILE); {HOW_TO_RAISE}"
