"""``ChunkReceiver``: how the receiving half processes chunks, and watches that they arrive.

Each is checked by its header (``validate``), put in order (``reassembly``), and delivered. One
whose hash is wrong is requested again, on the channel that brought it.
"""

from __future__ import annotations

from collections.abc import Collection

from streamlink.config import LinkConfig
from streamlink.errors import ChecksumError, ProtocolError
from streamlink.protocol.credit_cost import CreditCost
from streamlink.protocol.events import Delivered
from streamlink.protocol.flow_control import Credit, DelayedAck, credit_for, whole_chunks
from streamlink.protocol.frames import Chunk, ChunkHeader, Finish, Open, Repair
from streamlink.protocol.handshake import SpecPages
from streamlink.protocol.limits import MAX_WAITING_FRAMES, SMALLEST_CHUNK_BYTES
from streamlink.protocol.memory_budget import Need
from streamlink.protocol.pacing import ANYWHERE
from streamlink.protocol.reassembly import RangeStatus, Reassembly
from streamlink.protocol.states import State
from streamlink.protocol.stats import ReceiveMeter
from streamlink.protocol.stream import Channel, StreamMachine
from streamlink.protocol.validate import check_chunk
from streamlink.protocol.window_need import WindowNeed

OPEN_TIMER, READ_TIMER, RECEIVING_TIMER = "open", "read", "receiving"
_CHUNK_STATES = (State.STREAMING, State.FINISHING)


class ChunkReceiver(StreamMachine):
    """Base of ``ReceiveStream``: from a chunk's header to its delivery."""

    def __init__(
        self,
        config: LinkConfig,
        *,
        stream_id: int,
        peer_name: str,
        name: str,
        encodings: Collection[str],
    ) -> None:
        super().__init__(config, stream_id=stream_id, peer_name=peer_name, name=name)
        stream = config.stream
        self.opened: Open | None = None
        self._chunk_bytes = stream.chunk_bytes
        self._credit = credit_for(stream, stream.chunk_bytes)
        self._need: WindowNeed | None = None
        self._window_bytes = 0  # of a shared memory, or of a long line; 0: that of its settings
        self._decodes = frozenset(encodings)
        self.encodings: tuple[str, ...] = ()
        """Those that the sender offers and this end decodes; a chunk names one by its place."""
        self._pages = SpecPages(stream.max_spec_bytes)
        self._reassembly = Reassembly()
        # The sender bounds the repairs of each chunk. This end cannot know which chunk a damaged
        # frame was, so it bounds how many may arrive damaged without an intact one between them.
        self._max_damaged = (stream.max_repairs + 1) * (
            stream.longest_window_bytes // stream.smallest_chunk_bytes + 1
        )
        # Credit bounds the bytes that wait here, this the objects: a chunk of one byte costs some
        # hundred bytes of memory.
        self._max_chunks = 2 * stream.longest_window_bytes // SMALLEST_CHUNK_BYTES + 64
        self._is_accepted = False
        self._finish: Finish | None = None
        self._is_whole = False  # every byte was delivered and consumed
        self._meter = ReceiveMeter()
        self._saved_bytes = 0  # on the wire, by encodings
        self._wasted_bytes = 0  # of chunks that were dropped
        self._part = 0  # what a bandwidth limit permits at a time; 0: there is none
        self._ahead = 0  # how much may be on its way where nothing shrinks
        self._cost = CreditCost()
        self._acks = DelayedAck(
            stream.window_bytes,
            report_seconds=config.timeouts.held_interval,
            timers=self._timers,
        )

    # --- a memory that streams share ---------------------------------------------------

    def memory_need(self, *, now: float) -> Need:
        """Return what it needs of a memory that it shares with other streams (bytes)."""
        if self.opened is None or not self._is_accepted:
            return Need(0, 0)
        if self._need is None:
            self._need = WindowNeed(self.config.stream, consumed=self._credit.consumed, now=now)
        credit, stop = self._credit, self.opened.brings.stop
        wanted = min(self._need.window_bytes(credit.consumed, now=now), stop - credit.consumed)
        promised = min(credit.limit, stop) - credit.consumed
        price_of = self.config.stream.price_of
        return Need(price_of(wanted), price_of(promised))

    def use_memory(self, nbytes: int) -> None:
        """Keep within ``nbytes`` of such a memory from now on; what is promised stays promised."""
        self._use_window(self.config.stream.window_within(nbytes))

    # --- a long line -------------------------------------------------------------------

    def extra_wanted(self, *, now: float) -> int:
        """Return by how much its line needs a larger window than that of its settings (bytes)."""
        if self.opened is None or self._is_whole:
            return 0
        stream, consumed = self.config.stream, self._credit.consumed
        if self._need is not None:
            wanted = self._need.window_bytes(consumed, now=now)
        elif not self._is_accepted:
            # What it begins with, so that the first credit has all of it.
            wanted = min(stream.initial_window_bytes, stream.longest_window_bytes)
        else:
            return 0
        return max(0, min(wanted, self.opened.brings.stop - consumed) - stream.window_bytes)

    @property
    def has_moved_all(self) -> bool:
        """Whether every byte was delivered and consumed."""
        return self._is_whole

    def use_extra(self, nbytes: int) -> None:
        """Promise so many bytes more than its settings say; what is promised stays promised."""
        self._use_window(self.config.stream.window_bytes + nbytes)

    def _expect_need(self, now: float) -> None:
        """Learn what the line needs from the first byte on, where that may make a difference."""
        stream = self.config.stream
        if stream.longest_window_bytes > stream.window_bytes:
            self._need = WindowNeed(stream, consumed=self._credit.consumed, now=now)

    def _use_window(self, window: int) -> None:
        if window == self._window_bytes:
            return
        self._window_bytes = window
        if self._is_accepted:
            window = whole_chunks(window, self._chunk_bytes)
            self._credit.resize(window)
            # A sender that has used up its credit waits for this, and nothing else wakes it.
            self._acks.is_due = self._acks.is_due or self._credit.is_grantable
        else:  # nothing was granted yet
            self._credit = self._new_credit()
        self._acks.resize(window)

    def _new_credit(self) -> Credit:
        """Return the credit of a stream that has granted none."""
        allowed = 0 if self._part else ANYWHERE
        stream = self.config.stream
        return credit_for(stream, self._chunk_bytes, self._window_bytes, allowed=allowed)

    # --- a bandwidth limit that streams share --------------------------------------------

    def pace(self, part_bytes: int, ahead_bytes: int = 0, largest_ratio: float = 1.0) -> None:
        """Grant only what ``allow`` permits from now on, in such parts; 0: whatever fits.

        Args:
            part_bytes: what it asks for at a time.
            ahead_bytes: how much it may have granted beyond what is here, as it will travel.
            largest_ratio: by how much encodings may make that more.
        """
        self._cost.bound(largest_ratio)
        was_paced, self._part, self._ahead = bool(self._part), part_bytes, ahead_bytes
        credit = self._credit
        if not part_bytes:
            credit.allowed = ANYWHERE
            self._acks.is_due = self._acks.is_due or was_paced
        elif not self._is_accepted:  # nothing was granted yet
            self._credit = self._new_credit()
        elif not was_paced:
            credit.allowed = credit.limit  # what is promised stays promised
            self._cost.begin(credit.limit, saved=self._saved_bytes)

    def _begin_at(self, start: int) -> None:
        self._reassembly.received = start
        self._credit.release(start)
        self._credit.allowed = max(self._credit.allowed, start)
        self._cost.begin(start, saved=0)

    def allow(self, nbytes: int) -> None:
        """Permit to grant what is expected to travel as ``nbytes`` more."""
        permitted = self._cost.pay(nbytes)
        if permitted > nbytes:  # rounded up, or by a ratio that has grown since it asked
            permitted = min(permitted, self._next_part)
        self._credit.allowed += permitted
        # A sender that has used up its credit waits for this, and nothing else wakes it.
        self._acks.is_due = True

    @property
    def wanted_bytes(self) -> int:
        """How many bytes on the line it wants to be permitted now; 0: enough are on their way."""
        if not self._part or self.opened is None or not self._is_accepted or self._is_whole:
            return 0
        credit, stop, ratio = self._credit, self.opened.brings.stop, self._cost.ratio
        room = min(credit.window_end, stop) - credit.allowed
        wanted = self._next_part
        is_enough = credit.allowed - self._reassembly.received >= self._ahead * ratio
        return 0 if is_enough or room < wanted else self._cost.of(wanted)

    @property
    def _next_part(self) -> int:
        """How many bytes of the model it asks for at a time."""
        assert self.opened is not None
        credit = self._credit
        # In a window that is smaller than two parts, half of it: else none would ever fit. What
        # encodings save makes a part larger only to an eighth: whole parts have to fill the window.
        plain = min(self._part, max(1, credit.window_bytes // 2))
        part = min(int(self._part * self._cost.ratio), max(plain, credit.window_bytes // 8))
        return min(part, self.opened.brings.stop - credit.allowed)

    def take_uncharged(self) -> int:
        """Return what travelled beyond what was permitted since it was asked; negative: less."""
        return self._cost.settle(
            self._reassembly.received,
            saved=self._saved_bytes,
            allowed=self._credit.allowed,
            ahead=self._ahead,
        )

    # --- before a payload is read ----------------------------------------------------

    def admit(self, header: ChunkHeader, *, now: float, channel: int = 0) -> bool:
        """Check a chunk by its header; returns whether its payload may be read into its place.

        For carriers that read a payload apart from its header, and have made sure that the
        header is as it was sent. The place is reserved for that reader until ``receive`` brings the
        chunk or the channel is lost. False: read it elsewhere, since it is here already, or another
        channel brings it.
        """
        on = self._channels.get(channel)
        if (
            on is None
            or not on.is_ready
            or self.state not in _CHUNK_STATES
            or self._pages.is_wanted
        ):
            return False
        try:
            self._check_chunk(header, on)
        except ProtocolError as error:
            self._fail(error, error.code)
            return False
        is_free = self._reassembly.reserve(header.offset, header.end)
        if is_free:
            on.reserved_at = header.offset
        return is_free

    # --- chunks ----------------------------------------------------------------------

    def _on_chunk(self, chunk: Chunk, now: float) -> None:
        channel = self._channel
        self._cancel_reservation(channel)
        if self._pages.is_wanted:
            raise self._violation("sent a chunk before the description of its model")
        if not chunk.is_intact:
            self._wasted_bytes += chunk.wire_bytes
            # No request leaves on a channel that retires; what one that is lost owes comes again.
            if channel.is_retiring:
                self.detach(now=now, channel=channel.number)
            else:
                self._request_repair(channel)
            return
        self._check_chunk(chunk, channel)
        channel.chunks += 1
        channel.damaged_in_a_row = 0
        status = self._reassembly.status_of(chunk.offset, chunk.end)
        if status is RangeStatus.DUPLICATE:
            self._count_duplicate(chunk, now)
        elif status is RangeStatus.OVERLAP:
            raise self._violation(
                f"sent a chunk at byte {chunk.offset} that overlaps others: the chunks of a model "
                "must not change when they are sent again"
            )
        else:
            self._add(chunk, now)

    def _check_chunk(self, chunk: Chunk | ChunkHeader, channel: Channel) -> None:
        assert self.opened is not None
        check_chunk(
            chunk,
            self.opened,
            sequence=channel.chunks,
            max_bytes=self._chunk_bytes,
            limit=self._credit.limit,
            encodings=len(self.encodings),
            peer_name=self.peer_name,
        )
        if not chunk.nbytes or len(self._events) + len(self._reassembly) > self._max_chunks:
            raise self._violation(
                f"sends chunks that are too small, {chunk.nbytes} bytes in the last one"
            )

    def _count_duplicate(self, chunk: Chunk, now: float) -> None:
        self._wasted_bytes += chunk.wire_bytes
        # A lost channel may have delivered what another sends again; a flood of it is no accident.
        if not self._frame_budget.take_token(now=now):
            raise self._violation(
                f"floods this side with the chunk at byte {chunk.offset}, which was received"
            )
        self._acks.is_due = True  # the sender does not know yet that it arrived

    def _add(self, chunk: Chunk, now: float) -> None:
        self._has_progressed = True
        in_order = self._reassembly.add(chunk)
        if in_order:
            self._deliver(in_order, now)
        else:
            # Behind a gap: acknowledge at once, so that the sender learns of the gap.
            self._acks.delivered(1, is_full=False, now=now)
            self._watch_sender(now, is_progress=True)

    def _request_repair(self, channel: Channel) -> None:
        number, channel.chunks = channel.chunks, channel.chunks + 1
        channel.damaged_in_a_row += 1
        if channel.damaged_in_a_row > self._max_damaged:
            raise ChecksumError(
                f"{channel.damaged_in_a_row} chunks from {self.peer_name} arrived damaged in a "
                f"row after byte {self._reassembly.received}; check the network cards and proxies "
                "on the way",
                stream_id=self.stream_id,
            )
        if len(channel.outbox) >= MAX_WAITING_FRAMES:
            raise self._violation(f"leaves {MAX_WAITING_FRAMES} answers unread")
        self._repairs += 1
        channel.outbox.append(Repair(number))

    def _cancel_reservation(self, channel: Channel) -> None:
        if channel.reserved_at is not None:
            self._reassembly.cancel(channel.reserved_at)
            channel.reserved_at = None

    def _deliver(self, chunks: list[Chunk], now: float) -> None:
        saved = sum(chunk.saved_bytes for chunk in chunks) if self.encodings else 0
        self._saved_bytes += saved
        # One measurement for all: those behind a gap have waited here, not on the link.
        self._meter.arrived(chunks[-1].end - chunks[0].offset - saved, now=now)
        if self._need is not None:
            self._need.arrived(chunks[-1].end, now=now)
        for chunk in chunks:
            self._chunks += 1
            self._events.append(Delivered(chunk))
        self._peer_waits_for = ""
        is_full = chunks[-1].nbytes == self._chunk_bytes and not self._reassembly.has_gap
        self._acks.delivered(len(chunks), is_full=is_full, now=now)
        # Arrivals do not restart it: a sink that consumes nothing is not excused by more bytes.
        if not self._timers.is_running(READ_TIMER):
            self._restart_read_timer(now)
        self._watch_sender(now, is_progress=True)

    # --- timers ------------------------------------------------------------------------

    def _restart_read_timer(self, now: float) -> None:
        if self._reassembly.received > self._credit.consumed:
            self._timers.start(READ_TIMER, self.config.timeouts.streaming_read_timeout, now=now)
        else:
            self._timers.stop(READ_TIMER)

    def _watch_sender(self, now: float, *, is_progress: bool = False) -> None:
        seconds = self.config.timeouts.communication_timeout
        is_owed = self._is_senders_turn()
        # A wait for the bandwidth limit is part of the rate, though not the sender's fault.
        self._meter.set_running((is_owed or self._is_limited) and bool(self._channels), now=now)
        self._watch_turn(
            RECEIVING_TIMER, seconds, is_owed=is_owed, is_progress=is_progress, now=now
        )

    @property
    def _is_limited(self) -> bool:
        """Whether the sender may send nothing until the bandwidth limit permits it."""
        if not (self._part and self._is_accepted and self.opened is not None):
            return False
        return self._credit.allowed == self._reassembly.received < self.opened.brings.stop

    def _is_senders_turn(self) -> bool:
        if self._is_whole:
            return False
        if not self._channels or self.state is State.AWAITING_OPEN:
            return True
        if self.state is State.OPENING or self.opened is None:
            return False  # our owner decides; the sender has a timer on that
        received = self._reassembly.received
        if received == self.opened.brings.stop:
            return self._finish is None
        # Without credit the sender must not send: then ``streaming_read_timeout`` bounds the wait.
        return self._credit.limit > received
