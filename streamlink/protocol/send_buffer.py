"""What a sender has written and the receiver does not have yet: kept, numbered, repaired, resent.

Chunks are kept as views of the source, in offset order, from the acknowledged offset to where
writing has come: the scoreboard of selective acknowledgement in TCP (RFC 6675), with chunks for
segments. Beside it stands, for each channel, a log of the chunk frames in the order they left: a
repair names a frame by its number on its channel, and a channel that is lost returns what it
carried.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from streamlink.protocol.frames import UNNUMBERED, Chunk, Range


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
        """Up to where the owner has written (bytes)."""
        self.resent_bytes = 0
        """Bytes that left more than once."""
        self.sent = start
        """Bytes below have left at least once, on any channel."""
        self.saved_bytes = 0
        """How many bytes the encodings of the chunks kept here save on the wire."""
        self.acked_saved = 0
        """The same for the chunks that the receiver has acknowledged; it only grows."""
        self._kept: dict[int, Chunk] = {}  # by offset, in offset order
        self.unsent: deque[Chunk] = deque()
        """Those of them that wait to leave; others only read it, which costs no call."""
        self._logs: dict[int, _FrameLog] = {}
        self._repairs: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._kept)

    # --- out -------------------------------------------------------------------

    def append(self, chunk: Chunk) -> None:
        """Keep the next chunk; it has not left yet and has no number."""
        self.position = chunk.end
        self._kept[chunk.offset] = chunk
        if chunk.encoding:
            self.saved_bytes += chunk.saved_bytes
        self.unsent.append(chunk)

    def take_unsent(self, channel: int, max_chunks: int) -> list[Chunk]:
        """Return up to ``max_chunks`` chunks, numbered, which leave on ``channel`` now."""
        if len(self.unsent) <= max_chunks:
            waiting: Sequence[Chunk] = self.unsent
            self.unsent = deque()
        else:
            waiting = [self.unsent.popleft() for _ in range(max_chunks)]
        return [self._numbered(channel, chunk) for chunk in waiting]

    @property
    def is_in_flight(self) -> bool:
        """Whether a chunk has left on a channel that still works and is not received."""
        return len(self._kept) > len(self.unsent)

    @property
    def in_flight_end(self) -> int:
        """The end of the chunks in flight (bytes)."""
        return self.unsent[0].offset if self.unsent else self.position

    # --- acknowledgements and repairs -----------------------------------------------

    def is_boundary(self, offset: int) -> bool:
        """Whether a receiver of whole chunks can have received up to ``offset``."""
        # The chunks are in order, and it is nearly always the first one: this loop is short.
        for chunk in self._kept.values():
            if chunk.end >= offset:
                return offset in (chunk.offset, chunk.end) or offset < chunk.offset
        return offset == self.position

    def front_channel(self) -> int | None:
        """Return the channel that carries the oldest chunk; None: it waits to leave."""
        front = next(iter(self._kept), None)
        for channel, log in self._logs.items():
            if any(frame is not None and frame.offset == front for frame in log.frames):
                return channel
        return None

    def frames_of(self, channel: int) -> tuple[int, int]:
        """Return how many chunk frames of ``channel`` are acknowledged, and how many in flight.

        One that is acknowledged behind another counts as in flight until that one is, too.
        """
        log = self._logs.get(channel)
        return (log.first, len(log.frames)) if log is not None else (0, 0)

    def acknowledge(self, received: int, ranges: Sequence[Range] = ()) -> None:
        """Release what lies below ``received`` or within one of ``ranges``."""
        kept = self._kept
        acked = []
        for chunk in kept.values():
            if chunk.end > received:
                break
            acked.append(chunk.offset)
        for start, end in ranges:
            acked += [at for at, chunk in kept.items() if start <= at and chunk.end <= end]
        for offset in acked:
            if (freed := kept.pop(offset, None)) is not None:
                self._repairs.pop(offset, None)
                if freed.encoding:
                    self.saved_bytes -= freed.saved_bytes
                    self.acked_saved += freed.saved_bytes
        if self.unsent and acked:  # a channel that was given up may have delivered it after all
            self.unsent = deque(chunk for chunk in self.unsent if chunk.offset in kept)
        # Frames leave a log from its front only, which keeps its numbering; what is acknowledged
        # behind the front goes when the front does. The window bounds how many wait so.
        for log in self._logs.values():
            while log.frames and ((frame := log.frames[0]) is None or frame.offset not in kept):
                log.frames.popleft()
                log.first += 1

    def repair(self, channel: int, sequence: int) -> Chunk | None:
        """Return the chunk that frame ``sequence`` of ``channel`` carried, under a new number.

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

    def was_resent(self, channel: int, sequence: int) -> bool:
        """Whether frame ``sequence`` left on ``channel``, and its chunk may have left twice."""
        log = self._logs.get(channel)
        return log is not None and sequence < log.first + len(log.frames) and self.resent_bytes > 0

    def repairs_of(self, chunk: Chunk) -> int:
        """Return how often a chunk was requested again (count)."""
        return self._repairs.get(chunk.offset, 0)

    # --- channels come and go --------------------------------------------------------

    def lose_channel(self, channel: int) -> None:
        """Queue again what ``channel`` carried and the receiver does not have."""
        log = self._logs.pop(channel, None)
        if log is None:
            return
        lost = [each for each in log.frames if each is not None and each.offset in self._kept]
        # In offset order: the lowest offset is what the receiver's *received* waits for.
        self.unsent = deque(sorted([*lost, *self.unsent], key=lambda chunk: chunk.offset))
        # Damage counts per path: a chunk that failed over one network card may pass over another.
        if not self._logs:
            self._repairs.clear()

    def rewind(self, offset: int, *, limit: int, chunk_bytes: int) -> None:
        """Resume at ``offset``: with the kept chunks, or, where they do not fit, from the source.

        Call it only while no channel carries anything.

        Args:
            offset: what the receiver has.
            limit: its credit.
            chunk_bytes: the largest chunk it takes.
        """
        self.acknowledge(offset)
        kept = list(self._kept.values())
        kept_from = kept[0].offset if kept else self.position
        # A receiver that has less than the acknowledged offset was started again; one that has more
        # had the rest from elsewhere; other cuts cannot be sent. All three need the source.
        if (
            offset < kept_from
            or offset > self.position
            or any(chunk.offset < offset or chunk.nbytes > chunk_bytes for chunk in kept)
        ):
            kept.clear()
            self.position = offset
        # The accept of a resume may grant less credit than the acks before it.
        while kept and kept[-1].end > limit:
            self.position = kept.pop().offset
        self._kept = {chunk.offset: chunk for chunk in kept}
        self.saved_bytes = sum(chunk.saved_bytes for chunk in kept)
        self.unsent = deque(kept)
        self.sent = max(self.sent, offset)

    def clear(self) -> None:
        """Release every byte; ``position`` stays as a fact."""
        self._kept.clear()
        self.saved_bytes = 0
        self.unsent.clear()
        self._logs.clear()

    def _numbered(self, channel: int, chunk: Chunk) -> Chunk:
        log = self._logs.get(channel)
        if log is None:
            log = self._logs[channel] = _FrameLog()
        sequence = log.first + len(log.frames)
        if chunk.sequence == UNNUMBERED:
            chunk.sequence = sequence  # nobody else has it yet
        else:
            chunk = chunk.numbered(sequence)  # the carrier may still have the frame before
        log.frames.append(chunk)
        if chunk.offset < self.sent:
            self.resent_bytes += min(chunk.end, self.sent) - chunk.offset
        if chunk.end > self.sent:
            self.sent = chunk.end
        return chunk
