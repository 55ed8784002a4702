"""``Holding``: the shelf of a server behind its lock, and its contents freed outside of it.

A read may end in a finalizer, and the garbage collector runs those at any moment, in any thread:
also in one that is inside the shelf, or has the lock of a content. So a finalizer ends nothing. It
leaves that to ``end_later``, and the next use of the shelf does it, or the thread that waits for
expiry.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

from streamlink.clock import Clock
from streamlink.config import ObjectLimits
from streamlink.errors import StreamlinkError
from streamlink.model.interfaces import ModelSource
from streamlink.objects.content import Content
from streamlink.objects.reference import Sealer
from streamlink.objects.shelf import Lease, Shelf

__all__ = ["Holding"]

logger = logging.getLogger("streamlink.objects")

_LONGEST_NAP_SECONDS = 60.0  # so often lost readers are looked for


class Holding:
    """What one server holds. Any thread may use it.

    Args:
        limits: how many objects, how large, and for how long.
        clock: the time that they expire by.
    """

    def __init__(self, limits: ObjectLimits, clock: Clock) -> None:
        self.limits, self.clock = limits, clock
        self.changed = clock.condition()
        """Notified whenever the shelf was used; its lock is that of the shelf."""
        self._shelf: Shelf[Content] = Shelf(limits, Sealer(), clock, clock.wall)
        self._ending: deque[Callable[[], object]] = deque()  # one for each open object at most
        self._is_closed = False

    @contextmanager
    def on_shelf(self) -> Iterator[Shelf[Content]]:
        """Hold the lock within the block; what is released in it is freed afterwards."""
        self._end_now()
        with self._locked() as shelf:
            yield shelf

    @contextmanager
    def _locked(self) -> Iterator[Shelf[Content]]:
        try:
            with self.changed:
                yield self._shelf
                self.changed.notify_all()
        finally:
            # Without the lock: to remove a model from a disk may take seconds.
            with self.changed:
                released = self._shelf.take_released()
            for content in released:
                _free(content)

    @contextmanager
    def reading(self, lease: Lease[Content]) -> Iterator[ModelSource]:
        """Give the object as a source, which stays open within the block.

        Raises:
            ObjectError: the object is gone, or the lease was closed.
            StoreError: it cannot be opened.
        """
        with self._locked() as shelf:
            content = shelf.enter(lease)
        try:
            with content.reading() as source:
                yield source
        finally:
            with self._locked() as shelf:
                shelf.leave(lease)

    def end(self, lease: Lease[Content], *, is_complete: bool) -> None:
        """End a read; one that is complete is used up."""
        with self._locked() as shelf:
            shelf.close(lease, is_complete=is_complete)

    def end_later(self, close: Callable[[], object]) -> None:
        """Have a read ended by ``close``, soon and in another call; a finalizer may call this."""
        if self._is_closed:
            return  # nothing is held any more, and its files are closed with whoever has them
        self._ending.append(close)
        # Never waits. A thread that has the lock already gets it once more, which is harmless: the
        # shelf is not touched, and one ``notify_all`` may interrupt another. If another thread has
        # the lock, it notifies as it leaves the shelf, or the next nap ends after a minute.
        if self.changed.acquire(blocking=False):
            try:
                self.changed.notify_all()
            finally:
                self.changed.release()

    def _end_now(self) -> None:
        """End what was left to be ended. Without the lock, and not within an end: see ``reading``.

        An error is nobody's: whoever calls this may work for another client.
        """
        while self._ending:
            try:
                close = self._ending.popleft()
            except IndexError:  # another thread has taken it
                return
            try:
                close()
            except Exception:
                logger.exception("a read that nobody refers to could not be ended")

    def close(self) -> None:
        """Release everything, even where bytes move."""
        self._is_closed = True
        with self.on_shelf() as shelf:
            shelf.clear()

    def wait_expiry(self, other: Callable[[], float | None], is_over: Callable[[], bool]) -> None:
        """Wait until something expires, here or of ``other``, or the shelf was used."""
        with self.changed:
            times = (self._shelf.next_expiry, other())
            due = min((time for time in times if time is not None), default=inf)
            nap = min(due - self.clock(), _LONGEST_NAP_SECONDS)
            if nap > 0 and not is_over() and not self._ending:
                self.changed.wait(nap)


def _free(content: Content) -> None:
    try:
        content.release()
    except (StreamlinkError, OSError) as error:
        logger.warning("an object could not be removed: %s", error)
    except Exception:  # of a model that the owner put: nobody else's call may fail with it
        logger.exception("an object could not be released")
