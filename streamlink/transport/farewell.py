"""Clients that are away when their server closes: it stays a moment, so that they hear of it.

A client whose connection is lost tries again every few seconds. One that finds nobody cannot know
whether the server is about to be started again, and waits for ``reconnect_timeout``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from streamlink.transport.reconnect import LONGEST_PAUSE_SECONDS

__all__ = ["Farewell"]

MOST_SECONDS = LONGEST_PAUSE_SECONDS + 0.5
"""Longer than any client pauses between two tries (seconds)."""


class Farewell:
    """The sessions whose clients have still to be told."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: set[str] = set()

    def await_all(self, session_ids: Iterable[str]) -> None:
        """Note who is away."""
        with self._changed:
            self._waiting.update(session_ids)

    def told(self, session_id: str) -> None:
        """Note that a client came back and was told that its session is over."""
        with self._changed:
            self._waiting.discard(session_id)
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait until all were told, up to ``seconds``; returns whether they were."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, min(seconds, MOST_SECONDS))
