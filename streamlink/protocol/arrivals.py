"""What reaches a receiver on one call: chunks put in order around those that arrived damaged.

Neither end can know which chunk a damaged frame carried, so frames are counted: the receiver asks
for frame number ``n`` again, and the sender says with each repeated chunk how many damaged copies
of it that makes good. While damaged frames are ``missing``, chunks behind them wait here.
"""

from __future__ import annotations

from streamlink.protocol.frames import Chunk


class Arrivals:
    """The chunks of one stream up to *received* and beyond a hole."""

    def __init__(self, *, max_damaged: int) -> None:
        self.received = 0
        """Bytes that arrived whole and in order."""
        self.missing = 0
        """Damaged frames whose chunk is not yet made good (count)."""
        self.damaged_in_a_row = 0
        self._max_damaged = max_damaged
        self._count = 0
        self._ahead: dict[int, Chunk] = {}
        self._ahead_bytes = 0

    def __len__(self) -> int:
        return len(self._ahead)

    def take_damaged(self) -> int | None:
        """Count a damaged frame; returns the number to ask for again, None: too many in a row.

        The sender bounds the repairs of one chunk; this side cannot tell which chunk it was and
        bounds how many may come damaged while not one is whole.
        """
        number, self._count = self._count, self._count + 1
        self.missing += 1
        self.damaged_in_a_row += 1
        return number if self.damaged_in_a_row <= self._max_damaged else None

    def fault_in(self, chunk: Chunk, *, limit: int) -> str:
        """Return what the sender did wrong with a chunk that is whole; empty: nothing."""
        if chunk.sequence != self._count:
            return f"sent chunk {chunk.sequence} where {self._count} was due"
        if chunk.offset < self.received or chunk.offset in self._ahead:
            return f"sent byte {chunk.offset} twice"
        if not 0 <= chunk.repeats <= self.missing:
            return f"repeated byte {chunk.offset} without being asked"
        if chunk.offset > self.received:
            if self.missing == chunk.repeats:
                return f"left out bytes {self.received} to {chunk.offset}"
            # Chunks that overlap are found when the hole is closed; until then they may not fill
            # this process beyond the window.
            if self._ahead_bytes + chunk.nbytes > limit - self.received:
                return f"sent bytes behind {self.received} twice"
        return ""

    def take(self, chunk: Chunk) -> list[Chunk]:
        """Take a chunk without fault; returns those that are now next in order."""
        self._count += 1
        self.missing -= chunk.repeats
        self.damaged_in_a_row = 0
        if chunk.offset > self.received:
            self._ahead[chunk.offset] = chunk
            self._ahead_bytes += chunk.nbytes
            return []
        self.received = chunk.end
        in_order = [chunk]
        while (behind := self._ahead.pop(self.received, None)) is not None:
            self._ahead_bytes -= behind.nbytes
            self.received = behind.end
            in_order.append(behind)
        return in_order

    @property
    def is_overlapping(self) -> bool:
        """Whether chunks wait behind a hole that nobody is going to close."""
        return bool(self._ahead) and not self.missing

    def lose_call(self) -> None:
        """What is in order stays; chunks behind a hole come again."""
        self._ahead.clear()
        self._ahead_bytes = self._count = self.missing = self.damaged_in_a_row = 0
