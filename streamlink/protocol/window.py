"""How much may be on its way, and in what pieces.

Two small parts. ``Credit`` is the receiver's side: what it has promised to hold. ``Pace`` is the
sender's: it learns the link from the acks and sizes window and chunk by it, starting small.

``Pace`` follows the delivery-rate samples of BBR (Cardwell et al., "BBR: Congestion-Based
Congestion Control", ACM Queue 2016): a sample is what was received between sending a byte and
hearing that it arrived. We do not control congestion (TCP does); the window only has to be large
enough to keep the link full and small enough that a cut does not cost much.

The chunk is a share of the window, not a time by the rate alone. Where many streams share a busy
processor it is the work per chunk that keeps each rate low, and a chunk that waited for a higher
rate would never grow.
"""

from __future__ import annotations

from collections import deque

from streamlink.config import StreamConfig
from streamlink.protocol.latency import AckClock
from streamlink.protocol.limits import SMALLEST_CHUNK_BYTES

CHUNKS_IN_WINDOW = 4
"""A chunk grows to this part of the window: others travel while one is acknowledged."""

CHUNK_SECONDS = 0.25
"""A chunk never takes the link longer than this: slow links keep the smallest."""

QUEUE_SECONDS = 0.1
"""The window keeps this much delivery time queued beyond two round trips."""

_SAMPLES = 16


class Pace:
    """Sizes a sender's window and chunk by the rate and round trip that the acks show."""

    def __init__(
        self,
        config: StreamConfig,
        *,
        chunk_bytes: int,
        ack_wait: float,
        ack_clock: AckClock | None = None,
    ) -> None:
        self._ack_clock = ack_clock or AckClock()
        self._smallest = min(config.min_chunk_bytes, chunk_bytes)
        self.largest = chunk_bytes
        self._ack_wait = ack_wait
        self._first_window = max(config.initial_window_bytes, self._smallest)
        self._max_window = config.window_bytes
        self._unheard: deque[tuple[int, float, int, bool]] = deque()
        self._rates: deque[float] = deque(maxlen=_SAMPLES)
        self.round_trip = float("inf")
        self.rate = 0.0
        self.chunk_bytes = self._smallest
        self.window_bytes = min(self._first_window, self._max_window)

    def sent(self, end: int, *, received: int, now: float) -> None:
        """Note that bytes up to ``end`` left while ``received`` were known to have arrived."""
        self._unheard.append((end, now, received, not self._unheard))

    def heard(self, received: int, *, now: float) -> None:
        """Take the samples that an ack up to ``received`` completes, and size things anew."""
        sample = None
        while self._unheard and self._unheard[0][0] <= received:
            sample = self._unheard.popleft()
        if sample is None:
            return
        _, sent_at, received_then, was_idle = sample
        elapsed = max(now - sent_at, 1e-6)
        self._ack_clock.add(elapsed)
        self.round_trip = min(self.round_trip, elapsed)
        rate = (received - received_then) / elapsed
        if was_idle and rate < self.rate:
            return  # nothing else was on its way: this measured our source, not the link
        self._rates.append(rate)
        self.rate = max(self._rates)
        self.window_bytes = self._window_for(self.rate)
        self.chunk_bytes = self._chunk_for(self.rate)

    def room(self, position: int, *, received: int, limit: int, stop: int) -> int:
        """Return how many bytes the next chunk takes; 0: wait.

        It ends at a multiple of the chunk's size: chunks that grew would else lie across the blocks
        of the digest and of the stores for good. Not where the room ends before two whole ones
        more: credit cuts chunks, too, where it is short, and if both did, a slow reader would be
        sent crumbs.

        Args:
            position: where it begins.
            received: how far the receiver has all.
            limit: the credit: how far it may reach.
            stop: where the extent ends.
        """
        room = min(limit, received + self.window_bytes) - position
        wanted = self.chunk_bytes - position % self.chunk_bytes
        if wanted < SMALLEST_CHUNK_BYTES or room < wanted + 2 * self.chunk_bytes:
            wanted = self.chunk_bytes
        wanted = min(wanted, stop - position)
        if room >= wanted:
            return wanted
        # A sliver is only worth a chunk when nothing else could bring more room.
        return max(room, 0) if position == received else 0

    def forget(self) -> None:
        """Drop what is unheard: the call that carried it is gone."""
        self._unheard.clear()

    def _chunk_for(self, rate: float) -> int:
        # A chunk must arrive well within the ack wait, however slow the link.
        longest = rate * min(CHUNK_SECONDS, self._ack_wait / 8)
        wanted = min(longest, self.window_bytes / CHUNKS_IN_WINDOW)
        size = self._smallest
        while size * 2 <= min(wanted, self.largest):
            size *= 2
        return self.largest if wanted >= self.largest else size

    def _window_for(self, rate: float) -> int:
        wanted = int(rate * (2 * self.round_trip + QUEUE_SECONDS))
        return max(min(wanted, self._max_window), min(self._first_window, self._max_window))


class Credit:
    """The receiver's promise: the sender may send bytes below ``limit``.

    The limit only grows, by what the sink has taken, so what a stream can make this process hold is
    ``window_bytes`` and no more. It grows by ``quantum_bytes`` at least: a reader that takes crumbs
    must not be sent crumbs.
    """

    def __init__(self, window_bytes: int, *, quantum_bytes: int = 1) -> None:
        self._window = window_bytes
        self._quantum = quantum_bytes
        self.taken = 0
        self.limit = 0
        self.grant()

    def release(self, nbytes: int) -> None:
        """Note that the sink has taken ``nbytes`` more."""
        self.taken += nbytes

    @property
    def is_due(self) -> bool:
        """Whether enough was taken since the last word that the sender should hear of it."""
        return self.taken + self._window - self.limit >= self._window // 4

    def grant(self) -> int:
        """Return the limit to tell the sender now."""
        if self.taken + self._window - self.limit >= self._quantum:
            self.limit = self.taken + self._window
        return self.limit


def credit_for(config: StreamConfig, chunk_bytes: int) -> Credit:
    """Return what a receiver promises to a sender of chunks of up to ``chunk_bytes``.

    It is a window of whole chunks: what one leaves over would be sent as a crumb whenever the
    reader is slow. Not where fewer than four fit: chunks do not grow so far, and it costs too much.
    """
    window, chunks = config.window_bytes, config.window_bytes // chunk_bytes
    if chunks >= CHUNKS_IN_WINDOW:
        window = chunks * chunk_bytes
    return Credit(window, quantum_bytes=min(config.smallest_chunk_bytes, chunk_bytes))
