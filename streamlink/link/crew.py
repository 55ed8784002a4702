"""``Crew``: does work in a bounded number of threads, a fair share of them for each peer."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable
from math import inf
from typing import NamedTuple

__all__ = ["Crew", "LineFull"]

logger = logging.getLogger("streamlink.server")


class _Work(NamedTuple):
    whose: str
    do: Callable[[], object]


class LineFull(Exception):
    """As much work waits for a thread as may."""


class Crew:
    """Does what it is given in the order in which it comes, each in a thread.

    There is a thread only while there is work. All are daemons: a process that ends does not wait
    for them.

    Args:
        name: of its threads.
        most: threads at a time (count).
        most_each: threads at a time for one peer (count).
        spare: threads beyond ``most``, for peers that have none, so that the first task of a peer
            never waits (count).
        most_waiting: tasks that wait for a thread (count).
    """

    def __init__(
        self, name: str, *, most: int, most_each: int, spare: int = 0, most_waiting: float = inf
    ) -> None:
        self._name, self._most, self._most_each = name, most, most_each
        self._spare, self._most_waiting = spare, most_waiting
        self._lock = threading.Lock()
        self._waiting: deque[_Work] = deque()
        self._busy: Counter[str] = Counter()

    def give(self, whose: str, do: Callable[[], object]) -> bool:
        """Have ``do`` called, now or once a thread is free; returns at once whether it is now.

        Raises:
            LineFull: it would have to wait, and ``most_waiting`` others do.
            RuntimeError: the system has no room for another thread.
        """
        with self._lock:
            self._waiting.append(_Work(whose, do))
            # Not always ``do``: work that was put back because no thread could start has no thread
            # to take it, and is older.
            work = self._take()
            if work is None and len(self._waiting) > self._most_waiting:
                self._waiting.pop()
                raise LineFull
        if work is None:
            return False
        try:
            threading.Thread(target=self._run, args=(work,), name=self._name, daemon=True).start()
        except BaseException:
            self._put_back(work, but=do)
            raise
        return work.do is do

    def take_back(self, do: Callable[[], object]) -> bool:
        """Have ``do`` not called; returns False where a thread has it already."""
        with self._lock:
            left = deque(each for each in self._waiting if each.do is not do)
            was_there, self._waiting = len(left) < len(self._waiting), left
            return was_there

    def _put_back(self, work: _Work, but: Callable[[], object]) -> None:
        """Free the place of work for which there is no thread; ``but``: who gave it is told."""
        with self._lock:
            self._busy[work.whose] -= 1
            self._busy += Counter()
            self._waiting.appendleft(work)
            self._waiting = deque(each for each in self._waiting if each.do is not but)

    def _run(self, work: _Work | None) -> None:
        while work is not None:
            try:
                work.do()
            # Also ``sys.exit``: the others that wait have to be done all the same, in this place.
            except BaseException:
                logger.exception("%s: work for %s failed", self._name, work.whose)
            with self._lock:
                self._busy[work.whose] -= 1
                self._busy += Counter()  # drops who has none: names come and go
                work = self._take()

    def _take(self) -> _Work | None:
        """Remove the first work item for which there is a thread; the caller holds the lock."""
        busy = self._busy.total()
        if busy >= self._most + self._spare:
            return None
        # Above ``most`` are the spare places, for peers that have no thread yet.
        most_each = self._most_each if busy < self._most else 1
        # In order, but past the work of peers that have their share: who gives much at once blocks
        # nobody behind it (no head-of-line blocking).
        for place, work in enumerate(self._waiting):
            if self._busy[work.whose] < most_each:
                del self._waiting[place]
                self._busy[work.whose] += 1
                return work
        return None
