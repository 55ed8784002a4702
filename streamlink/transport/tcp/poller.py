"""``Poller``: a few threads that work on many connections, whenever there is something to do.

A thread for each connection would be blocked most of the time; and when many connections are
active, more threads than cores only contend for the interpreter.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from streamlink.transport.tcp.readiness import new_readiness

__all__ = ["THREADS", "Poller"]

THREADS = 4
"""That work on connections, however many there are (count)."""

logger = logging.getLogger("streamlink.transport")


class Poller:
    """Calls what works on a connection, in one of its threads, once that can be read or written.

    Args:
        name: of its threads.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._readiness = new_readiness()
        self._lock = threading.Lock()
        self._acts: dict[int, Callable[[], object]] = {}
        self._threads = 0
        self.arm = self._readiness.arm
        """Have it called once more; see ``Readiness``."""

    def add(self, fileno: int, act: Callable[[], object]) -> None:
        """Have ``act`` called whenever what is armed can be done, until it is removed.

        It must not wait: others wait for the same threads.

        Raises:
            RuntimeError: there is no thread to call it.
        """
        with self._lock:
            if self._threads < THREADS:
                self._start()
            self._acts[fileno] = act

    def remove(self, fileno: int) -> None:
        """Call nothing for it any more; it may be closed then."""
        with self._lock:
            self._acts.pop(fileno, None)
        self._readiness.forget(fileno)

    def close(self) -> None:
        """End the threads."""
        self._readiness.close()

    def _start(self) -> None:
        try:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        except RuntimeError:
            if not self._threads:
                raise
        else:
            self._threads += 1

    def _run(self) -> None:
        while (fileno := self._readiness.wait()) is not None:
            act = self._acts.get(fileno)
            if act is None:  # removed meanwhile
                continue
            try:
                act()
            except BaseException:  # the others still need this thread
                logger.exception("work on a connection failed")
            act = None  # what it refers to must not wait with this thread
