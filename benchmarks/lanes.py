"""One direction of a relay: when a piece may leave, and what is done to it on the way.

``Link`` is what a test asks for, ``Lane`` what becomes of it. A lane is shared by all connections,
as a line is. It has no sockets, and its time comes in from outside; ``relay.py`` has both.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

__all__ = ["UNSHAPED", "Lane", "Link"]

KiB = 1 << 10
MiB = 1 << 20

MAX_PIECE_BYTES = 256 * KiB
MIN_PIECE_BYTES = 1 * KiB
PIECE_SECONDS = 0.002  # a piece keeps the line busy for so long, where bandwidth is what limits
BURST_SECONDS = 0.005  # how much of an idle line's past may be used by what comes next
BUFFER_SECONDS = 0.05
MIN_BUFFER_BYTES = 16 * KiB
UNLIMITED_BUFFER_BYTES = 16 * MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """How one direction behaves.

    Attributes:
        bandwidth: bytes per second, all connections together; None is as fast as it goes.
        delay: seconds, one way.
        jitter: each piece is late by up to so many seconds more, at random; order is kept.
        slice_bytes: nothing longer than this is forwarded in one go.
        buffer_bytes: what the line may hold beside what is under way. None is 50 ms of bandwidth
            and at least 16 KiB; for a delay without a bandwidth, 16 MiB.
        seed: of jitter and flipped bits.
    """

    bandwidth: float | None = None
    delay: float = 0.0
    jitter: float = 0.0
    slice_bytes: int | None = None
    buffer_bytes: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.delay, self.jitter, self.buffer_bytes or 0) < 0:
            raise ValueError(f"delay, jitter and buffer_bytes must not be negative: {self}")
        if (self.bandwidth is not None and self.bandwidth <= 0) or self.slice_bytes == 0:
            raise ValueError(f"nothing would ever pass: {self}")

    @property
    def is_timed(self) -> bool:
        """Whether a piece ever has to wait."""
        return self.bandwidth is not None or self.delay + self.jitter > 0

    @property
    def piece_bytes(self) -> int:
        """The most that is read at once (bytes)."""
        piece = MAX_PIECE_BYTES
        if self.bandwidth is not None:
            piece = max(MIN_PIECE_BYTES, min(piece, int(self.bandwidth * PIECE_SECONDS)))
        return min(piece, self.slice_bytes or piece)

    @property
    def max_queued_bytes(self) -> int:
        """What the line holds before it stops reading; a connection's first piece is on top."""
        under_way = int((self.bandwidth or 0) * (self.delay + self.jitter))
        return under_way + (
            self._default_buffer if self.buffer_bytes is None else self.buffer_bytes
        )

    @property
    def _default_buffer(self) -> int:
        if self.bandwidth is not None:
            return max(MIN_BUFFER_BYTES, int(self.bandwidth * BUFFER_SECONDS))
        return UNLIMITED_BUFFER_BYTES if self.is_timed else 0


UNSHAPED = Link()


class Lane:
    """The state of one direction: its line, its faults, its counts."""

    def __init__(self, link: Link) -> None:
        self.is_stalled = False
        self.is_swallowing = False
        self.queued_bytes = 0
        self.forwarded_bytes = 0
        self.swallowed_bytes = 0
        self.flipped = 0
        self._free_at = self._last_due_at = 0.0
        self._flips = 0
        self._flips_at: list[int] = []
        self._marks: list[tuple[int, int, Callable[[], object]]] = []
        self._order = itertools.count()
        self.shape(link)

    def shape(self, link: Link) -> None:
        """Behave like ``link`` from now on; what is under way arrives as it would have."""
        self.link = link
        self.piece_bytes, self.max_queued_bytes = link.piece_bytes, link.max_queued_bytes
        self._jitter = random.Random(link.seed)
        self._damage = random.Random(link.seed)  # its own: what is hit must not depend on timing

    def due_at(self, nbytes: int, *, now: float) -> float:
        """Send ``nbytes`` down the line; returns when their last one arrives.

        A line that was idle may make up for a few milliseconds, and no more: that is what a thread
        that wakes late needs to keep the rate.
        """
        if not self.link.is_timed:
            return now
        due_at = now
        if self.link.bandwidth is not None:
            start_at = max(self._free_at, now - BURST_SECONDS)
            self._free_at = due_at = start_at + nbytes / self.link.bandwidth
        due_at = max(due_at, now) + self.link.delay + self._jitter.uniform(0, self.link.jitter)
        self._last_due_at = max(self._last_due_at, due_at)
        return self._last_due_at

    # --- marks ------------------------------------------------------------------------

    def mark(self, after_bytes: int, action: Callable[[], object]) -> None:
        """Have ``action`` done when exactly so many more bytes have been forwarded."""
        at = self.forwarded_bytes + after_bytes
        heapq.heappush(self._marks, (at, next(self._order), action))

    def room(self) -> int:
        """How many bytes may go before the next mark has to be seen to."""
        return self._marks[0][0] - self.forwarded_bytes if self._marks else MAX_PIECE_BYTES

    def reached(self) -> Callable[[], object] | None:
        """Take the action of a mark that has been reached, if there is one."""
        if self._marks and self._marks[0][0] <= self.forwarded_bytes:
            return heapq.heappop(self._marks)[2]
        return None

    # --- damage -----------------------------------------------------------------------

    def flip(self, pieces: int, at: Iterable[int]) -> None:
        """Damage the next ``pieces``, and the bytes that will be forwarded as number ``at``."""
        self._flips += pieces
        self._flips_at = sorted([*self._flips_at, *(self.forwarded_bytes + one for one in at)])

    def damage(self, piece: memoryview, *, is_fresh: bool) -> memoryview:
        """Return ``piece``, which is about to leave, with the bits flipped that have to be.

        Args:
            piece: the bytes, at most ``room()`` of which will go.
            is_fresh: whether none of it was offered before.
        """
        end = self.forwarded_bytes + len(piece)
        places = []
        while self._flips_at and self._flips_at[0] < end:
            places.append(max(0, self._flips_at.pop(0) - self.forwarded_bytes))
        if is_fresh and self._flips:
            self._flips -= 1
            places.append(self._damage.randrange(len(piece)))
        if not places:
            return piece
        self.flipped += len(places)
        damaged = bytearray(piece)
        for place in places:
            damaged[place] ^= 1 << self._damage.randrange(8)
        return memoryview(damaged)
