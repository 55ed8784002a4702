"""``Lines``: bounds how many streams of lazy readers are open at one client, and for how long.

An open stream costs the server a thread, and the client a window. So a reader that stands still
loses its stream, to another reader or after a moment; it opens another when it goes on.
"""

from __future__ import annotations

import threading
from typing import Protocol

from streamlink.cancel import CancelToken
from streamlink.clock import Clock

__all__ = ["LINES_PER_CLIENT", "LineOwner", "Lines"]

LINES_PER_CLIENT = 4
"""Streams of lazy readers that one client has open (count): half of what a server serves to one."""

_IDLE_SECONDS = 2.0


class LineOwner(Protocol):
    """A lazy reader, as others see it that need a stream."""

    def yield_line(self) -> bool:
        """Close the stream, unless it is being read just now; returns whether it was closed."""


class Lines:
    """The open streams of one client, the one used longest ago first."""

    def __init__(self, clock: Clock, most: int = LINES_PER_CLIENT) -> None:
        self._clock, self._most = clock, most
        self._changed = clock.condition()
        self._used: dict[LineOwner, float] = {}
        self._is_watched = False

    def __len__(self) -> int:
        """How many are open."""
        return len(self._used)

    def take(self, owner: LineOwner, cancel: CancelToken) -> None:
        """Wait for a place, and take it; another reader that stands still makes room.

        Args:
            owner: takes it.
            cancel: ends the wait.

        Raises:
            Cancelled: ``cancel`` was cancelled.
        """
        with cancel.calling(self._wake):
            self._take(owner, cancel)

    def _take(self, owner: LineOwner, cancel: CancelToken) -> None:
        while True:
            with self._changed:
                cancel.check()
                if owner in self._used or len(self._used) < self._most:
                    self._touch(owner)
                    return
                others = list(self._used)
            # Without the lock, which ``give_back`` needs.
            if not any(other.yield_line() for other in others):
                with self._changed:
                    if len(self._used) >= self._most and not cancel.is_cancelled:
                        self._changed.wait(_IDLE_SECONDS)

    def _wake(self, _: str) -> None:
        with self._changed:
            self._changed.notify_all()

    def touch(self, owner: LineOwner) -> None:
        """Note that the stream of ``owner`` was used."""
        with self._changed:
            if owner in self._used:
                self._touch(owner)

    def give_back(self, owner: LineOwner) -> None:
        """Let another have the place; harmless where it has none."""
        with self._changed:
            self._used.pop(owner, None)
            self._changed.notify_all()

    def _touch(self, owner: LineOwner) -> None:
        self._used.pop(owner, None)
        self._used[owner] = self._clock()
        if not self._is_watched:
            threading.Thread(target=self._watch, name="objects-idle", daemon=True).start()
            self._is_watched = True  # not where no thread could be started

    def _watch(self) -> None:
        """Close the streams that nobody reads; ends with the last of them."""
        try:
            while (idle := self._wait_idle()) is not None:
                for owner in idle:
                    owner.yield_line()
        except BaseException:
            with self._changed:
                self._is_watched = False  # the next one that is used is watched again
            raise

    def _wait_idle(self) -> list[LineOwner] | None:
        """Return who has not read for a while; None: no stream is open, and nobody watches."""
        with self._changed:
            self._changed.wait_for(lambda: not self._used, _IDLE_SECONDS)
            if not self._used:
                self._is_watched = False
                return None
            until = self._clock() - _IDLE_SECONDS
            return [owner for owner, used in self._used.items() if used <= until]
