"""``ProofSchedule``: when a data port is tried, and when streams may use it. No I/O, no clock.

A port that a firewall blocks today may be open tomorrow, so that no failure is final. But each try
takes a while and may be logged by whoever guards that network, so the pauses grow.
"""

from __future__ import annotations

__all__ = ["ProofSchedule"]

RETRY_SECONDS = (60.0, 300.0, 900.0)
"""Pauses after the first, second, and every later failure in a row that counts (seconds)."""

ONCE_MORE_SECONDS = 1.0
"""The pause after the very first failure, which does not count: its session may be ending, or many
clients have come at once (seconds)."""

QUICK_SECONDS = (1.0, 5.0, 15.0)
"""Pauses before those where streams have moved over the port in this session (seconds): no firewall
blocks it, so more likely the line has faults that pass."""

_MOST_EMPTY_CALLS = 2


class ProofSchedule:
    """The state of one data port, as its client sees it.

    Args:
        now: the first try is due then (seconds).
    """

    def __init__(self, now: float) -> None:
        self._due: float | None = now
        self._failures = 0
        self._empty_calls = 0
        self._pause = 0.0
        self._pauses: tuple[float, ...] = (ONCE_MORE_SECONDS, *RETRY_SECONDS)

    @property
    def is_proven(self) -> bool:
        """Whether streams may use it."""
        return self._due is None

    @property
    def due(self) -> float | None:
        """When the next try is due (seconds); None: it is proven."""
        return self._due

    @property
    def failures(self) -> int:
        """Failures in a row (count); 0: it works, or has not been tried."""
        return self._failures

    @property
    def pause(self) -> float:
        """How long the last failure keeps streams from it (seconds)."""
        return self._pause

    @property
    def is_news(self) -> bool:
        """Whether somebody should be told of the last failure.

        That is the one of a row which begins the pauses of minutes. Those before it often pass,
        and those after it say the same again.
        """
        return self._pause == RETRY_SECONDS[0]

    def succeeded(self) -> None:
        """A try has succeeded.

        It does not end the row of failures. Some networks let the few bytes of a proof pass and
        nothing larger: what counts is that a stream has moved.
        """
        self._due = None

    def failed(self, now: float) -> None:
        """A try has failed at ``now`` (seconds); the next one is due after a ``pause``."""
        self._pause = self._pauses[min(self._failures, len(self._pauses) - 1)]
        self._failures += 1
        self._empty_calls = 0
        self._due = now + self._pause

    def moved(self) -> None:
        """A call over it has moved something."""
        self._failures = self._empty_calls = 0
        self._pauses = QUICK_SECONDS + RETRY_SECONDS

    def broke(self, now: float, *, was_silent: bool = False) -> bool:
        """A call over it has ended early; returns whether streams are to do without it for now.

        Args:
            now: the time (seconds).
            was_silent: nothing had arrived on it for too long.
        """
        self._empty_calls += 1
        # One empty call proves nothing: its connection may have been lost as it was made. Silence
        # does, since it has cost the stream a minute already (``call_timeout``).
        if was_silent or self._empty_calls >= _MOST_EMPTY_CALLS:
            self.failed(now)
            return True
        # Proven again first: the port may have gone with the connection.
        self._due = now
        return False
