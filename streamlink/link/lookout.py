"""Looks now and then whether a model that is being sent is still what it was.

The check after the last byte is what counts; those before save the sending of a model that will be
refused. A check may cost milliseconds where there are 100,000 tensors, so they take one part in a
hundred of the time at most.
"""

from __future__ import annotations

from streamlink.clock import Clock
from streamlink.model.interfaces import Check

__all__ = ["Lookout"]

_SHARE = 100


class Lookout:
    """Calls ``check`` when asked to look, unless that was just done.

    Args:
        check: of the source.
        clock: gives the time (seconds).
    """

    def __init__(self, check: Check, clock: Clock) -> None:
        self._check = check
        self._clock = clock
        self._due = clock()

    def look(self) -> None:
        """Check if it is time to; raises as the check does."""
        began = self._clock()
        if began < self._due:
            return
        self._check()
        ended = self._clock()
        self._due = ended + _SHARE * (ended - began)
