"""How long each end waits: for a silent channel, and for the peer while no call connects them.

A connection can break so that only one end notices, or neither: then a channel brings nothing more,
and nothing reports it. Whoever waits on it can find out only by trying another. But a channel over
a very slow link looks the same for as long as one chunk takes. So the timeout adapts
(``Liveness``), as a retransmission timeout does in TCP.

While there is no channel, or no call, at all, ``StreamOutage`` bounds the wait of a stream and
``SessionOutage`` that of a session. A call that brings a handshake and nothing else is no progress:
otherwise a peer that only ever completes handshakes would be waited for without end.

All calls start at the client, and a break may be visible at the server only: behind a proxy or a
NAT a client may think a dead connection alive until its ``session_timeout``. A connection that was
reset proves nothing about the client beyond the proxy, so the server waits equally long for both.
"""

from __future__ import annotations

from streamlink.config import TimeoutConfig
from streamlink.errors import AbortCode, StreamTimeout

FIRST = 4
"""How many times ``call_timeout`` the first bytes of a stream may take: nothing is known yet."""
_HANDSHAKE_SHARE = 0.6  # of open_timeout: a channel after that still has all of open_timeout
_MAX_DOUBLINGS = 10
_QUICK_FRAMES = 64  # so many in a row, and the channel that was replaced was broken, not slow


class Liveness:
    """The adaptive timeout of the silent channels of one stream, at one end.

    It is at least twice the longest pause after which a channel continued, and longer until the
    first bytes arrive. It doubles with each replaced channel whose successor brought nothing but
    its handshake (exponential back-off). The doubled value is kept until the peer has answered a
    number of times: with a reset at the first answer, a link that moves once in thirty seconds
    would lose a channel each time and the timeout would learn nothing. So every link that moves at
    all is waited for in the end.

    Args:
        call_timeout: how long a channel may be silent. open_timeout: bounds its handshake.
    """

    __slots__ = (
        "_call_timeout", "_doublings", "_frames", "_has_progressed", "_kept", "_longest",
        "_longest_handshake", "_open_timeout",
    )  # fmt: skip

    def __init__(self, call_timeout: float, *, open_timeout: float) -> None:
        self._call_timeout = call_timeout
        self._open_timeout = open_timeout
        self._has_progressed = False
        self._longest = self._longest_handshake = 0.0
        self._doublings = 0
        self._kept = self._frames = 0  # doublings of earlier channels, and frames since

    def timeout(self, *, is_handshake: bool) -> float:
        """Return how long the channels may be silent from now on (seconds)."""
        seconds = self._call_timeout * (1 if self._has_progressed else FIRST)
        seconds = max(seconds, 2 * self._longest)
        if is_handshake:
            seconds = min(seconds, self._open_timeout * _HANDSHAKE_SHARE)
            seconds = max(seconds, 2 * self._longest_handshake)
            return seconds * float(2**self._doublings)
        return seconds * float(2 ** max(self._doublings, self._kept))

    def record_progress(self, pause: float) -> None:
        """Note a frame that is no part of a handshake, after ``pause`` seconds of silence."""
        self._has_progressed = True
        if pause > self._longest:
            self._longest = pause
        if self._doublings:
            self._kept, self._doublings, self._frames = self._doublings, 0, 0
        elif self._kept:
            self._frames += 1
            if pause > self._call_timeout or self._frames >= _QUICK_FRAMES:
                self._kept = 0  # ``_longest`` has learnt it, or there was nothing to learn

    def record_handshake(self, pause: float) -> None:
        """Note a handshake that took ``pause`` seconds; later ones may take as long."""
        self._longest_handshake = max(self._longest_handshake, pause)

    def record_replacement(self) -> None:
        """Note that silent channels were closed, to be replaced."""
        self._doublings = min(max(self._doublings, self._kept) + 1, _MAX_DOUBLINGS)


# --- without a call ----------------------------------------------------------------------

RECONNECT_TRIES = 3
"""Calls that bring nothing and still leave time for another in ``reconnect_timeout`` (count)."""

_NOTABLE_SECONDS = 1.0  # a shorter break is not worth reporting


def extra_grace_seconds(timeouts: TimeoutConfig, detection_seconds: float) -> float:
    """Return how much longer than ``reconnect_timeout`` the server waits (seconds).

    Every break shorter than that timeout is survived, and a client that notices the break late has
    time for at least one try. In all it is never more than 4/3 of what was set here, whatever
    timeout a client announces: what a client can make a server keep has a bound.

    Args:
        timeouts: this end's.
        detection_seconds: how long the client may think a broken call alive.
    """
    longest = timeouts.reconnect_timeout
    detected = max(0.0, min(longest, detection_seconds))
    return max(0.0, detected + longest / RECONNECT_TRIES - longest)


class StreamOutage:
    """The time a stream has been without a working channel, since it last made progress."""

    __slots__ = ("_earlier", "_lost_at")

    def __init__(self) -> None:
        self._lost_at: float | None = None
        self._earlier = 0.0  # seconds of outages that ended in nothing but a handshake

    def begin(self, *, now: float) -> None:
        """Note that the last channel is lost; harmless when that is known."""
        if self._lost_at is None:
            self._lost_at = now

    def end(self, *, is_progress: bool, now: float) -> None:
        """Note a frame of the peer; only progress forgets the outages before."""
        if self._lost_at is not None:
            self._earlier += now - self._lost_at
            self._lost_at = None
        if is_progress:
            self._earlier = 0.0

    def deadline(self, grace_seconds: float) -> float | None:
        """Return when it will have lasted ``grace_seconds`` in all; None: there is no outage."""
        return None if self._lost_at is None else self._lost_at + grace_seconds - self._earlier

    def is_notable(self, *, now: float) -> bool:
        """Whether there is an outage, long enough for its owner to report it."""
        return self._lost_at is not None and now - self._lost_at > _NOTABLE_SECONDS


class SessionLost(StreamTimeout):
    """The call was lost and no other took over within ``reconnect_timeout``."""

    code = AbortCode.SESSION_LOST
    verb = "did not come back"

    def __str__(self) -> str:
        # Without stream and bytes, which a session has not.
        return (
            f"{self.who} {self.verb} for {self.seconds:.1f} s; if that is normal on this link, "
            f"raise {self.setting}"
        )


class GoodbyeUnanswered(SessionLost):
    """Our goodbye was not acknowledged within ``reconnect_timeout``."""

    verb = "did not acknowledge our goodbye"


class SessionOutage:
    """The time a session has been without a call, since the peer last made progress."""

    __slots__ = ("_earlier", "_grace_seconds", "_has_progressed", "_lost_at", "_reconnected_at")

    def __init__(self) -> None:
        self._lost_at = 0.0
        self._grace_seconds = 0.0
        self._reconnected_at = 0.0
        self._earlier = 0.0  # seconds of outages since the last progress
        self._has_progressed = True  # on this call, or it is the first

    def begin(self, grace_seconds: float, *, now: float) -> None:
        """Note that the call is lost; the outage may last ``grace_seconds`` in all."""
        # A call that brought nothing but its handshake does not interrupt the outage before it.
        self._lost_at = now if self._has_progressed else self._reconnected_at
        self._grace_seconds = grace_seconds

    def end(self, *, now: float) -> float:
        """Note the handshake of a new call; returns how long the outage was (seconds)."""
        seconds = now - self._lost_at
        self._earlier += seconds
        self._has_progressed = False
        self._reconnected_at = now
        return seconds

    def record_progress(self) -> None:
        """Note that the peer has sent something new."""
        self._earlier, self._has_progressed = 0.0, True

    def elapsed(self, *, now: float) -> float:
        """Return how long it has lasted in all (seconds)."""
        return self._earlier + now - self._lost_at

    def remaining(self, *, now: float) -> float:
        """Return how much longer it may last; negative: it has lasted too long (seconds)."""
        return self._grace_seconds - self._earlier + self._lost_at - now
