"""``Liveness``: how long a call may bring nothing before it is given up and another one is tried.

A connection can break so that only one end sees it, or nobody: then a call brings nothing more,
and nothing says so. Whoever waits on it can find out only by trying another. But a call over a very
slow link looks the same for as long as one chunk takes. So patience learns: it is at least twice
the longest pause after which a call went on; it is longer until the first bytes have come, when
nothing is known of the link; and it doubles with each call that was given up and whose successor
brought nothing but its greeting. What it came to so is kept until the peer has moved a number of
times: one that moves each half minute would else cost a call each time, and nothing be learnt. So
every link is met that moves at all.
"""

from __future__ import annotations

FIRST = 4
"""How many times ``call_timeout`` the first bytes of a stream may take."""
_OF_OPEN_TIMEOUT = 0.6  # what the greeting may take; a call after that has all of open_timeout
_MOST_DOUBLINGS = 10
_QUICK_MOVES = 64  # so many in a row, and the call that was given up was broken, not slow


class Liveness:
    """The patience of one end of one stream (seconds).

    Args:
        call_timeout: how long a call may bring nothing. open_timeout: bounds its greeting.
    """

    __slots__ = (
        "_call_timeout", "_doublings", "_has_moved", "_kept", "_longest", "_longest_greeting",
        "_moves", "_open_timeout",
    )  # fmt: skip

    def __init__(self, call_timeout: float, *, open_timeout: float) -> None:
        self._call_timeout = call_timeout
        self._open_timeout = open_timeout
        self._has_moved = False
        self._longest = self._longest_greeting = 0.0
        self._doublings = 0
        self._kept = self._moves = 0  # doublings of calls before, and moves since

    def patience(self, *, is_greeting: bool) -> float:
        """Return how long the call may be silent from now on (seconds)."""
        seconds = self._call_timeout * (1 if self._has_moved else FIRST)
        seconds = max(seconds, 2 * self._longest)
        if is_greeting:
            seconds = min(seconds, self._open_timeout * _OF_OPEN_TIMEOUT)
            seconds = max(seconds, 2 * self._longest_greeting)
            return seconds * float(2**self._doublings)
        return seconds * float(2 ** max(self._doublings, self._kept))

    def moved(self, pause: float) -> None:
        """Note that the call brought more than a greeting, after ``pause`` seconds of silence."""
        self._has_moved = True
        if pause > self._longest:
            self._longest = pause
        if self._doublings:
            self._kept, self._doublings, self._moves = self._doublings, 0, 0
        elif self._kept:
            self._moves += 1
            if pause > self._call_timeout or self._moves >= _QUICK_MOVES:
                self._kept = 0  # it is learnt, or there was nothing to learn

    def greeted(self, pause: float) -> None:
        """Note that a call brought its greeting after ``pause`` seconds; others may, too."""
        self._longest_greeting = max(self._longest_greeting, pause)

    def gave_up(self) -> None:
        """Note that a call was given up."""
        self._doublings = min(max(self._doublings, self._kept) + 1, _MOST_DOUBLINGS)
