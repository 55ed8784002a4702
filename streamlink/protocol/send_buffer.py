"""What a sender has written and the receiver does not have yet: kept, numbered, repaired, resent.

Chunks are kept as views of the source, in offset order, from the receiver's mark to where writing
stands. Beside them stand, for each channel, the chunk frames in the order they left: a repair names
a frame by its number on its channel, and a channel that is lost gives back what it carried.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from streamlink.protocol.frames import Chunk, Range


class _FrameLog:
    """The chunk frames that one channel carries, by number."""

    __slots__ = ("first", "frames")

    def __init__(self) -> None:
        self.first = 0
        """Number of the first of ``frames``."""
        self.frames: deque[Chunk | None] = deque()
        """None: it arrived damaged and left again under another number."""


class SendBuffer:
    """The chunks of one stream between *received* and ``position``.

    Args:
        start: the first byte that the stream brings.
    """

    def __init__(self, start: int = 0) -> None:
        self.position = start
        """Where writing stands (bytes)."""
        self.resent_bytes = 0
        """Bytes that left more than once."""
        self.sent = start
        """Bytes below have left at least once, on any channel."""
        self._kept: dict[int, Chunk] = {}  # by offset, in offset order
        self.unsent: deque[Chunk] = deque()
        """Those of them that wait to leave, for others to look at only: looking costs no call."""
        self._logs: dict[int, _FrameLog] = {}
        self._repairs: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._kept)

    # --- out -------------------------------------------------------------------

    def append(self, chunk: Chunk) -> None:
        """Keep the next chunk; it has not left yet and has no number."""
        self.position = chunk.end
        self._kept[chunk.offset] = chunk
        self.unsent.append(chunk)

    def take_unsent(self, channel: int, most: int) -> list[Chunk]:
        """Return up to ``most`` chunks, which leave on ``channel`` now, numbered."""
        if len(self.unsent) <= most:
            waiting: Sequence[Chunk] = self.unsent
            self.unsent = deque()
        else:
            waiting = [self.unsent.popleft() for _ in range(most)]
        return [self._numbered(channel, chunk) for chunk in waiting]

    @property
    def is_in_flight(self) -> bool:
        """Whether a chunk has left on a channel that lives and is not received."""
        return len(self._kept) > len(self.unsent)

    @property
    def in_flight_end(self) -> int:
        """How far the chunks in flight reach (bytes)."""
        return self.unsent[0].offset if self.unsent else self.position

    # --- what the receiver says ----------------------------------------------------

    def is_boundary(self, mark: int) -> bool:
        """Whether a receiver of whole chunks can have come to ``mark``."""
        # In order, and nearly always the first one: the search ends where the mark lies.
        for chunk in self._kept.values():
            if chunk.end >= mark:
                return mark in (chunk.offset, chunk.end) or mark < chunk.offset
        return mark == self.position

    def forget(self, received: int, ranges: Sequence[Range] = ()) -> None:
        """Let go of what lies below ``received`` or within one of ``ranges``."""
        kept = self._kept
        gone = []
        for chunk in kept.values():
            if chunk.end > received:
                break
            gone.append(chunk.offset)
        for start, end in ranges:
            gone += [at for at, chunk in kept.items() if start <= at and chunk.end <= end]
        for offset in gone:
            if kept.pop(offset, None) is not None:
                self._repairs.pop(offset, None)
        if self.unsent and gone:  # a channel that was thought lost may have delivered it
            self.unsent = deque(chunk for chunk in self.unsent if chunk.offset in kept)
        for log in self._logs.values():
            while log.frames and ((frame := log.frames[0]) is None or frame.offset not in kept):
                log.frames.popleft()
                log.first += 1

    def repair(self, channel: int, sequence: int) -> Chunk | None:
        """Return the chunk that frame ``sequence`` of ``channel`` carried, numbered anew.

        None: it is not in flight there.
        """
        log = self._logs.get(channel)
        index = sequence - log.first if log else -1
        if log is None or not 0 <= index < len(log.frames):
            return None
        chunk = log.frames[index]
        if chunk is None or chunk.offset not in self._kept:
            return None
        log.frames[index] = None
        self._repairs[chunk.offset] = self._repairs.get(chunk.offset, 0) + 1
        return self._numbered(channel, chunk)

    def repairs_of(self, chunk: Chunk) -> int:
        """Return how often a chunk was asked for again (count)."""
        return self._repairs.get(chunk.offset, 0)

    # --- channels come and go --------------------------------------------------------

    def lose_channel(self, channel: int) -> None:
        """Queue again what ``channel`` carried and the receiver does not have."""
        log = self._logs.pop(channel, None)
        if log is None:
            return
        lost = [each for each in log.frames if each is not None and each.offset in self._kept]
        self.unsent = deque(sorted([*lost, *self.unsent], key=lambda chunk: chunk.offset))
        if not self._logs:
            self._repairs.clear()

    def rewind(self, mark: int, *, limit: int, chunk_bytes: int) -> None:
        """Go on at ``mark``: with what is kept and allowed, or, failing that, from the source.

        Only while no channel carries anything.
        """
        self.forget(mark)
        kept = list(self._kept.values())
        kept_from = kept[0].offset if kept else self.position
        if (
            mark < kept_from
            or mark > self.position
            or any(chunk.offset < mark or chunk.nbytes > chunk_bytes for chunk in kept)
        ):
            kept.clear()
            self.position = mark
        while kept and kept[-1].end > limit:
            self.position = kept.pop().offset
        self._kept = {chunk.offset: chunk for chunk in kept}
        self.unsent = deque(kept)
        self.sent = max(self.sent, mark)

    def clear(self) -> None:
        """Let go of every byte; ``position`` stays as a fact."""
        self._kept.clear()
        self.unsent.clear()
        self._logs.clear()

    def _numbered(self, channel: int, chunk: Chunk) -> Chunk:
        log = self._logs.get(channel)
        if log is None:
            log = self._logs[channel] = _FrameLog()
        chunk = chunk.numbered(log.first + len(log.frames))
        log.frames.append(chunk)
        self.resent_bytes += max(0, min(chunk.end, self.sent) - chunk.offset)
        self.sent = max(self.sent, chunk.end)
        return chunk
