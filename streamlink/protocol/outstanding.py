"""What a sender has written and the receiver has not: kept, numbered, repaired, sent again.

Chunks are kept as views of the source, in offset order, from the receiver's mark to where writing
stands; the last of them may not have left yet. Beside them stand the frames of this call in the
order they left, since a repair names a frame by its number, not by its place in the model.
"""

from __future__ import annotations

from collections import deque

from streamlink.protocol.frames import Chunk


class Outstanding:
    """The chunks of one stream between *received* and ``position``."""

    def __init__(self) -> None:
        self.position = 0
        """Where writing stands (bytes)."""
        self.resent_bytes = 0
        """Bytes that left more than once."""
        self._kept: deque[Chunk] = deque()
        self.unsent: deque[Chunk] = deque()
        """Those of them that wait to leave, for others to look at only: looking costs no call."""
        self._ever_sent = 0  # bytes below have left at least once, on any call
        self._frames: deque[Chunk | None] = deque()  # None: was asked for again
        self._first = 0  # number of the first of them
        self._repairs: dict[int, int] = {}

    # --- out -------------------------------------------------------------------

    def append(self, chunk: Chunk) -> None:
        """Keep the next chunk; it has not left yet and has no number."""
        self.position = chunk.end
        self._kept.append(chunk)
        self.unsent.append(chunk)

    def take_unsent(self) -> list[Chunk]:
        """Return the chunks that leave now, numbered."""
        chunks = [self._numbered(chunk) for chunk in self.unsent]
        self.unsent.clear()
        return chunks

    @property
    def is_on_its_way(self) -> bool:
        """Whether a chunk has left on this call and is not received."""
        return len(self._kept) > len(self.unsent)

    @property
    def sent(self) -> int:
        """How far the chunks that have left reach (bytes)."""
        return self.unsent[0].offset if self.unsent else self.position

    # --- what the receiver says ----------------------------------------------------

    def is_boundary(self, mark: int) -> bool:
        """Whether a receiver of whole chunks can have come to ``mark``."""
        # In order, and nearly always the first one: the search ends where the mark lies.
        for chunk in self._kept:
            if chunk.end >= mark:
                return mark in (chunk.offset, chunk.end)
        return mark == self.position

    def forget(self, received: int) -> None:
        """Let go of what lies below ``received``."""
        while self._kept and self._kept[0].end <= received:
            self._repairs.pop(self._kept.popleft().offset, None)
        while self._frames and ((frame := self._frames[0]) is None or frame.end <= received):
            self._frames.popleft()
            self._first += 1

    def repair(self, sequence: int, received: int) -> Chunk | None:
        """Return the chunk that frame ``sequence`` carried, numbered anew; None: not on its way."""
        index = sequence - self._first
        chunk = self._frames[index] if 0 <= index < len(self._frames) else None
        if chunk is None or chunk.end <= received:
            return None
        self._frames[index] = None
        self._repairs[chunk.offset] = self._repairs.get(chunk.offset, 0) + 1
        return self._numbered(chunk)

    # --- calls come and go ---------------------------------------------------------

    def lose_call(self) -> None:
        """Nothing is on its way any more; ``rewind`` says what has to leave again."""
        self._frames.clear()
        self._first = 0
        self._repairs.clear()
        self.unsent = deque(self._kept)

    def rewind(self, mark: int, *, limit: int, chunk_bytes: int) -> None:
        """Go on at ``mark``: with what is kept and allowed, or, failing that, from the source."""
        while self._kept and self._kept[0].end <= mark:
            self._kept.popleft()
        kept_from = self._kept[0].offset if self._kept else self.position
        if mark != kept_from or any(chunk.nbytes > chunk_bytes for chunk in self._kept):
            self._kept.clear()
            self.position = mark
        while self._kept and self._kept[-1].end > limit:
            self.position = self._kept.pop().offset
        self.unsent = deque(self._kept)

    def clear(self) -> None:
        """Let go of every byte; ``position`` stays as a fact."""
        self._kept.clear()
        self.unsent.clear()
        self._frames.clear()

    def _numbered(self, chunk: Chunk) -> Chunk:
        sequence = self._first + len(self._frames)
        repeats = self._repairs.get(chunk.offset, 0)
        chunk = Chunk(sequence, chunk.offset, chunk.payload, repeats)
        self._frames.append(chunk)
        self.resent_bytes += max(0, min(chunk.end, self._ever_sent) - chunk.offset)
        self._ever_sent = max(self._ever_sent, chunk.end)
        return chunk
