"""Rate limits for what work could cause a thousand times a second: progress reports and checks.

Both are throttles, with different rules. A report is due once per fixed interval. A check of the
source has a cost that depends on the model, so it gets a fixed share of the time instead.
"""

from __future__ import annotations

from streamlink.clock import Clock
from streamlink.model.interfaces import Check

__all__ = ["Throttle", "ThrottledCheck"]

_REPORT_SECONDS = 0.02  # far below every deadline, and far below what a peer takes for a flood
_CHECK_SHARE = 100


class Throttle:
    """Lets one report through at once, and then one per interval."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due = 0.0

    def is_due(self) -> bool:
        """Return whether a report may be sent now; if so, the next one has to wait."""
        # Without a lock: two threads that both find it due send one report too many, and no more.
        now = self._clock()
        if now < self._due:
            return False
        self._due = now + _REPORT_SECONDS
        return True


class ThrottledCheck:
    """Checks now and then whether a model that is being sent has changed.

    The check after the last byte is what counts; those before it only avoid sending the rest of a
    model that will be refused. With 100,000 tensors one check takes milliseconds, so checks get at
    most one hundredth of the time.

    Args:
        check: the source's.
        clock: returns the time (seconds).
    """

    def __init__(self, check: Check, clock: Clock) -> None:
        self._check = check
        self._clock = clock
        self._due = clock()

    def check_if_due(self) -> None:
        """Check, unless the last check was a short time ago; raises what the check raises."""
        began = self._clock()
        if began < self._due:
            return
        self._check()
        ended = self._clock()
        # By the last check: how long one takes changes with the load of the disk.
        self._due = ended + _CHECK_SHARE * (ended - began)
