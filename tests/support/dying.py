"""The command line in a process that is killed, or stopped, in its n-th call of one system call.

``python -m tests.support.dying KILL pwrite 9 receive PATH ...`` runs ``streamlink receive PATH``.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from streamlink.cli import main
from tests.support.commands import REPOSITORY, Command, environment, streamlink

__all__ = ["command", "dying", "wait_stopped"]


def command(*words: object) -> Command:
    """Start ``streamlink`` with these words."""
    return Command(streamlink(*words), REPOSITORY, environment())


def dying(call: str, count: int, *words: object, by: str = "KILL") -> Command:
    """Start ``streamlink`` with these words, to be ended in its ``count``-th ``os.call``."""
    start = [sys.executable, "-m", "tests.support.dying", by, call, str(count)]
    return Command([*start, *map(str, words)], REPOSITORY, environment())


def wait_stopped(process: Command) -> None:
    """Wait until SIGSTOP has met the process."""
    _, status = os.waitpid(process.process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)


def _die_at(by: str, call: str, count: int) -> None:
    original, left = getattr(os, call), [count]

    def deadly(*args: object, **kwargs: object) -> object:
        left[0] -= 1
        if left[0] == 0:
            # By this thread, which so stops at once; another one would have to run first.
            signal.pthread_kill(threading.get_ident(), getattr(signal, f"SIG{by}"))
        return original(*args, **kwargs)

    setattr(os, call, deadly)


if __name__ == "__main__":
    _die_at(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    sys.argv[1:] = sys.argv[4:]
    main()
