"""When a receiver tells where it stands: at once on a slow link, for more than one chunk on a fast.

As TCP does: an ack wakes threads at both ends, so where chunks are full one ack speaks for two of
them. Where the window is wide a third may come while the second is taken: then one ack gives back
its credit, too. What waits so is told a moment later, whatever else happens.
"""

from __future__ import annotations

from streamlink.protocol.timers import Timers

REPORT = "report"
"""The clock of an ack that waits."""

_DELAY_SECONDS = 0.1  # an ack that could speak for more chunks waits for them this long
_MOST_REPORT_SECONDS = 1.0  # what was taken is told this soon: a slow reader is seen to move


class AckRule:
    """Whether an ack ``is_due``; whoever has something that cannot wait sets it.

    Args:
        window_bytes: what the sender may have on its way.
        report_seconds: what was taken is told after so long at the latest, and after a second.
        timers: where ``REPORT`` runs.
    """

    __slots__ = (
        "_report_seconds", "_spoken_for", "_timers", "_told_at", "_untold", "_window_bytes",
        "is_due",
    )  # fmt: skip

    def __init__(self, window_bytes: int, *, report_seconds: float, timers: Timers) -> None:
        self.is_due = False
        self._window_bytes = window_bytes
        self._report_seconds = min(_MOST_REPORT_SECONDS, report_seconds)
        self._timers = timers
        self._spoken_for = 1  # chunks that one ack may wait to speak for
        self._untold = 0  # chunks delivered since the last ack
        self._told_at = float("-inf")

    def agree(self, chunk_bytes: int) -> None:
        """Note the size of a full chunk."""
        in_window = self._window_bytes // chunk_bytes
        self._spoken_for = 1 if in_window < 4 else 2 if in_window < 8 else 3

    def delivered(self, count: int, *, is_full: bool, now: float) -> None:
        """Note that ``count`` chunks more were delivered.

        Args:
            count: how many.
            is_full: the last was of full size, and none is missing.
            now: monotonic seconds.
        """
        self._untold += count
        if is_full and self._untold < self._spoken_for:
            self._timers.start(REPORT, _DELAY_SECONDS, now=now)
        else:
            self.is_due = True

    def taken(self, *, is_credit_due: bool, is_all_taken: bool, now: float) -> None:
        """Note that the sink has taken some more.

        Args:
            is_credit_due: so much that the sender should have credit for it.
            is_all_taken: everything that has arrived: nothing is left to wait for.
            now: monotonic seconds.
        """
        is_told_now = is_credit_due or (is_all_taken and self._untold >= 2)
        if is_told_now or now - self._told_at >= self._report_seconds:
            self.is_due = True
        elif not self._timers.is_running(REPORT):
            self._timers.start(REPORT, self._told_at + self._report_seconds - now, now=now)

    def expired(self) -> None:
        """Note that ``REPORT`` has expired: what waited is due."""
        self._timers.stop(REPORT)
        self.is_due = True

    def told(self, *, now: float) -> None:
        """Note that an ack leaves now; it speaks for everything so far."""
        self.is_due = False
        self._untold = 0
        self._told_at = now
        self._timers.stop(REPORT)
