"""What a peer may send at all, whatever the settings: rules of the wire, the same at both ends.

What an operator may want to change is in ``config.LimitsConfig``. docs/limits.md lists both, field
by field. Everything is counted before it is kept, so a limit holds even for a single large frame.
"""

from __future__ import annotations

SMALLEST_CHUNK_BYTES = 1024
"""A chunk is smaller only where the credit or the model ends."""

MAX_CONTROL_BYTES = 256 * 1024
"""Largest frame that is neither a chunk nor a page of a description (bytes)."""

MAX_PAGE_BYTES = 512 * 1024
"""Largest page of a description (bytes)."""

PAGE_OVERHEAD_BYTES = 64
"""What keeping a page costs beside its body (bytes), so that empty pages have a bound, too."""

MAX_TEXT_BYTES = 8 * 1024
"""Longest single text in a frame: a reason, an id, a metadata value (bytes)."""

MAX_ENTRIES = 1024
"""Facts, numbers or patterns that one frame may have (count each)."""

MAX_DIGEST_BYTES = 64
"""Longest digest of a description (bytes)."""

MAX_ACK_RANGES = 32
"""Ranges that one selective acknowledgement may list (count)."""

MAX_ENCODINGS = 8
"""Encodings that a sender may offer for one stream (count)."""

MAX_BASES = 8
"""Kept models that a sender may name for one stream (count)."""

MAX_DATA_PORTS, MAX_CARRIER_NAME = 8, 32
"""Carriers of streams that a server may name (count), and how long such a name is (characters)."""

DATA_KEY_BYTES = 32
"""Of the key that a welcome gives for connections to data ports: as long as the hash of the HMAC
that it is for, SHA-256 (RFC 2104, section 3)."""

MAX_WAITING_FRAMES = 4096
"""Answers that a peer may leave unread before it counts as a flood (count)."""

MAX_ATTEMPT_BYTES = 1024
"""Longest name of a job (bytes)."""

_BURST_SECONDS = 8.0
FRAMES_PER_CHUNK = 2
"""Small frames that one chunk accounts for: its ack, and one when it is durable."""

ATTACHES_PER_SECOND, ATTACH_BURST = 2.0, 128.0
"""Calls that may take over one stream, or one session: sustained rate and burst (count)."""


class TokenBucket:
    """A rate limit on cheap frames: a token bucket that time refills, and useful work as well.

    A frame that changes nothing still wakes a thread. No kind of frame is refused, only too many.

    Args:
        per_second: tokens that time adds.
        burst: most tokens that time fills up to; by default those of eight seconds.
    """

    def __init__(self, per_second: float, *, burst: float | None = None) -> None:
        self._per_second = per_second
        self._burst = per_second * _BURST_SECONDS if burst is None else burst
        self._left = self._burst
        self._earned = 0
        self._refilled_at: float | None = None

    def take_token(self, *, now: float) -> bool:
        """Count one frame; False: it is one too many."""
        # Earned tokens go first: on a fast stream the clock arithmetic below is then never reached.
        if self._earned:
            self._earned -= 1
            return True
        if self._refilled_at is not None:
            refilled = self._left + max(0.0, now - self._refilled_at) * self._per_second
            self._left = min(self._burst, refilled)
        self._refilled_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def add_tokens(self, count: int) -> None:
        """Add ``count`` tokens for work that the frames may report; they do not count as burst."""
        self._earned += count
