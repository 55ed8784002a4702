"""Makes stdout and stderr tolerate write errors, so that they cannot fail a command.

A pipe may have no reader, the disk behind ``>`` may be full, or the stream was closed from the
start. That is not an error of the job, whose model may be stored already: further output is
dropped, stderr gets one message, and the exit code stays that of the job.
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
    """Replace stdout and stderr by tolerant ones.

    The kernel gives a closed descriptor 0 to 2 to the next file that is opened, such as a model's,
    and a ``print`` would write into it. So closed ones are opened with a read-only null device.
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
    """Flush stdout while a write error can still be reported."""
    if _stdout is not None:
        sys.stdout.flush()


def is_lost() -> bool:
    """Tell whether stdout has failed, so that nobody reads it any more."""
    return _stdout is not None and _stdout.has_lost


class _Forgiving(io.FileIO):
    """A file that drops what it cannot write, instead of raising."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd, "w", closefd=False)
        self.has_lost = False

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            # None: the descriptor is non-blocking and its reader is slow (EAGAIN).
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

        # A reader that closes the pipe, such as ``head``, usually does so on purpose.
        level = logging.INFO if isinstance(error, BrokenPipeError) else logging.WARNING
        text = "writing to stdout failed (%s); further output is dropped, the command continues"
        logging.getLogger("streamlink.command").log(level, text, error.strerror)


def _wait_for_room(fd: int) -> None:
    import select

    select.select((), (fd,), ())


def _text(file: _Forgiving, before: TextIO | None) -> TextIO:
    """Return a text stream over ``file``, with the settings of ``before``; None: it was closed."""
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
