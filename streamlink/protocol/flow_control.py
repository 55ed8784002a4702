"""Flow control: how much may be in flight, in chunks of which size, and when it is acknowledged.

The sender's side is ``SendWindow``: it learns the link from the acks and sizes window and chunk by
it, starting small. The receiver's side is ``Credit``, what it has promised to hold, and
``DelayedAck``, which decides when an ack is due.

``SendWindow`` follows the delivery-rate samples of BBR (Cardwell et al., "BBR: Congestion-Based
Congestion Control", ACM Queue 2016): a sample is what was received between sending a byte and
learning that it arrived. We do not control congestion (TCP does); the window only has to be large
enough to keep the link full and small enough that a cut does not cost much.

The chunk is a share of the window, not a time at the measured rate alone. Where many streams share
a busy processor, the work per chunk is what keeps each rate low, and a chunk that waited for a
higher rate would never grow.
"""

from __future__ import annotations

from collections import deque

from streamlink.config import StreamConfig
from streamlink.protocol.limits import SMALLEST_CHUNK_BYTES
from streamlink.protocol.pacing import ANYWHERE
from streamlink.protocol.stats import AckLatency
from streamlink.protocol.timers import Timers

CHUNKS_IN_WINDOW = 4
"""A chunk grows to this part of a lane's share of the window: others travel while one is
acknowledged."""

CHUNK_SECONDS = 0.25
"""A chunk grows no larger than the link carries in this time (seconds). The smallest travels even
where that takes longer."""

QUEUE_SECONDS = 0.1
"""The window keeps this much delivery time queued beyond two round trips."""

INITIAL_RATE = 20 << 20
"""The initial window is the bandwidth-delay product of this rate (bytes per second), but at least
``initial_window_bytes`` and at most ``long_initial_bytes``."""

LONG_MARGIN = 2.0
"""The window is this multiple of the bandwidth-delay product where that is more than
``window_bytes``: up to a quarter of a window is credit on its way back, acks are delayed, and by
the rest it grows. A rate that the window limits does not show what the line could carry."""

NEW_LANE_CHUNKS = 4
"""How many chunks a lane that comes beside others brings until it is one of them. Its TCP starts
slowly, and the others fill the window meanwhile: so it begins with the smallest chunk, and each
time that one has arrived it takes one more, and twice as long."""

_SAMPLES = 16


def initial_window(least: int, most: int, round_trip: float) -> int:
    """Return the initial window of a stream (bytes).

    A window about doubles with each round trip, so on a long line a larger one saves round trips.

    Args:
        least: the smallest (bytes), that of a short line.
        most: the largest (bytes).
        round_trip: an upper bound of the line's round-trip time (seconds); 0: not known.
    """
    return max(least, min(int(INITIAL_RATE * round_trip), most))


def window_for(config: StreamConfig, rate: float, round_trip: float) -> int:
    """Return the window that a line needs (bytes).

    Usually it has room for a queue, and is at most ``window_bytes``. Only a large bandwidth-delay
    product makes it larger; a queue alone never does.

    Args:
        config: how large it may be.
        rate: what the line delivers (bytes per second).
        round_trip: the shortest that was seen (seconds); infinity: none was.
    """
    if not rate:
        return 0
    usual = min(rate * (2 * round_trip + QUEUE_SECONDS), config.window_bytes)
    needed = min(LONG_MARGIN * rate * round_trip, config.longest_window_bytes)
    return int(max(usual, needed))


class SendWindow:
    """Sizes a sender's window and chunk by the rate and round trip that the acks show.

    Args:
        config: the largest and the first window, and the smallest chunk.
        chunk_bytes: the largest chunk that both ends agreed on.
        ack_wait: ``streaming_ack_wait``, which every chunk has to meet (seconds).
        round_trip: the time from ``Open`` to ``Accept`` (seconds); 0: not known.
        ack_latency: collects how long acks take; it outlives the window, which each call renews.
    """

    def __init__(
        self,
        config: StreamConfig,
        *,
        chunk_bytes: int,
        ack_wait: float,
        round_trip: float = 0.0,
        ack_latency: AckLatency | None = None,
    ) -> None:
        self._ack_latency = ack_latency or AckLatency()
        self._smallest = min(config.min_chunk_bytes, chunk_bytes)
        self.largest = chunk_bytes
        self._ack_wait = ack_wait
        least = max(config.initial_window_bytes, self._smallest)
        self._least_window = min(least, config.longest_window_bytes)
        first = initial_window(self._least_window, config.long_initial_bytes, round_trip)
        self._first_window = first
        # The window does not shrink before this time: the first acks understate the rate.
        self._shrinks_from = float("inf")
        self._config = config
        # End, time sent, what was received by then, and whether nothing else was in flight.
        self._unacked: deque[tuple[int, float, int, bool]] = deque()
        self._rates: deque[float] = deque(maxlen=_SAMPLES)
        self.lanes = 1
        """Channels that carry the chunks (count)."""
        self._longest_of_new = chunk_bytes  # while a lane is new
        self.round_trip = float("inf")
        self.rate = 0.0
        self.chunk_bytes = self._smallest
        self._cap = config.window_bytes
        self.wanted_bytes = first
        """What the link has room for (bytes)."""
        self.window_bytes = min(first, self._cap)
        """What of that may be used (bytes)."""
        self._part = chunk_bytes

    def pace(self, part_bytes: int) -> None:
        """Cut chunks no larger than ``part_bytes``: what a bandwidth limit permits at a time."""
        self._part = min(part_bytes, self.largest)
        self.chunk_bytes = self._chunk_for(self.rate)

    def cap(self, nbytes: int) -> None:
        """Use no more than ``nbytes`` from now on, whatever the link has room for."""
        self._cap = nbytes
        self.window_bytes = min(self.wanted_bytes, nbytes)
        self.chunk_bytes = self._chunk_for(self.rate)

    def new_lane_takes(self, arrived: int) -> int:
        """Return how long a chunk may be for a lane that has brought ``arrived`` (bytes)."""
        return self.largest if arrived >= NEW_LANE_CHUNKS else self._smallest << arrived

    def count_lanes(self, lanes: int, arrived: int) -> None:
        """Note how many channels there are, and how many chunks the newest has brought (counts)."""
        self.lanes, self._longest_of_new = max(1, lanes), self.new_lane_takes(arrived)
        self.chunk_bytes = self._chunk_for(self.rate)

    def sent(self, end: int, *, received: int, now: float) -> None:
        """Note that bytes up to ``end`` left when ``received`` bytes were acknowledged.

        Those are counted on the wire: what encodings saved does not count, since the rate is the
        link's.
        """
        self._unacked.append((end, now, received, not self._unacked))

    def acked(self, received: int, *, now: float, saved: int = 0) -> None:
        """Take the sample that an ack up to ``received`` completes, and resize window and chunk.

        Encodings have ``saved`` so many of these bytes on the wire.
        """
        sample = None
        while self._unacked and self._unacked[0][0] <= received:
            sample = self._unacked.popleft()
        if sample is None:
            return
        _, sent_at, received_then, was_idle = sample
        elapsed = max(now - sent_at, 1e-6)  # a clock may not move between two frames
        self._shrinks_from = min(self._shrinks_from, now + elapsed)
        self._ack_latency.add(elapsed)
        self.round_trip = min(self.round_trip, elapsed)
        # Over everything that arrived meanwhile, not this chunk alone: chunks overlap on the link.
        rate = (received - saved - received_then) / elapsed
        if was_idle and rate < self.rate:
            return  # nothing else was in flight: this measured our source, not the link
        self._rates.append(rate)
        self.rate = max(self._rates)  # as BBR's windowed maximum: one slow ack changes nothing
        least = self._first_window if now < self._shrinks_from else self._least_window
        self.wanted_bytes = max(least, window_for(self._config, self.rate, self.round_trip))
        self.window_bytes = min(self.wanted_bytes, self._cap)
        self.chunk_bytes = self._chunk_for(self.rate)

    def next_chunk_bytes(
        self, position: int, *, received: int, limit: int, stop: int, saved: int = 0
    ) -> int:
        """Return how many bytes the next chunk takes; 0: wait.

        It ends at a multiple of the chunk size: otherwise chunks that grew would lie across the
        blocks of the digest and of the stores for the rest of the model. Not where there is no room
        for two whole ones more: scarce credit cuts chunks, too, and if both did, a slow reader
        would cause silly-window sends.

        Args:
            position: where the chunk begins.
            received: up to where everything is acknowledged.
            limit: the credit: the end that the chunk must not pass.
            stop: where the extent ends.
            saved: by how much encodings have shortened the chunks in flight. The window bounds the
                bytes on the wire, the credit those that they decode to.
        """
        room = min(limit, received + self.window_bytes + saved) - position
        wanted = self.chunk_bytes - position % self.chunk_bytes
        if wanted < SMALLEST_CHUNK_BYTES or room < wanted + 2 * self.chunk_bytes:
            wanted = self.chunk_bytes
        wanted = min(wanted, stop - position)
        if room >= wanted:
            return wanted
        # Silly-window avoidance, the sender's half: send less than a chunk only where nothing is in
        # flight, so no ack could bring more room.
        return max(room, 0) if position == received else 0

    def drop_samples(self) -> None:
        """Drop the unfinished samples: the channels that carried them are lost."""
        self._unacked.clear()

    def _chunk_for(self, rate: float) -> int:
        # A chunk must arrive well within the ack wait, however slow the link.
        longest = rate * min(CHUNK_SECONDS, self._ack_wait / 8)
        # For each lane: one that waits for the ack of its only chunk stands idle meanwhile.
        wanted = min(longest, self.window_bytes / (CHUNKS_IN_WINDOW * self.lanes))
        wanted = min(wanted, self._longest_of_new)
        # Powers of two times the smallest, so that sizes are multiples of each other as they grow.
        size = self._smallest
        while size * 2 <= min(wanted, self.largest):
            size *= 2
        return min(self.largest if wanted >= self.largest else size, self._part)


# --- the receiver's side ---------------------------------------------------------------------


class Credit:
    """The receiver's promise: the sender may send bytes below ``limit``.

    The limit only grows, by what the sink has consumed, so what a stream can make this process hold
    is ``window_bytes`` and no more. It grows by at least ``quantum_bytes`` (silly-window avoidance,
    the receiver's half): a reader that consumes a few bytes at a time does not cause tiny chunks.
    """

    def __init__(
        self, window_bytes: int, *, quantum_bytes: int = 1, allowed: int = ANYWHERE
    ) -> None:
        self._window = window_bytes
        self._quantum = quantum_bytes
        self.consumed = 0
        self.limit = 0
        self.allowed = allowed
        """Up to where a bandwidth limit lets the sender come (bytes)."""
        self.grant()

    def release(self, nbytes: int) -> None:
        """Note that the sink has consumed ``nbytes`` more."""
        self.consumed += nbytes

    def resize(self, window_bytes: int) -> None:
        """Promise a window of ``window_bytes`` from now on; what was promised stays promised."""
        self._window = window_bytes

    @property
    def window_bytes(self) -> int:
        """How much it promises to hold (bytes)."""
        return self._window

    @property
    def window_end(self) -> int:
        """Up to where there is memory for what the sender sends (bytes)."""
        return self.consumed + self._window

    @property
    def is_due(self) -> bool:
        """Whether so much was consumed since the last grant that the sender should get it now."""
        return self._more >= self._window // 4

    @property
    def is_grantable(self) -> bool:
        """Whether ``grant`` would give enough to be worth an ack."""
        return self._more >= max(min(self._quantum, self._window), self._window // 4)

    @property
    def _more(self) -> int:
        return min(self.consumed + self._window, self.allowed) - self.limit

    def grant(self) -> int:
        """Return the limit to send now."""
        more = self._more
        # A window may be less than the quantum where streams share a memory. Under a bandwidth
        # limit the parts are large enough already.
        if more >= min(self._quantum, self._window) or (self.allowed != ANYWHERE and more > 0):
            self.limit += more
        return self.limit


def credit_for(
    config: StreamConfig, chunk_bytes: int, window_bytes: int = 0, *, allowed: int = ANYWHERE
) -> Credit:
    """Return what a receiver promises to a sender of chunks of up to ``chunk_bytes``.

    Its window is ``window_bytes``; 0: that of ``config``.
    """
    window = whole_chunks(window_bytes or config.window_bytes, chunk_bytes)
    quantum = min(config.smallest_chunk_bytes, chunk_bytes)
    return Credit(window, quantum_bytes=quantum, allowed=allowed)


def whole_chunks(window_bytes: int, chunk_bytes: int) -> int:
    """Return a window of whole chunks, for a sender of chunks of up to ``chunk_bytes``.

    The rest would be sent as one tiny chunk whenever the reader is slow. Not where fewer than four
    fit: chunks do not grow so far, and rounding would cost too much of the window.
    """
    chunks = window_bytes // chunk_bytes
    return chunks * chunk_bytes if chunks >= CHUNKS_IN_WINDOW else window_bytes


ACK_DELAY = "ack delay"
"""The timer of a delayed ack."""

_DELAY_SECONDS = 0.1  # an ack that could cover more chunks waits for them this long
_MAX_REPORT_SECONDS = 1.0  # consumed bytes are reported this soon: a slow reader shows progress


class DelayedAck:
    """Decides when an ack ``is_due``; whoever has something that cannot wait sets it.

    Delayed acknowledgement as in TCP (RFC 1122, 4.2.3.2): an ack wakes threads at both ends, so
    where chunks are full one ack covers two of them. In a wide window a third may come before the
    second is consumed: then one ack returns its credit, too. What waits is sent after a bounded
    delay, whatever else happens. On slow links chunks are small, and each is acknowledged at once.

    Args:
        window_bytes: what the sender may have in flight.
        report_seconds: the longest delay for consumed bytes, which is at most a second.
        timers: where ``ACK_DELAY`` runs.
    """

    __slots__ = (
        "_chunk_bytes", "_chunks_per_ack", "_report_seconds", "_sent_at", "_timers", "_unacked",
        "_window_bytes", "is_due",
    )  # fmt: skip

    def __init__(self, window_bytes: int, *, report_seconds: float, timers: Timers) -> None:
        self.is_due = False
        self._window_bytes = window_bytes
        self._report_seconds = min(_MAX_REPORT_SECONDS, report_seconds)
        self._timers = timers
        self._chunk_bytes = window_bytes
        self._chunks_per_ack = 1
        self._unacked = 0  # chunks delivered since the last ack
        self._sent_at = float("-inf")

    def set_chunk_bytes(self, chunk_bytes: int) -> None:
        """Note the size of a full chunk."""
        self._chunk_bytes = chunk_bytes
        self.resize(self._window_bytes)

    def resize(self, window_bytes: int) -> None:
        """Note what the sender may have in flight from now on."""
        self._window_bytes = window_bytes
        in_window = window_bytes // self._chunk_bytes
        self._chunks_per_ack = 1 if in_window < 4 else 2 if in_window < 8 else 3

    def delivered(self, count: int, *, is_full: bool, now: float) -> None:
        """Note that ``count`` more chunks were delivered.

        Args:
            count: how many.
            is_full: the last has full size, and none is missing.
            now: monotonic seconds.
        """
        self._unacked += count
        if is_full and self._unacked < self._chunks_per_ack:
            self._timers.start(ACK_DELAY, _DELAY_SECONDS, now=now)
        else:
            self.is_due = True

    def consumed(self, *, is_credit_due: bool, is_all_consumed: bool, now: float) -> None:
        """Note that the sink has consumed some more.

        Args:
            is_credit_due: the sender should get its credit now.
            is_all_consumed: everything that arrived was consumed: nothing is left to wait for.
            now: monotonic seconds.
        """
        is_worth_it = is_credit_due or (is_all_consumed and self._unacked >= 2)
        if is_worth_it or now - self._sent_at >= self._report_seconds:
            self.is_due = True
        elif not self._timers.is_running(ACK_DELAY):
            self._timers.start(ACK_DELAY, self._sent_at + self._report_seconds - now, now=now)

    def timer_expired(self) -> None:
        """Note that ``ACK_DELAY`` has expired: the delayed ack is due."""
        self._timers.stop(ACK_DELAY)
        self.is_due = True

    def sent(self, *, now: float) -> None:
        """Note that an ack leaves now; it covers everything up to now."""
        self.is_due = False
        self._unacked = 0
        self._sent_at = now
        self._timers.stop(ACK_DELAY)
