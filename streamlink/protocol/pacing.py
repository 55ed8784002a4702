"""Pacing: which stream may move its next bytes, and when, under one limit for all of a direction.

``Pacer`` is a token bucket with a line before it. A stream that has used up its allowance joins the
line and is given the next part when it is first and the tokens are there; then it joins at the end.
So streams with equal parts get equal rates, as in round-robin scheduling (Nagle, RFC 970), and one
that cannot move holds up no other. Receivers are paced by what credit they give, not by reads: no
byte of a model travels that was not permitted. What it costs is an estimate where encodings are in
use (``credit_cost``).

The bound: in any span of ``t`` seconds no more than ``rate * (SHARE * t + BURST_SECONDS)`` bytes
get an allowance. Over 10 s that is 0.995 of the rate.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

from streamlink.config.bandwidth import DEBT_SECONDS, LEAST_CHUNK_BYTES
from streamlink.protocol.credit_cost import largest_ratio

__all__ = ["ANYWHERE", "BURST_SECONDS", "SHARE", "UNLIMITED", "Pacer", "Portion"]

SHARE = 0.98
"""Of the limit that tokens come at."""

BURST_SECONDS = 0.15
"""Tokens that wait for a stream are those of so much time (seconds)."""

PART_SECONDS = 0.06
"""A part takes at most this long (seconds), unless it is the smallest chunk. It is well below the
burst: what lies between makes up for a thread that wakes late."""

AHEAD_SECONDS = 0.5
"""What receivers of one process have promised and is not here is at most so much time's, as it is
expected to travel (``credit_cost``); beyond the round trip of nearly every line."""

HEADER_BYTES = 96
"""What a chunk costs beside its payload: its header, and what the carrier puts around it."""

ANYWHERE = 1 << 62
"""Up to where a stream may move that has no limit."""

_LARGEST_PART = 2 << 20
_FEWEST_PARTS_AHEAD = 2

S = TypeVar("S", bound=Hashable)


class Portion(NamedTuple):
    """What one stream may have of a limit."""

    part_bytes: int
    """What it is given at a time."""
    ahead_bytes: int
    """A receiver: how much it may have promised beyond what is here, as it is paid for."""
    largest_ratio: float
    """A receiver: by how much encodings may make what it promises more."""


UNLIMITED = Portion(0, 0, 1.0)
"""Of a stream that has no limit."""


class Pacer(Generic[S]):
    """Deals the bytes of one direction to its streams. Times are monotonic seconds."""

    def __init__(self) -> None:
        self.rate: float | None = None
        """The limit (bytes per second); None: there is none, and nobody asks."""
        self._debt_seconds = DEBT_SECONDS
        self._tokens = 0.0
        self._refilled_at = 0.0
        self._line: dict[S, int] = {}  # what each wants; a dict keeps the order

    def limit(self, rate: float | None, *, now: float) -> None:
        """Have another limit from now on."""
        self._refill(now)
        self.rate = rate
        self._tokens = min(max(self._tokens, self._least_tokens), self._most_tokens)
        if rate is None:
            self._line.clear()
            self._tokens = 0.0
        # A stream that waits for a part of the old size would pay for all of it at the lower rate,
        # for seconds, and could then send only a part of the new size.
        self._line = {stream: min(nbytes, self.part_bytes) for stream, nbytes in self._line.items()}

    @property
    def part_bytes(self) -> int:
        """What a stream is given at a time: a power of two, so that chunks stay aligned."""
        most = min((self.rate or 0.0) * PART_SECONDS, _LARGEST_PART)
        part = LEAST_CHUNK_BYTES
        while part * 2 <= most:
            part *= 2
        return part

    def bound_debt(self, seconds: float) -> None:
        """Let bytes that moved without an allowance hold up streams no longer than ``seconds``."""
        self._debt_seconds = seconds
        self._tokens = max(self._tokens, self._least_tokens)

    def portion(self, streams: int) -> Portion:
        """Return what each of ``streams`` may have."""
        rate, part = self.rate or 0.0, self.part_bytes
        ahead = max(int(rate * AHEAD_SECONDS / max(1, streams)), _FEWEST_PARTS_AHEAD * part)
        # A receiver asks while it has less than that ahead, so a part comes on top of it. If all
        # that was promised arrives at once and does not shrink, receivers together owe no more
        # than is ever made up for: what is beyond that is forgotten.
        owed = rate * self._debt_seconds / max(1, streams)
        return Portion(part, ahead, largest_ratio(owed, ahead + part))

    def ask(self, stream: S, nbytes: int) -> None:
        """Let a stream wait for its next ``nbytes``; harmless when it waits already."""
        if self.rate is not None and nbytes > 0:
            self._line.setdefault(stream, nbytes)

    def leave(self, stream: S) -> None:
        """Let a stream wait no more."""
        self._line.pop(stream, None)

    def charge(self, nbytes: int) -> None:
        """Count bytes that moved without an allowance; negative: some that did not travel."""
        self._tokens = min(max(self._tokens - nbytes, self._least_tokens), self._most_tokens)

    def next(self, *, now: float) -> tuple[S, int] | None:
        """Return the next stream and the bytes that it may move now; None: nobody yet."""
        self._refill(now)
        for stream, nbytes in self._line.items():
            if not self._has_tokens_for(nbytes):
                return None
            del self._line[stream]
            self._tokens -= nbytes + HEADER_BYTES
            return stream, nbytes
        return None

    def wait(self, *, now: float) -> float | None:
        """Return how long until ``next`` has a stream (seconds); None: none waits."""
        self._refill(now)
        if self.rate is None:
            return None
        for nbytes in self._line.values():
            missing = min(nbytes + HEADER_BYTES, self._most_tokens) - self._tokens
            return max(0.0, missing / (self.rate * SHARE))
        return None

    def _has_tokens_for(self, nbytes: int) -> bool:
        # A bucket that is full is enough for any part, though it may leave a debt: rounding must
        # not keep a stream waiting for a token that never fits.
        return self._tokens >= min(nbytes + HEADER_BYTES, self._most_tokens) - 1e-6

    @property
    def _least_tokens(self) -> float:
        return -(self.rate or 0.0) * self._debt_seconds

    @property
    def _most_tokens(self) -> float:
        return max((self.rate or 0.0) * BURST_SECONDS, float(LEAST_CHUNK_BYTES))

    def _refill(self, now: float) -> None:
        if self.rate is not None:
            come = max(0.0, now - self._refilled_at) * self.rate * SHARE
            self._tokens = min(self._tokens + come, self._most_tokens)
        self._refilled_at = now
