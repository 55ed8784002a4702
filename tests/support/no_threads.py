"""A system that has no thread for some part of a program, and threads for all others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

__all__ = ["no_threads"]


@contextmanager
def no_threads(
    *names: str, beside: str = "", error: Exception | None = None
) -> Iterator[list[str]]:
    """Let threads of these names not start, as where the system has no more; gives which were to.

    Args:
        names: of threads.
        beside: the name of the thread that starts them, where others may start such; "": any.
        error: what Python raises then; None: as it does where the system refuses.
    """
    refused: list[str] = []
    start = threading.Thread.start

    def none_left(thread: threading.Thread) -> None:
        if thread.name in names and beside in ("", threading.current_thread().name):
            refused.append(thread.name)
            raise error or RuntimeError("can't start new thread")
        start(thread)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_left)
        yield refused
