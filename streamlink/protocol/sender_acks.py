"""``AckReceiver``: how the sending half handles what the receiver answers.

The accept of each channel (``handshake``), then acks, requests for repair, and the commit. Each is
checked against what was sent before it changes anything: a peer cannot acknowledge what never left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from streamlink.config import LinkConfig
from streamlink.errors import (
    AckTimeout,
    ChecksumError,
    CommunicationTimeout,
    FlowControlError,
    OpenTimeout,
)
from streamlink.extent import Extent
from streamlink.protocol.events import Accepted, Committed, PeerHeld
from streamlink.protocol.flow_control import NEW_LANE_CHUNKS, SendWindow
from streamlink.protocol.frames import (
    Abort,
    Accept,
    Ack,
    Attempt,
    Commit,
    Committing,
    Finish,
    Frame,
    Held,
    Range,
    Repair,
    Update,
)
from streamlink.protocol.handshake import SendHandshake
from streamlink.protocol.pacing import ANYWHERE
from streamlink.protocol.send_buffer import SendBuffer
from streamlink.protocol.states import SENDER_TRANSITIONS, State, Transitions
from streamlink.protocol.stats import (
    AckLatency,
    SendMeter,
)
from streamlink.protocol.stream import StreamMachine
from streamlink.protocol.validate import are_ranges

OPEN_TIMER, ACK_TIMER, SENDING_TIMER, LAG_TIMER = "open", "ack", "sending", "lag"

LAG_SECONDS = 3.0
"""The least time that a channel may owe the oldest chunk while others could carry it (seconds).
Longer than TCP needs for a few losses in a row, and short beside ``call_timeout``."""

_ACK_TIMES = 4  # it may also take so many times what an ack takes on this link


class AckReceiver(StreamMachine):
    """Base of ``SendStream``: from the receiver's first answer to its commit."""

    TRANSITIONS: ClassVar[Transitions] = SENDER_TRANSITIONS
    INITIAL_STATE: ClassVar[State] = State.OPENING

    def __init__(
        self,
        config: LinkConfig,
        *,
        stream_id: int,
        total_bytes: int,
        extent: Extent | None = None,
        spec_digest: bytes = b"",
        spec_pages: Sequence[bytes] = (),
        attempt: Attempt = Attempt(),
        update: Update = Update(),
        is_resumable: bool = False,
        encodings: tuple[str, ...] = (),
        bases: tuple[str, ...] = (),
        is_kept: bool = False,
        peer_name: str = "peer",
        name: str = "",
    ) -> None:
        super().__init__(config, stream_id=stream_id, peer_name=peer_name, name=name)
        self.state = State.OPENING
        self.total_bytes = total_bytes
        self.extent = extent or Extent(0, total_bytes)
        """The bytes of the model that this stream brings; all offsets lie inside."""
        self.attempt = attempt
        self.update = update
        self.received = self.consumed = self.durable = self.limit = self.extent.start
        self.encodings: tuple[str, ...] = ()
        """Those that the receiver decodes, too; known once it has accepted."""
        self.base = ""
        """The digest of the kept model that both ends have, once it has accepted; empty: none."""
        self._handshake = SendHandshake(
            stream_id=stream_id,
            attempt=attempt,
            update=update,
            total_bytes=total_bytes,
            extent=extent,
            chunk_bytes=config.stream.chunk_bytes,
            spec_digest=spec_digest,
            spec_pages=spec_pages,
            is_resumable=is_resumable,
            encodings=encodings,
            bases=bases,
            is_kept=is_kept,
        )
        self._was_attached = False
        self._buffer = SendBuffer(self.extent.start)
        self._finish: Finish | None = None
        self._finish_sent_on: int | None = None  # the channel that carried it
        self._committing = 0
        self._ack_latency = AckLatency()
        self._window_bytes = config.stream.window_bytes  # the most that it may be
        self._part = 0  # what a bandwidth limit permits at a time; 0: there is none
        self._allowed = ANYWHERE  # up to where it permits to write
        self._was_limited = False  # since something was written last
        self._was_charged = 0  # resent bytes without saved ones that the limit knows of
        self._asked_end = self.extent.start  # up to where its owner was given room
        self._busy_at = float("-inf")
        self._window = self._new_window(config.stream.chunk_bytes, 0.0)
        self._is_idle = True
        self._meter = SendMeter()
        self._stop = self.extent.stop  # read for each chunk
        self._started_at = self.extent.start  # the receiver had the bytes below from elsewhere

    # --- frames of the receiver --------------------------------------------------

    def _dispatch(self, frame: Frame, now: float) -> None:
        match frame:
            case Ack():
                self._on_ack(frame, now)
            case Accept():
                self._on_accept(frame, now)
            case Repair():
                self._on_repair(frame)
            case Held():
                self._on_held(frame, now)
            case Committing():
                self._on_committing(frame, now)
            case Commit():
                self._on_commit(frame)
            case Abort():  # pragma: no branch (the table lets nothing else through)
                self._on_abort(frame)

    def _on_accept(self, frame: Accept, now: float) -> None:
        is_first = self._handshake.check_accept(frame, self.position, peer_name=self.peer_name)
        self._check_ranges(frame.received, frame.ranges)
        if is_baseless := bool(self.base) and not frame.base:
            self._lose_base(now)
        is_only = not self._is_ready
        self._channel.handshake = None
        self._channel.acked = (frame.received, 0, 0, frame.limit)
        if frame.wants_spec:
            self._channel.outbox.extend(self._handshake.pages())
        if is_first:
            # Chunks in the buffer are encoded already, and any channel may carry them: no later
            # accept changes this, but for a base that is lost.
            self.encodings, self.base = frame.encodings, frame.base
        if not is_only:
            # The other channels continue. An ack on one of them may have overtaken this accept, so
            # what it acknowledges may be less than what is known.
            self._count_lanes()
            self._watch_lag(now)  # this one could carry what another owes since before
            self._watch_peer(now)
            return
        if self._channel.is_beside and not is_baseless:
            # The channel that it came beside is lost by now, and its acks may have overtaken this
            # accept: the receiver has no less than they said, and never takes credit back.
            received, limit = max(self.received, frame.received), max(self.limit, frame.limit)
            frame = replace(frame, received=received, limit=limit)
        self._timers.stop(OPEN_TIMER)
        asked_at = self._channel.asked_at
        round_trip = 0.0 if asked_at is None else now - asked_at
        self._window = self._new_window(frame.chunk_bytes, round_trip)
        self._resume(frame, now, is_first=is_first)
        # An owner that was busy needs only the latest of these events.
        stale = (Accepted, PeerHeld)
        self._events = deque(each for each in self._events if not isinstance(each, stale))
        self._events.append(Accepted(self.position))

    def _lose_base(self, now: float) -> None:
        """Send without the base from now on: the receiver cannot read it any more.

        It has closed its end of the other channels. What is kept here is encoded, and no use.
        """
        self.base = ""
        for channel in list(self._channels):
            if channel != self._channel.number:
                self.detach(now=now, channel=channel)
        # As after the accept of an only channel, which this one was not when it arrived.
        self.state = State.STREAMING
        self._buffer.clear()

    def _resume(self, frame: Accept, now: float, *, is_first: bool) -> None:
        """Continue at the acknowledged offset, and send again what lies behind it."""
        offset, is_progress = frame.received, frame.received > self.received
        self._buffer.rewind(offset, limit=frame.limit, chunk_bytes=frame.chunk_bytes)
        self._buffer.acknowledge(offset, frame.ranges)
        self.received, self.limit = offset, frame.limit
        self._asked_end = self._buffer.position
        self._peer_waits_for = ""
        if is_first:
            self.consumed = self.durable = self._started_at = offset
        else:
            # A receiver that was restarted has only what is durable: all may go back.
            self.consumed, self.durable = min(self.consumed, offset), min(self.durable, offset)
        self._channel.acked = (offset, self.consumed, self.durable, frame.limit)
        self._finish_sent_on = None  # it may be lost, and is repeated after the last chunk
        # A receiver that lost bytes is sent them again from the source, and finishes again.
        if not self.is_written:
            self._finish = None
        elif self._finish is not None:
            self.state = State.FINISHING
        if is_progress:
            self._start_sending_timer(now)
            self._timers.stop(ACK_TIMER)  # until a chunk leaves
        self._watch_peer(now)

    def _on_ack(self, frame: Ack, now: float) -> None:
        self._check_ack(frame)
        self._channel.acked = (frame.received, frame.consumed, frame.durable, frame.limit)
        is_received, is_consumed = frame.received > self.received, frame.consumed > self.consumed
        if is_consumed:
            self._peer_waits_for = ""
        # The greatest of what the channels say: one of them may be behind.
        self.received = max(self.received, frame.received)
        self.consumed = max(self.consumed, frame.consumed)
        self.durable = max(self.durable, frame.durable)
        self.limit = max(self.limit, frame.limit)
        if is_received or frame.ranges:
            # Ranges alone count, too: behind a gap *received* stands still while bytes arrive.
            self._has_progressed = True
            self._buffer.acknowledge(self.received, frame.ranges)
        if is_received:
            self._window.acked(self.received, now=now, saved=self._buffer.acked_saved)
            self._restart_ack_timer(now)
        if len(self._channels) > 1:
            self._count_lanes()
            self._watch_lag(now, is_progress=is_received)
        self._watch_peer(now, is_progress=is_received or is_consumed)

    def _count_lanes(self) -> None:
        arrived = [
            self._buffer.frames_of(each.number)[0] if each.is_beside else NEW_LANE_CHUNKS
            for each in self._channels.values()
            if each.is_ready and not each.is_retiring
        ]
        # A new lane counts beside one that is not: new ones that are alone take any chunk.
        is_beside = max(arrived, default=0) >= NEW_LANE_CHUNKS
        newest = min(arrived) if is_beside else NEW_LANE_CHUNKS
        self._window.count_lanes(len(arrived), newest)

    def _watch_lag(self, now: float, *, is_progress: bool = False) -> None:
        """Run a timer while the oldest chunk does not arrive and another channel could carry it."""
        if is_progress:
            self._timers.stop(LAG_TIMER)
        # Before the first ack nothing is known: on a slow link a chunk takes longer than any guess.
        usual = self._ack_latency.mean
        ready = sum(each.is_ready for each in self._channels.values())
        is_owed = ready > 1 and usual > 0 and self._buffer.is_in_flight
        seconds = max(LAG_SECONDS, _ACK_TIMES * usual)
        self._timers.run_while(is_owed, LAG_TIMER, seconds, now=now)

    def _close_lagging(self, now: float) -> None:
        """Close the channel that owes the oldest chunk; the others carry all that it owes."""
        self._timers.stop(LAG_TIMER)
        channel = self._buffer.front_channel()
        # The oldest chunk may wait to leave: then the channel that carried it is lost already.
        if channel is not None:
            self.detach(now=now, channel=channel)
        else:
            self._watch_lag(now)

    def _check_ack(self, frame: Ack) -> None:
        """Check an ack: on one channel every field only grows, and chunks are received whole."""
        received, consumed, durable, limit = self._channel.acked
        sent = self._buffer.sent
        if not received <= frame.received <= sent:
            raise self._violation(f"acknowledged {frame.received} bytes, but {sent} were sent")
        in_order = durable <= frame.durable <= frame.consumed <= frame.received
        if frame.consumed < consumed or not in_order:
            raise self._violation(
                f"sent an ack whose offsets are out of order: received {frame.received}, consumed "
                f"{frame.consumed}, durable {frame.durable}"
            )
        if frame.limit < max(limit, frame.received):
            raise FlowControlError(
                f"{self.peer_name} took back credit, from {limit} to {frame.limit}",
                stream_id=self.stream_id,
            )
        # Resuming inside a chunk would mean to cut it, and the receiver rejects other cuts.
        if frame.received > self.received and not self._buffer.is_boundary(frame.received):
            raise self._violation(f"acknowledged {frame.received} bytes, which is inside a chunk")
        self._check_ranges(frame.received, frame.ranges)

    def _check_ranges(self, received: int, ranges: tuple[Range, ...]) -> None:
        if ranges and not are_ranges(ranges, received, sent=self._buffer.sent):
            raise self._violation(
                f"acknowledged {len(ranges)} ranges behind byte {received} that are too many, out "
                "of order, or not sent"
            )

    def _on_repair(self, frame: Repair) -> None:
        chunk = self._buffer.repair(self._channel.number, frame.sequence)
        if chunk is None:
            # Of a chunk that left twice, one may arrive damaged after the other was received.
            if self._buffer.was_resent(self._channel.number, frame.sequence):
                return
            raise self._violation(
                f"requested a repair of chunk frame {frame.sequence}, which is not in flight"
            )
        if (count := self._buffer.repairs_of(chunk)) > self.config.stream.max_repairs:
            raise ChecksumError(
                f"the chunk at byte {chunk.offset} arrived damaged at {self.peer_name} "
                f"{count} times; check the network cards and proxies on the way",
                stream_id=self.stream_id,
            )
        self._repairs += 1
        # On the same channel: its order lets the receiver count frames, damaged ones included.
        self._channel.outbox.append(chunk)

    def _on_committing(self, frame: Committing, now: float) -> None:
        if frame.counter > self._committing:
            self._committing = frame.counter
            self._peer_waits_for = ""
            self._start_sending_timer(now)

    def _on_commit(self, frame: Commit) -> None:
        # The finish may be lost with its channel, so its absence here proves nothing.
        if self._buffer.sent < self._stop:
            raise self._violation("committed bytes that were not sent")
        if self._finish is not None and frame.digest != self._finish.digest:
            raise self._violation(
                f"committed a model with digest {frame.digest!r}, but {self._finish.digest!r} was "
                "sent"
            )
        self.received = self.consumed = self._stop
        self._buffer.acknowledge(self._stop)  # the ack of the last chunks need not have come
        self._timers.stop_all()
        self._outbox.clear()
        self._drop_payloads()
        self._events.append(Committed(frame.digest))

    # --- timers ------------------------------------------------------------------

    def _timer_expired(self, name: str, now: float) -> None:
        if name == LAG_TIMER:
            self._close_lagging(now)
            return
        facts = self._idle_facts(name, now, self.received)
        if name == OPEN_TIMER:
            self._time_out(OpenTimeout(**facts, setting="open_timeout"))
        elif name == ACK_TIMER:
            self._time_out(AckTimeout(**facts, setting="streaming_ack_wait"))
        else:
            self._time_out(CommunicationTimeout(**facts, stage="sending"))

    def _on_peer_hold(self, now: float) -> None:
        self._channel.asked_at = None
        if self._timers.is_running(OPEN_TIMER):
            self._timers.start(OPEN_TIMER, self.config.timeouts.open_timeout, now=now)
        if self._timers.is_running(SENDING_TIMER):
            self._start_sending_timer(now)
        self._restart_ack_timer(now)

    def _restart_ack_timer(self, now: float) -> None:
        # Chunks that are only queued do not count: the peer cannot acknowledge what has not left.
        if self._buffer.is_in_flight:
            self._timers.start(ACK_TIMER, self.config.timeouts.streaming_ack_wait, now=now)
        else:
            self._timers.stop(ACK_TIMER)

    def _watch_peer(self, now: float, *, is_progress: bool = False) -> None:
        # While the peer owes us nothing, it is our own source that is slow. It owes something even
        # when nothing is in flight, if it gives no credit.
        position = self._buffer.position
        is_owed = (
            self.state is State.OPENING
            or self._finish is not None
            or position > self.consumed
            or self.limit <= position < self._stop
        )
        seconds = self.config.timeouts.communication_timeout
        self._watch_turn(SENDING_TIMER, seconds, is_owed=is_owed, is_progress=is_progress, now=now)

    def _start_sending_timer(self, now: float) -> None:
        self._timers.start(SENDING_TIMER, self.config.timeouts.communication_timeout, now=now)

    # --- small parts -------------------------------------------------------------

    @property
    def position(self) -> int:
        """The offset at which ``write`` continues (bytes)."""
        return self._buffer.position

    @property
    def is_written(self) -> bool:
        """Whether every byte of the extent was written."""
        return self._buffer.position == self._stop

    def _new_window(self, chunk_bytes: int, round_trip: float) -> SendWindow:
        # Each call begins with a new one: it may take another path through the network.
        window = SendWindow(
            self.config.stream,
            chunk_bytes=chunk_bytes,
            ack_wait=self.config.timeouts.streaming_ack_wait,
            round_trip=round_trip,
            ack_latency=self._ack_latency,
        )
        window.cap(self._window_bytes)
        if self._part:
            window.pace(self._part)
        return window

    def _drop_payloads(self) -> None:
        self._buffer.clear()
        self._handshake.drop_pages()
