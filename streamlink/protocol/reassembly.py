"""Reassembly: chunks arrive in any order and are put back in order, as segments are in TCP.

Chunks arrive out of order where one was damaged and is sent again, and where a stream has several
channels. What arrived behind a gap waits here, inside the window that was granted: so credit bounds
this memory. A chunk may arrive twice, since a sender cannot know what a lost channel has delivered;
it is recognised and dropped.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from enum import Enum, auto

from streamlink.protocol.frames import Chunk, Range


class RangeStatus(Enum):
    """How a range of bytes relates to what has arrived."""

    NEW = auto()
    DUPLICATE = auto()
    """All of it is here."""
    OVERLAP = auto()
    """Part of it is here. No honest sender cuts its model into other chunks the second time."""


class Reassembly:
    """The chunks of one stream: up to *received*, and behind gaps."""

    def __init__(self) -> None:
        self.received = 0
        """Bytes that arrived whole and in order."""
        self._ahead: dict[int, Chunk] = {}
        # Offsets of what is ahead, sorted. A list, not a heap: the neighbours of any offset are
        # needed, and a window rarely has more than some hundred chunks.
        self._starts: list[int] = []
        self._reserved: dict[int, int] = {}  # start to end of ranges that are being read

    def __len__(self) -> int:
        return len(self._ahead)

    @property
    def has_gap(self) -> bool:
        """Whether bytes arrived behind some that did not."""
        return bool(self._ahead)

    def status_of(self, start: int, end: int) -> RangeStatus:
        """Return how the bytes from ``start`` to ``end`` relate to what has arrived."""
        if start < self.received:
            return RangeStatus.DUPLICATE if end <= self.received else RangeStatus.OVERLAP
        if not self._ahead:
            return RangeStatus.NEW
        same = self._ahead.get(start)
        if same is not None:
            return RangeStatus.DUPLICATE if same.end == end else RangeStatus.OVERLAP
        # Only the two neighbours can overlap: what is ahead never overlaps itself.
        at = bisect_right(self._starts, start)
        before = self._ahead[self._starts[at - 1]] if at else None
        if before is not None and before.end > start:
            return RangeStatus.OVERLAP
        is_free = at == len(self._starts) or self._starts[at] >= end
        return RangeStatus.NEW if is_free else RangeStatus.OVERLAP

    def reserve(self, start: int, end: int) -> bool:
        """Reserve the memory of a new range for one reader; False: another has part of it."""
        if self.status_of(start, end) is not RangeStatus.NEW:
            return False
        if any(start < other_end and end > other for other, other_end in self._reserved.items()):
            return False
        self._reserved[start] = end
        return True

    def cancel(self, start: int) -> None:
        """Cancel a reservation, since its reader has ended; harmless where there is none."""
        self._reserved.pop(start, None)

    def add(self, chunk: Chunk) -> list[Chunk]:
        """Add a chunk whose range is new; returns the chunks that are now next in order."""
        if self._reserved:
            self._reserved.pop(chunk.offset, None)
        if chunk.offset > self.received:
            self._ahead[chunk.offset] = chunk
            self._starts.insert(bisect_left(self._starts, chunk.offset), chunk.offset)
            return []
        self.received = chunk.end
        in_order = [chunk]
        while (behind := self._ahead.pop(self.received, None)) is not None:
            del self._starts[0]
            self.received = behind.end
            in_order.append(behind)
        return in_order

    def ranges(self, max_ranges: int) -> tuple[Range, ...]:
        """Return the first ``max_ranges`` ranges behind the first gap, neighbours merged."""
        found: list[Range] = []
        for start in self._starts:
            end = self._ahead[start].end
            if found and found[-1][1] == start:
                found[-1] = found[-1][0], end
            elif len(found) == max_ranges:
                break
            else:
                found.append((start, end))
        return tuple(found)

    def clear(self) -> None:
        """Release what waits behind a gap; ``received`` stays as a fact."""
        self._ahead.clear()
        self._starts.clear()
        self._reserved.clear()
