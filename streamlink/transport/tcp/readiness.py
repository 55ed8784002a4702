"""``Readiness``: which of many sockets can be read or written now; any number of threads may ask.

Each answer goes to one thread, and is given once: whoever wants the next one asks for it (``arm``).
So no two threads ever work on the same socket because of it. The system has this where it has
``epoll``; elsewhere one thread after another waits, with ``poll``.
"""

from __future__ import annotations

import os
import select
import threading
from contextlib import suppress
from typing import Protocol

__all__ = ["READ", "WRITE", "EpollReadiness", "PollReadiness", "Readiness", "new_readiness"]

READ, WRITE = 1, 2


class Readiness(Protocol):
    """What can be done now."""

    def arm(self, fileno: int, wanted: int) -> None:
        """Have it told once when any of ``wanted`` can be done, or the connection has ended.

        What was wanted before, and not told yet, still is. It is told at once for what can be done
        already.
        """

    def forget(self, fileno: int) -> None:
        """Tell nothing more of it; to be called before it is closed."""

    def wait(self) -> int | None:
        """Wait until something can be done with a descriptor; returns that. None: it is closed."""

    def close(self) -> None:
        """Let all that wait go."""


def new_readiness() -> Readiness:
    """Return the best that this system has."""
    return EpollReadiness() if hasattr(select, "epoll") else PollReadiness()


class _Bell:
    """A pipe that is readable once it has rung, and stays so until it is silenced."""

    def __init__(self) -> None:
        self.fileno, self._write = os.pipe()
        os.set_blocking(self.fileno, False)
        os.set_blocking(self._write, False)

    def ring(self) -> None:
        with suppress(BlockingIOError):  # it rings already
            os.write(self._write, b"!")

    def silence(self) -> None:
        with suppress(BlockingIOError):
            os.read(self.fileno, 4096)

    def close(self) -> None:
        os.close(self.fileno)
        os.close(self._write)


class EpollReadiness:
    """See ``Readiness``; each event wakes one thread."""

    def __init__(self) -> None:
        self._epoll, self._bell = select.epoll(), _Bell()
        # It is never disarmed: once it has rung it wakes every thread.
        self._epoll.register(self._bell.fileno, select.EPOLLIN)
        self._lock = threading.Lock()
        self._wanted: dict[int, int] = {}

    def arm(self, fileno: int, wanted: int) -> None:
        """See ``Readiness``."""
        with self._lock:
            is_new = fileno not in self._wanted
            wanted |= self._wanted.get(fileno, 0)
            mask = (
                select.EPOLLONESHOT
                | (select.EPOLLIN if wanted & READ else 0)
                | (select.EPOLLOUT if wanted & WRITE else 0)
            )
            if is_new:
                self._epoll.register(fileno, mask)
            else:
                self._epoll.modify(fileno, mask)
            self._wanted[fileno] = wanted

    def forget(self, fileno: int) -> None:
        """See ``Readiness``."""
        with self._lock:
            if self._wanted.pop(fileno, None) is not None:
                self._epoll.unregister(fileno)

    def wait(self) -> int | None:
        """See ``Readiness``."""
        while True:
            ((fileno, _),) = self._epoll.poll(maxevents=1)
            if fileno == self._bell.fileno:
                return None
            with self._lock:
                # All of it: whoever works on a connection reads and writes what it can.
                if self._wanted.get(fileno):
                    self._wanted[fileno] = 0
                    return fileno

    def close(self) -> None:
        """See ``Readiness``; the descriptors go with the last thread that waits."""
        self._bell.ring()

    def __del__(self) -> None:
        self._epoll.close()
        self._bell.close()


class PollReadiness:
    """See ``Readiness``; of the threads that wait, one asks the system."""

    def __init__(self) -> None:
        self._bell = _Bell()
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._wanted: dict[int, int] = {}
        self._is_closed = False

    def arm(self, fileno: int, wanted: int) -> None:
        """See ``Readiness``."""
        with self._lock:
            self._wanted[fileno] = self._wanted.get(fileno, 0) | wanted
        self._bell.ring()  # who waits has to look at this one, too

    def forget(self, fileno: int) -> None:
        """See ``Readiness``."""
        with self._lock:
            self._wanted.pop(fileno, None)
        self._bell.ring()

    def wait(self) -> int | None:
        """See ``Readiness``."""
        with self._turn:
            while not self._is_closed:
                ready = [fileno for fileno, _ in self._armed().poll()]
                self._bell.silence()
                for fileno in ready:
                    with self._lock:
                        if self._wanted.get(fileno):
                            self._wanted[fileno] = 0
                            return fileno
            self._bell.ring()  # the next in turn has to see it, too
            return None

    def _armed(self) -> select.poll:
        poll = select.poll()
        poll.register(self._bell.fileno, select.POLLIN)
        with self._lock:
            for fileno, wanted in self._wanted.items():
                if wanted:
                    reads = select.POLLIN if wanted & READ else 0
                    poll.register(fileno, reads | (select.POLLOUT if wanted & WRITE else 0))
        return poll

    def close(self) -> None:
        """See ``Readiness``."""
        self._is_closed = True
        self._bell.ring()

    def __del__(self) -> None:
        self._bell.close()
