"""What a command prints never costs what it has done.

A pipe whose reader has left, a full disk behind ``>``, or a stream that was closed from the outset
takes nothing. That is no fault of the job, whose model may be stored by then: what is printed is
lost from there on, stderr hears of it once, and the exit code stays that of the job.
"""

from __future__ import annotations

import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from _typeshed import ReadableBuffer

__all__ = ["begin", "flush", "is_lost"]


def begin() -> None:
    """Make stdout and stderr what is said above, from now on.

    A closed descriptor would be given to the next file that is opened, such as a model's, and
    whoever prints would write into that. So it is taken by a file that cannot be written to.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # takes the lowest free number: this one
    global _stdout
    _stdout = _Forgiving(1)
    sys.stdout = _text(_stdout, sys.stdout)
    sys.stderr = _text(_Forgiving(2), sys.stderr)


def flush() -> None:
    """Let out what is printed, while its loss can still be told."""
    if _stdout is not None:
        sys.stdout.flush()


def is_lost() -> bool:
    """Tell whether what is printed on stdout reaches nobody any more."""
    return _stdout is not None and _stdout.has_lost


class _Forgiving(io.FileIO):
    """A file that loses what it cannot write, instead of raising."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd, "w", closefd=False)
        self.has_lost = False

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            # None: it does not block, and its reader is slow. A terminal may be so, too.
            while (written := super().write(data)) is None:
                _wait_for_room(self.fileno())
        except OSError as error:
            if not self.has_lost:
                self.has_lost = True
                self._tell(error)
            return memoryview(data).nbytes
        return written

    def _tell(self, error: OSError) -> None:
        if self.fileno() != 1:
            return  # stderr itself
        import logging

        # A reader that has left, such as ``head``, usually means to.
        level = logging.INFO if isinstance(error, BrokenPipeError) else logging.WARNING
        text = "stdout takes nothing more (%s); what the command does is not affected"
        logging.getLogger("streamlink.command").log(level, text, error.strerror)


def _wait_for_room(fd: int) -> None:
    import select

    select.select((), (fd,), ())


def _text(file: _Forgiving, before: TextIO | None) -> TextIO:
    """Return what writes text to ``file`` as ``before`` did; None: that was closed."""
    buffered = io.BufferedWriter(file)
    if before is None:
        return io.TextIOWrapper(buffered, "utf-8", "backslashreplace", line_buffering=True)
    assert isinstance(before, io.TextIOWrapper)
    before.flush()
    return io.TextIOWrapper(
        buffered,
        before.encoding,
        before.errors,
        line_buffering=before.line_buffering or before.write_through,  # the latter: python -u
    )


_stdout: _Forgiving | None = None
