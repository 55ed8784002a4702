"""How long each end waits for the other while no call joins them.

``Outage`` is a stream's clock, ``Absence`` a session's. A call that brings a greeting and nothing
else is no progress: else a peer that only ever greets would be waited for without end.

All calls start at the client, and a break may be seen at the other end only: behind a proxy or a
NAT a client may take a dead connection for alive until it has heard nothing for its
``session_timeout``. A connection that was reset proves nothing about the client beyond it, so the
server waits equally long for both.
"""

from __future__ import annotations

from streamlink.config import TimeoutConfig
from streamlink.errors import AbortCode, StreamTimeout

TRIES = 3
"""A new call that brings nothing leaves time for others within ``reconnect_timeout`` (count)."""

_NEWS_SECONDS = 1.0  # a shorter break is not worth a word


def longer_than_reconnect(timeouts: TimeoutConfig, unnoticed: float) -> float:
    """Return how much longer than ``reconnect_timeout`` the server waits (seconds).

    Every break shorter than that is survived. A client that notices late has time for one try at
    least; in all it is never more than 4/3 of what was set here, whatever a client asks.

    Args:
        timeouts: this end's.
        unnoticed: how long the client may take a broken call for alive (seconds).
    """
    longest = timeouts.reconnect_timeout
    noticed = max(0.0, min(longest, unnoticed))
    return max(0.0, noticed + longest / TRIES - longest)


class Outage:
    """The time a stream has been without a channel that works, since anything last moved."""

    __slots__ = ("_lost_at", "_missed")

    def __init__(self) -> None:
        self._lost_at: float | None = None
        self._missed = 0.0  # of outages that ended in a greeting only (seconds)

    def begin(self, *, now: float) -> None:
        """Note that the last channel is lost, unless it was noted before."""
        if self._lost_at is None:
            self._lost_at = now

    def heard(self, *, is_progress: bool, now: float) -> None:
        """Note that the peer said something; only progress forgets the time before."""
        if self._lost_at is not None:
            self._missed += now - self._lost_at
            self._lost_at = None
        if is_progress:
            self._missed = 0.0

    def deadline(self, patience: float) -> float | None:
        """Return when it will have lasted ``patience`` seconds in all; None: it does not run."""
        return None if self._lost_at is None else self._lost_at + patience - self._missed

    def is_news(self, *, now: float) -> bool:
        """Whether it runs, and has for so long that its owner should know."""
        return self._lost_at is not None and now - self._lost_at > _NEWS_SECONDS


class SessionLost(StreamTimeout):
    """The call was lost and no other took over within ``reconnect_timeout``."""

    code = AbortCode.SESSION_LOST
    verb = "did not come back"


class GoodbyeUnanswered(SessionLost):
    """Our goodbye was not acknowledged within ``reconnect_timeout``."""

    verb = "did not acknowledge our goodbye"


class Absence:
    """The absence that runs, and what it adds to."""

    __slots__ = ("_greeted_at", "_has_heard", "_lost_at", "_missed", "_patience")

    def __init__(self) -> None:
        self._lost_at = 0.0
        self._patience = 0.0
        self._greeted_at = 0.0
        self._missed = 0.0  # seconds without a call since the peer last said anything new
        self._has_heard = True  # news on this call, or it is the first

    def begin(self, patience: float, *, now: float) -> None:
        """Note that the call is lost, which may last ``patience`` seconds in all."""
        self._lost_at = now if self._has_heard else self._greeted_at
        self._patience = patience

    def end(self, *, now: float) -> float:
        """Note that the peer has greeted again; returns how long it was gone (seconds)."""
        gone = now - self._lost_at
        self._missed += gone
        self._has_heard = False
        self._greeted_at = now
        return gone

    def heard(self) -> None:
        """Note that the peer has said something new."""
        self._missed, self._has_heard = 0.0, True

    def seconds(self, *, now: float) -> float:
        """Return how long it has lasted (seconds)."""
        return self._missed + now - self._lost_at

    def left(self, *, now: float) -> float:
        """Return how much longer it may last; below zero: it has lasted too long (seconds)."""
        return self._patience - self._missed + self._lost_at - now
