"""Waits until what this process wrote to standard error has been read by whoever shows it.

``mpiexec`` reads the standard error of its processes from pipes. Once one of them calls
``MPI_Abort`` it ends, and what is still in a pipe may be lost: the one line that says why.
"""

from __future__ import annotations

import array
import fcntl
import os
import stat
import termios
from contextlib import suppress

from streamlink.clock import Clock

__all__ = ["STANDARD_ERROR", "wait_read"]

STANDARD_ERROR = 2
"""The file descriptor, also where ``sys.stderr`` was replaced."""

_LOOK_SECONDS = 0.01  # a pipe tells nobody that it was read


def wait_read(pipe: int, seconds: float, clock: Clock) -> bool:
    """Wait until a pipe is empty.

    Args:
        pipe: a file descriptor of either end. Nothing is waited for if it is not of a pipe.
        seconds: the longest wait.
        clock: what the wait goes by.

    Returns:
        Whether nothing is left in the pipe.
    """
    end, never = clock() + seconds, clock.event()
    while _is_unread(pipe):
        if clock() >= end:
            return False
        clock.wait(never, _LOOK_SECONDS)
    return True


def _is_unread(pipe: int) -> bool:
    unread = array.array("i", [0])
    with suppress(OSError):  # it is closed, or the system cannot tell
        if stat.S_ISFIFO(os.fstat(pipe).st_mode):
            fcntl.ioctl(pipe, termios.FIONREAD, unread)
    return unread[0] > 0
