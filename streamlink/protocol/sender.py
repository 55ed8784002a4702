"""``SendStream``: the sending half of a transfer.

    OPENING ── accept ──▶ STREAMING ── finish() ──▶ FINISHING ── commit ──▶ DONE
       ▲                      │                         │
       └── attach() on a new channel, after the last one was lost

It keeps every chunk (``send_buffer``) until it is *received*; a repair or a resume sends it again
from there. Chunks leave on whichever channel has room. A sender that ``is_resumable`` begins where
the receiver says, which may have the rest from an earlier process. Two timers run:
``streaming_ack_wait`` while a sent chunk is not received, and ``communication_timeout`` (stage
sending) while the peer owes us anything at all.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamlink.extent import Extent
from streamlink.protocol.flow_control import NEW_LANE_CHUNKS
from streamlink.protocol.frames import (
    NO_METRICS,
    PLAIN,
    UNNUMBERED,
    Chunk,
    Finish,
    Frame,
    Payload,
)
from streamlink.protocol.limits import FRAMES_PER_CHUNK
from streamlink.protocol.memory_budget import Need
from streamlink.protocol.pacing import ANYWHERE
from streamlink.protocol.sender_acks import ACK_TIMER, LAG_TIMER, OPEN_TIMER, AckReceiver
from streamlink.protocol.states import State
from streamlink.protocol.stats import (
    CREDIT,
    HELD,
    LIMIT,
    NETWORK,
    READER,
    StreamStats,
)
from streamlink.protocol.stream import Channel
from streamlink.protocol.window_need import IDLE_SECONDS


class SendStream(AckReceiver):
    """Sends one extent of a model. The verbs that both halves share: ``machine``, ``stream``."""

    # --- the owner writes ------------------------------------------------------

    @property
    def chunk_bytes(self) -> int:
        """The chunk size that suits the link now (bytes)."""
        return self._window.chunk_bytes

    @property
    def writable_bytes(self) -> int:
        """How many bytes ``write`` takes now, from ``position`` on. 0: wait."""
        if self.state is not State.STREAMING:
            return 0
        position = self._buffer.position
        return self._window.next_chunk_bytes(
            position,
            received=self.received,
            limit=min(self.limit, self._allowed),
            stop=self._stop,
            saved=self._buffer.saved_bytes,
        )

    @property
    def writable_limit(self) -> int:
        """The most that ``write`` takes now. Unlike ``writable_bytes`` it never shrinks on a call.

        The window may have shrunk between asking the source for a chunk and getting it.
        """
        if self.state is not State.STREAMING:
            return 0
        position = self._buffer.position
        return min(self._window.largest, self.limit - position, self._stop - position)

    def ask(self) -> tuple[int, int]:
        """Return offset and size of the next chunk, which its owner may read from now on."""
        position, room = self._buffer.position, self.writable_bytes
        # Counted before it is here: meanwhile the stream may have to do with less memory.
        self._asked_end = max(self._asked_end, position + room)
        return position, room

    def write(
        self,
        payload: Payload,
        *,
        now: float,
        encoding: int = PLAIN,
        nbytes: int = -1,
        hashes: bytes = b"",
    ) -> None:
        """Queue the next chunk. The views must not change until they are received.

        Args:
            payload: its bytes, as they travel.
            now: monotonic seconds.
            encoding: which of ``encodings`` they are in, counted from 1; 0: plain.
            nbytes: what they decode to; -1: they are plain.
            hashes: see ``Chunk``.
        """
        at = self._buffer.position
        chunk = Chunk(UNNUMBERED, at, payload, encoding, nbytes, hashes=hashes)
        if not 0 < chunk.nbytes <= self.writable_limit:
            raise self._misuse(f"write of {chunk.nbytes} bytes")
        self._buffer.append(chunk)
        self._was_limited = False
        if self.waits_for:
            self._stop_waiting()
        self._watch_peer(now)

    def finish(self, digest: str, metrics: Mapping[str, float] = NO_METRICS, *, now: float) -> None:
        """Declare that every byte was written; success is the peer's commit, later."""
        may_finish = self.state in (State.STREAMING, State.OPENING) and self.is_written
        self._require(may_finish, f"finish at byte {self.position} of {self.extent}")
        self._finish = Finish(self._stop, digest, metrics)
        if self.state is State.STREAMING:  # else the call was lost just now; the next one sends it
            self.state = State.FINISHING
            self._start_sending_timer(now)
            self._account(now)

    # --- a memory that streams share ---------------------------------------------------

    def memory_need(self, *, now: float) -> Need:
        """Return what it needs of a memory that it shares with other streams (bytes)."""
        kept = max(self._buffer.position, self._asked_end) - self.received
        held = max(0, kept - self._buffer.saved_bytes)
        if held:
            self._busy_at = now
        is_idle = self.state is not State.STREAMING or now - self._busy_at > IDLE_SECONDS
        wanted = 0 if is_idle else min(self._window.wanted_bytes, self._stop - self.received)
        price_of = self.config.stream.price_of
        return Need(price_of(wanted), price_of(held))

    def use_memory(self, nbytes: int) -> None:
        """Keep within ``nbytes`` of such a memory from now on; what is in flight stays there."""
        window = self.config.stream.window_within(nbytes)
        if window != self._window_bytes:
            self._window_bytes = window
            self._window.cap(window)

    # --- a long line -------------------------------------------------------------------

    def extra_wanted(self, *, now: float) -> int:
        """Return by how much its line needs a larger window than that of its settings (bytes)."""
        # No more than the receiver takes: its window grows first.
        wanted = min(self._window.wanted_bytes, self.limit - self.received)
        return max(0, min(wanted, self._stop - self.received) - self.config.stream.window_bytes)

    @property
    def has_moved_all(self) -> bool:
        """Whether the receiver has every byte."""
        return self.received == self._stop

    def use_extra(self, nbytes: int) -> None:
        """Have so many bytes more in flight than its settings say."""
        self._window_bytes = self.config.stream.window_bytes + nbytes
        self._window.cap(self._window_bytes)

    # --- a bandwidth limit that streams share --------------------------------------------

    def pace(self, part_bytes: int, ahead_bytes: int = 0, largest_ratio: float = 1.0) -> None:
        """Write only what ``allow`` permits from now on, in such parts; 0: whatever it likes."""
        self._window.pace(part_bytes or self._window.largest)
        if not part_bytes:
            self._allowed = ANYWHERE
        elif not self._part:
            self._allowed = self._buffer.position
        self._part = part_bytes

    def allow(self, nbytes: int) -> None:
        """Permit to write ``nbytes`` more."""
        self._allowed += nbytes

    @property
    def wanted_bytes(self) -> int:
        """How many bytes it wants to be permitted now; 0: it has enough, or cannot write."""
        if not self._part or self.state is not State.STREAMING:
            return 0
        position = self._buffer.position
        # A resume may have gone back: what lies behind is paid for again.
        self._allowed = max(position, min(self._allowed, position + 2 * self._part))
        left = self._stop - position
        if self._allowed - position >= min(self._part, left):
            return 0
        return min(self._part, self._stop - self._allowed)

    def take_uncharged(self) -> int:
        """Return bytes that left twice, less those that encodings saved, since it was asked."""
        buffer = self._buffer
        total = buffer.resent_bytes - buffer.saved_bytes - buffer.acked_saved
        uncharged, self._was_charged = total - self._was_charged, total
        return uncharged

    # --- what leaves ---------------------------------------------------------------------

    def note_idle(self, *, now: float) -> None:
        """Note that the carrier has sent all it was given."""
        self._is_idle = True
        super()._account(now)  # nothing has left or arrived, so the meter need not know

    def frames_to_send(self, *, now: float, channel: int = 0) -> list[Frame]:
        """Return what has to leave now: control frames first, then chunks, then the finish."""
        frames = super().frames_to_send(now=now, channel=channel)
        if self.state in _SENDING and (on := self._channels.get(channel)) and on.is_ready:
            if self._takes_next(on):
                frames.extend(self._chunks_to_send(on, now))
            if self._finish is not None and self._is_finish_due(on):
                self._finish_sent_on = channel
                frames.append(self._finish)
        self._is_idle = not frames  # until ``note_idle``: the carrier is busy with them
        self._account(now)
        return frames

    def has_frames(self, channel: int = 0) -> bool:
        """Whether ``frames_to_send`` would return something for ``channel``."""
        if super().has_frames(channel):
            return True
        if self.state not in _SENDING or (on := self._channels.get(channel)) is None:
            return False
        if not on.is_ready:
            return False
        return bool(self._buffer.unsent and self._takes_next(on)) or self._is_finish_due(on)

    def _takes_next(self, channel: Channel) -> bool:
        """Whether a channel takes the next chunk; one that is alone takes any."""
        if channel.is_retiring:
            return not self._has_other(channel)
        if not channel.is_beside:
            return True
        arrived, in_flight = self._buffer.frames_of(channel.number)
        if arrived >= NEW_LANE_CHUNKS or not self._has_proven_other(channel):
            return True
        following = self._buffer.unsent[0] if self._buffer.unsent else None
        # What a lost lane carried is never refused: the others may be silent, too.
        if following is None or following.sequence != UNNUMBERED:
            return in_flight <= arrived
        return following.nbytes <= self._window.new_lane_takes(arrived) and in_flight <= arrived

    def may_take(self, channel: int) -> bool:
        """Whether a channel would take what is written next."""
        on = self._channels.get(channel)
        return on is not None and on.is_ready and self._takes_next(on)

    def _has_proven_other(self, channel: Channel) -> bool:
        """Whether another channel takes any chunk."""
        for each in self._channels.values():
            if each is not channel and each.is_ready and not each.is_retiring:
                arrived, _ = self._buffer.frames_of(each.number)
                if not each.is_beside or arrived >= NEW_LANE_CHUNKS:
                    return True
        return False

    def retire(self, channel: int) -> bool:
        """See ``StreamMachine``; what ``channel`` carries is done with once it is acknowledged."""
        is_retiring = super().retire(channel)
        self._count_lanes()
        return is_retiring

    def is_through(self, channel: int) -> bool:
        """See ``StreamMachine``."""
        return super().is_through(channel) and not self._buffer.frames_of(channel)[1]

    def _chunks_to_send(self, channel: Channel, now: float) -> list[Chunk]:
        # One at a time where there are several channels: the next goes to whichever has room.
        max_chunks = _ALL if len(self._channels) == 1 else 1
        chunks = self._buffer.take_unsent(channel.number, max_chunks)
        self._chunks += len(chunks)
        # The receiver may send as many small frames as its acks need, however fast the link is.
        self._frame_budget.add_tokens(FRAMES_PER_CHUNK * len(chunks))
        on_wire = self.received - self._buffer.acked_saved
        for chunk in chunks:
            self._window.sent(chunk.end, received=on_wire, now=now)
        seconds = self.config.timeouts.streaming_ack_wait
        self._timers.run_while(self._buffer.is_in_flight, ACK_TIMER, seconds, now=now)
        if len(self._channels) > 1:
            self._watch_lag(now)
        return chunks

    def _is_finish_due(self, channel: Channel) -> bool:
        # After the last chunk has left, though not all have arrived: repairs may follow it.
        if self._finish is None or self._finish_sent_on is not None or self._buffer.unsent:
            return False
        return self._is_control_channel(channel)

    @property
    def rate(self) -> float:
        """What the link has delivered lately (bytes on the wire per second); 0: not known yet."""
        return self._window.rate

    @property
    def is_in_flight(self) -> bool:
        """Whether something was sent that the receiver has not acknowledged."""
        return self._buffer.is_in_flight

    @property
    def is_limited(self) -> bool:
        """Whether the next chunk had to wait for a bandwidth limit, of this end or the other.

        Also true where the receiver's window has room for only a chunk or two: acks cannot tell
        that from a limit.
        """
        return self._was_limited or self._stalls.cause == LIMIT

    @property
    def stats(self) -> StreamStats:
        """A snapshot for logs and progress bars."""
        return StreamStats(
            total_bytes=self.total_bytes,
            sent_bytes=self.position,
            received_bytes=self.received,
            consumed_bytes=self.consumed,
            resent_bytes=self._buffer.resent_bytes,
            window_bytes=self._window.window_bytes,
            chunk_bytes=self._window.chunk_bytes,
            rate=self._window.rate,
            in_flight_bytes=0 if self.is_closed else self._buffer.in_flight_end - self.received,
            ack_times=self._ack_latency.so_far(),
            moving_seconds=self._meter.seconds,
            moving_bytes=self.received - self._started_at - self._buffer.acked_saved,
            saved_bytes=self._buffer.acked_saved,
            extent=Extent(self._started_at, self._stop),
            **self._shared_stats(),
        )

    # --- channels come and go ----------------------------------------------------

    def offer(self, *, now: float) -> None:
        """Note that the peer was asked to open this stream: it has ``open_timeout`` for it."""
        if not self._was_attached and not self.is_closed:
            self._timers.start(OPEN_TIMER, self.config.timeouts.open_timeout, now=now)

    def retract_offer(self) -> None:
        """Note that the peer cannot open this stream now: ``offer`` follows when it can."""
        if not self._was_attached:
            self._timers.stop(OPEN_TIMER)

    def _attach(self, channel: Channel, now: float) -> None:
        if self.state is State.DONE:
            return  # there is nothing left to send
        is_only = len(self._channels) == 1
        self.resumes += self._was_attached and is_only
        channel.outbox.append(self._handshake.open(is_resumed=self._was_attached))
        self._was_attached = True
        if is_only:
            self.state = State.OPENING
            self._timers.start(OPEN_TIMER, self.config.timeouts.open_timeout, now=now)
        self._watch_peer(now)

    def _detach(self, channel: Channel, now: float) -> None:
        self._buffer.lose_channel(channel.number)
        if self._finish_sent_on == channel.number:
            self._finish_sent_on = None
        self._count_lanes()
        if len(self._channels) < 2:
            self._timers.stop(LAG_TIMER)  # no other could carry what this one owes
        else:
            self._watch_lag(now)  # another may owe the oldest chunk now
        if not self._is_ready:
            self._window.drop_samples()
            self._timers.stop(OPEN_TIMER)
            # A break that the carrier reports stops the ack timer. Channels that we closed for
            # their silence do not: otherwise a peer that never acknowledges would never time out.
            if not self._was_silent:
                self._timers.stop(ACK_TIMER)
            self.state = State.OPENING
            if self._channels:  # another one is in its handshake already
                self._timers.start(OPEN_TIMER, self.config.timeouts.open_timeout, now=now)
        self._watch_peer(now)

    # --- what limits it ----------------------------------------------------------

    def _account(self, now: float) -> None:
        super()._account(now)
        is_moving = self._buffer.is_in_flight or self._stalls.cause == LIMIT
        self._meter.update(bool(self._channels) and is_moving, now=now)

    def _note_end_of(self, cause: str, now: float) -> None:
        # The receiver's limit shows afterwards: it permits more, and had nothing to work on.
        is_theirs = cause == CREDIT and self.consumed == self._buffer.position < self._stop
        if is_theirs:
            self._meter.add_wait(self._stalls.since, now=now)
        self._was_limited = self._was_limited or is_theirs or cause == LIMIT

    def _cause(self) -> str:
        if self.state is State.OPENING or not self._channels:
            return HELD if self._peer_waits_for else NETWORK
        if not self._is_idle or self._buffer.unsent:
            return NETWORK  # the carrier is sending
        if self.writable_bytes:
            return self._own_cause()
        position = self._buffer.position
        in_flight, unconsumed = position - self.received, self.received - self.consumed
        if in_flight > 0 and in_flight >= unconsumed:
            return NETWORK  # whatever fills most of the window limits the stream
        if self.state is State.STREAMING and position == self._stop:
            return self._own_cause()  # the owner has not called ``finish``
        if self._part and self._allowed < min(self.limit, self._stop):
            return LIMIT
        return HELD if self._peer_waits_for else CREDIT

    def _own_cause(self) -> str:
        return HELD if self.waits_for else READER

    def _cause_of_a_held_peer(self) -> str:
        return NETWORK if self.state is State.OPENING else CREDIT


_SENDING = (State.STREAMING, State.FINISHING)
_ALL = 1 << 62
