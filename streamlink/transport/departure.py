"""What a process that ends does for the servers and clients that it has not closed: a goodbye.

Their peers would otherwise wait for a timeout. All threads of streamlink are daemons, so none keeps
the process; they still run while ``atexit`` does. Nothing is stopped or joined here: from Python
3.12 on no thread can be started any more, and the process is about to end anyway.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Protocol

from streamlink.clock import Clock, RunningClock

__all__ = ["MOST_SECONDS", "Departing", "afterwards", "forget", "is_inherited", "note"]

logger = logging.getLogger("streamlink.transport")

MOST_SECONDS = 2.0
"""What all goodbyes of a process that ends may take together (seconds)."""


class Departing(Protocol):
    """A server or a client that may be open when its process ends."""

    clock: Clock

    def depart(self, has_failed: bool, seconds: float) -> None:
        """Tell the peers that this process ends; return within ``seconds``.

        Args:
            has_failed: the process ends by an exception that nobody caught.
            seconds: how long to wait for answers.
        """


_lock = threading.Lock()
_open: weakref.WeakSet[Departing] = weakref.WeakSet()
_inherited: weakref.WeakSet[Departing] = weakref.WeakSet()
_last: list[Callable[[], object]] = []


def note(end: Departing) -> None:
    """Note that ``end`` is open. Only if real time moves it: nobody moves another one at exit."""
    if isinstance(end.clock, RunningClock):
        with _lock:
            _open.add(end)


def forget(end: Departing) -> None:
    """Note that ``end`` was closed; harmless where it was not noted."""
    with _lock:
        _open.discard(end)


def is_inherited(end: Departing) -> bool:
    """Return whether ``end`` is open in the process that this one was forked from.

    To close it here would shut down the sockets of that process, or wait for threads that are not
    here; so who has it leaves it alone.
    """
    return end in _inherited


def afterwards(act: Callable[[], object]) -> None:
    """Have ``act`` called as the process ends, once the goodbyes have left."""
    _last.append(act)


@atexit.register
def _depart() -> None:
    with _lock:
        left = list(_open)
    # Set by Python when it has printed an exception that ended the main thread.
    has_failed = hasattr(sys, "last_value")
    until = left[0].clock() + MOST_SECONDS if left else 0.0
    for end in left:
        try:
            end.depart(has_failed, max(0.0, until - end.clock()))
        except Exception:  # the others are to be told all the same
            logger.debug("a goodbye at exit failed", exc_info=True)
    for act in _last:
        act()


def _begin_again() -> None:
    """In a forked child: what its parent has open is the parent's, and has no thread here."""
    global _lock
    _lock = threading.Lock()  # another thread of the parent may have held it
    _inherited.update(_open)
    _open.clear()
    _last.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again)
