"""What a peer may say at all, whatever the settings: rules of the wire, the same at both ends.

What an operator may want to change is in ``config.LimitsConfig``. docs/limits.md has both, field by
field. Everything is counted before it is kept.
"""

from __future__ import annotations

SMALLEST_CHUNK_BYTES = 1024
"""A chunk is smaller only where its credit or its model ends."""

MAX_CONTROL_BYTES = 256 * 1024
"""Largest frame that is neither a chunk nor a page of a description (bytes)."""

MAX_PAGE_BYTES = 512 * 1024
"""Largest page of a description (bytes)."""

PAGE_OVERHEAD_BYTES = 64
"""What keeping a page costs beside its body (bytes)."""

MAX_TEXT_BYTES = 8 * 1024
"""Longest single text in a frame: a reason, an id, a value of a fact (bytes)."""

MAX_DIGEST_BYTES = 64
"""Longest digest of a description (bytes)."""

MAX_ACK_RANGES = 32
"""Ranges behind a gap that one ack may list (count)."""

MAX_ENCODINGS = 8
"""Encodings that a sender may offer for one stream (count)."""

MAX_DATA_PORTS, MAX_CARRIER_NAME = 8, 32
"""Carriers of streams that a server may name (count), and how long such a name is (characters)."""

MAX_WAITING_FRAMES = 4096
"""Answers to a peer that it may leave unread before it is taken for a flood (count)."""

MAX_ATTEMPT_BYTES = 1024
"""Longest name of a job (bytes)."""

_BURST_SECONDS = 8.0
FRAMES_PER_CHUNK = 2
"""Small frames that one chunk explains: its ack, and a word on its way to the disk."""

ATTACHES_PER_SECOND, ATTACH_BURST = 2.0, 128.0
"""Calls that may take over one stream, or one session, for good and at once (count)."""


class Allowance:
    """How many cheap frames a peer may still send: refilled by time, and by work they belong to.

    A frame that moves nothing costs a wake-up of a thread all the same. Taking one is never refused
    for its kind, only for its number.
    """

    def __init__(self, per_second: float, *, burst: float | None = None) -> None:
        self._per_second = per_second
        self._burst = per_second * _BURST_SECONDS if burst is None else burst
        self._left = self._burst
        self._earned = 0
        self._since: float | None = None

    def spend(self, *, now: float) -> bool:
        """Count one frame; False: it is one too many."""
        if self._earned:
            self._earned -= 1
            return True
        if self._since is not None:
            refilled = self._left + max(0.0, now - self._since) * self._per_second
            self._left = min(self._burst, refilled)
        self._since = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def earn(self, count: int) -> None:
        """Allow ``count`` more: work was done that they may speak of."""
        self._earned += count
