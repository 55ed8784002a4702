"""How long a session has been away, counted from when its peer last said anything new.

A call that brings a greeting and nothing else ends no absence: the next goes on where it stood, or
a peer that only ever greets would be waited for without end.
"""

from __future__ import annotations

from streamlink.errors import AbortCode, StreamTimeout


class SessionLost(StreamTimeout):
    """The call was lost and no other took over within ``reconnect_timeout``."""

    code = AbortCode.SESSION_LOST
    verb = "did not come back"


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
