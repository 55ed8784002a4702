"""A system that has no thread, or no memory, for some part of a program, and enough for others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streamlink.transport.buffers import Buffers

__all__ = ["ScarceBuffers", "no_threads"]


class ScarceBuffers(Buffers):
    """Memory for payloads, of which there is none when it is asked for the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = 0

    def take(self, nbytes: int) -> memoryview:
        """See ``Buffers``."""
        if not self.refused:
            self.refused += 1
            raise MemoryError(f"unable to allocate {nbytes} bytes")
        return super().take(nbytes)


@contextmanager
def no_threads(
    *names: str, beside: str = "", error: Exception | None = None
) -> Iterator[list[str]]:
    """Let threads of these names not start, as where the system has no more; gives which were to.

    Args:
        names: of threads, or of their classes where those have no name of their own.
        beside: the name of the thread that starts them, where others may start such; "": any.
        error: what Python raises then; None: as it does where the system refuses.
    """
    refused: list[str] = []
    start = threading.Thread.start

    def none_left(thread: threading.Thread) -> None:
        is_one = bool({thread.name, type(thread).__name__} & {*names})
        if is_one and beside in ("", threading.current_thread().name):
            refused.append(thread.name)
            raise error or RuntimeError("can't start new thread")
        start(thread)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_left)
        yield refused
