"""Ctrl-C and SIGTERM at a moment when neither may cut short what is being done.

Python answers a signal in the main thread, between any two steps of it. What must be whole, such as
a process that begins or a record that is written, is done in one of these blocks; each of them has
a bounded end.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["deferred", "ignored"]


@contextmanager
def ignored() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM pass: the block is the clean-up that the first of them has begun."""
    with _heeding(lambda number, frame: None):
        yield


@contextmanager
def deferred() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back until the block is over; then they are answered as before.

    An exception of the block goes on instead: it ends what the signal would have ended.
    """
    late: list[int] = []
    with _heeding(lambda number, frame: late.append(number)):
        yield
    for number in late[:1]:
        answer = signal.getsignal(number)
        if callable(answer):
            answer(number, None)  # what it raises arises here, and in no callback
        elif answer is signal.SIG_DFL:
            signal.raise_signal(number)


@contextmanager
def _heeding(act: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Answer SIGINT and SIGTERM with ``act``; only the main thread has a say in that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Functions, not SIG_IGN: a process that is started meanwhile would inherit that.
    before = {each: signal.signal(each, act) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, what in before.items():
            signal.signal(each, what)
