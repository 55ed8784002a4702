"""How often a word that only says "it moves" leaves: work may move a thousand times a second."""

from __future__ import annotations

from streamlink.clock import Clock

__all__ = ["Pace"]

_SECONDS = 0.02  # far below every deadline, and far below what a peer takes for a flood


class Pace:
    """Lets through one word at once, and then one every so often."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due = 0.0

    def is_due(self) -> bool:
        """Whether the word may leave now; if so, the next has to wait a little."""
        now = self._clock()
        if now < self._due:
            return False
        self._due = now + _SECONDS
        return True
