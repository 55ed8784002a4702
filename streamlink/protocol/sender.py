"""``SendStream``: the sending half of a transfer.

    OPENING ── accept ──▶ STREAMING ── finish() ──▶ FINISHING ── commit ──▶ DONE
       ▲                      │                         │
       └── attach() on a new channel, after the last one was lost

It keeps every chunk (``send_buffer``) until it is *received*; a repair or a resume sends it again
from there. Chunks leave on whichever channel has room. One that ``is_resumable`` begins where the
receiver says, which may have the rest from a process before this one. Two clocks run:
``streaming_ack_wait`` while a sent chunk is not received, and ``communication_timeout`` (stage
sending) while the peer still owes us anything at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
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
from streamlink.protocol.channel import Channel
from streamlink.protocol.events import Accepted, Committed, PeerHeld
from streamlink.protocol.frames import (
    NO_METRICS,
    PLAIN,
    Abort,
    Accept,
    Ack,
    Attempt,
    Chunk,
    Commit,
    Committing,
    Finish,
    Frame,
    Held,
    Payload,
    Range,
    Repair,
    Update,
)
from streamlink.protocol.latency import AckClock
from streamlink.protocol.limits import FRAMES_PER_CHUNK
from streamlink.protocol.machine import Moves
from streamlink.protocol.meter import SendMeter
from streamlink.protocol.offer import Offer
from streamlink.protocol.send_buffer import SendBuffer
from streamlink.protocol.stalls import CREDIT, HELD, NETWORK, READER
from streamlink.protocol.stats import StreamStats
from streamlink.protocol.stream import StreamMachine
from streamlink.protocol.stream_state import SENDER_MOVES, State
from streamlink.protocol.validate import are_ranges
from streamlink.protocol.window import Pace

_OPEN, _ACK, _SENDING = "open", "ack", "sending"


class SendStream(StreamMachine):
    """Sends one extent of a model. The verbs both halves share: ``machine`` and ``stream``."""

    MOVES: ClassVar[Moves] = SENDER_MOVES
    UNGREETED: ClassVar[State] = State.OPENING

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
        peer: str = "peer",
        name: str = "",
    ) -> None:
        super().__init__(config, stream_id=stream_id, peer=peer, name=name)
        self.state = State.OPENING
        self.total_bytes = total_bytes
        self.extent = extent or Extent(0, total_bytes)
        """The bytes of the model that this stream brings; all marks lie inside."""
        self.attempt = attempt
        self.update = update
        self.received = self.taken = self.durable = self.limit = self.extent.start
        self.encodings: tuple[str, ...] = ()
        """Those that the receiver decodes, too; known once it has accepted."""
        self._offer = Offer(
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
        )
        self._was_attached = False
        self._buffer = SendBuffer(self.extent.start)
        self._finish: Finish | None = None
        self._finish_sent_on: int | None = None  # the channel that carried it
        self._committing = 0
        self._ack_clock = AckClock()
        self._pace = self._new_pace(config.stream.chunk_bytes)
        self._is_idle = True
        self._meter = SendMeter()
        self._stop = self.extent.stop  # looked at for each chunk
        self._first_mark = self.extent.start  # the receiver had those below from elsewhere

    # --- the owner writes ------------------------------------------------------

    @property
    def position(self) -> int:
        """The byte ``write`` goes on at."""
        return self._buffer.position

    @property
    def is_written(self) -> bool:
        """Whether every byte of the extent was written."""
        return self._buffer.position == self._stop

    @property
    def chunk_bytes(self) -> int:
        """The chunk size the link is worth now (bytes)."""
        return self._pace.chunk_bytes

    @property
    def writable_bytes(self) -> int:
        """How many bytes ``write`` takes now, from ``position`` on. 0: wait."""
        if self.state is not State.STREAMING:
            return 0
        at = self._buffer.position
        return self._pace.room(at, received=self.received, limit=self.limit, stop=self._stop)

    @property
    def writable_limit(self) -> int:
        """The most ``write`` takes now. Unlike ``writable_bytes`` it never shrinks within a call.

        What the pace advised when a piece was asked for may be outdated when the piece is there.
        """
        if self.state is not State.STREAMING:
            return 0
        position = self._buffer.position
        return min(self._pace.largest, self.limit - position, self._stop - position)

    def write(
        self, payload: Payload, *, now: float, encoding: int = PLAIN, nbytes: int = -1
    ) -> None:
        """Queue the next chunk. The views must not change until they are received.

        Args:
            payload: its bytes, as they travel.
            now: monotonic seconds.
            encoding: which of ``encodings`` they are in, counted from 1; 0: plain.
            nbytes: what they decode to; -1: they are plain.
        """
        chunk = Chunk(0, self._buffer.position, payload, encoding, nbytes)
        if not 0 < chunk.nbytes <= self.writable_limit:
            raise self._misuse(f"write of {chunk.nbytes} bytes")
        self._buffer.append(chunk)
        if self.waits_for:
            self._go_on_ourselves()
        self._watch_peer(now)

    def finish(self, digest: str, metrics: Mapping[str, float] = NO_METRICS, *, now: float) -> None:
        """Say that every byte was written; success is the peer's commit, later."""
        may_finish = self.state in (State.STREAMING, State.OPENING) and self.is_written
        self._require(may_finish, f"finish at byte {self.position} of {self.extent}")
        self._finish = Finish(self._stop, digest, metrics)
        if self.state is State.STREAMING:  # else: the call was lost just before; the next says it
            self.state = State.FINISHING
            self._start_sending_clock(now)
            self._account(now)

    def note_idle(self, *, now: float) -> None:
        """Note that the carrier has sent all it was given."""
        self._is_idle = True
        self._account(now)

    def frames_to_send(self, *, now: float, channel: int = 0) -> list[Frame]:
        """Return what has to go out now: control first, then chunks, then the finish."""
        frames = super().frames_to_send(now=now, channel=channel)
        if self.state in _STREAMS and (on := self._channels.get(channel)) and on.is_ready:
            frames.extend(self._chunks_to_send(on, now))
            if self._is_finish_due(on):
                self._finish_sent_on = channel
                frames.append(self._finish)  # type: ignore[arg-type]
        self._is_idle = not frames
        self._account(now)
        return frames

    def has_frames(self, channel: int = 0) -> bool:
        """Whether ``frames_to_send`` would return something for ``channel``."""
        if super().has_frames(channel):
            return True
        if self.state not in _STREAMS or (on := self._channels.get(channel)) is None:
            return False
        return on.is_ready and (bool(self._buffer.unsent) or self._is_finish_due(on))

    def _is_finish_due(self, channel: Channel) -> bool:
        if self._finish is None or self._finish_sent_on is not None or self._buffer.unsent:
            return False
        return self._controls(channel)

    @property
    def stats(self) -> StreamStats:
        """A snapshot for logs and progress bars."""
        return StreamStats(
            total_bytes=self.total_bytes,
            sent_bytes=self.position,
            received_bytes=self.received,
            taken_bytes=self.taken,
            resent_bytes=self._buffer.resent_bytes,
            window_bytes=self._pace.window_bytes,
            chunk_bytes=self._pace.chunk_bytes,
            rate=self._pace.rate,
            in_flight_bytes=0 if self.is_closed else self._buffer.in_flight_end - self.received,
            ack_times=self._ack_clock.so_far(),
            moving_seconds=self._meter.seconds,
            moving_bytes=self.received - self._first_mark,
            extent=Extent(self._first_mark, self._stop),
            **self._shared_stats(),
        )

    # --- the carrier comes and goes --------------------------------------------

    def offer(self, *, now: float) -> None:
        """Note that the peer was told to open this stream: it has ``open_timeout`` for it."""
        if not self._was_attached and not self.is_closed:
            self._timers.start(_OPEN, self.config.timeouts.open_timeout, now=now)

    def withhold(self) -> None:
        """Note that the peer cannot open this stream now: ``offer`` follows when it can."""
        if not self._was_attached:
            self._timers.stop(_OPEN)

    def _attach(self, channel: Channel, now: float) -> None:
        if self.state is State.DONE:
            return  # the peer has said all there is to say
        is_only = len(self._channels) == 1
        self.resumes += self._was_attached and is_only
        channel.outbox.append(self._offer.open(is_resumed=self._was_attached))
        self._was_attached = True
        if is_only:
            self.state = State.OPENING
            self._timers.start(_OPEN, self.config.timeouts.open_timeout, now=now)
        self._watch_peer(now)

    def _detach(self, channel: Channel, now: float) -> None:
        self._buffer.lose_channel(channel.number)
        if self._finish_sent_on == channel.number:
            self._finish_sent_on = None
        if not self._is_ready:
            self._pace.forget()
            self._timers.stop(_OPEN)
            if not self._was_silent:
                self._timers.stop(_ACK)
            self.state = State.OPENING
            if self._channels:  # one more has been opened already
                self._timers.start(_OPEN, self.config.timeouts.open_timeout, now=now)
        self._watch_peer(now)

    # --- the peer answers --------------------------------------------------------

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
        is_only = not self._is_ready
        is_first = self._offer.take(frame, self.position, peer=self.peer)
        self._check_ranges(frame.received, frame.ranges)
        self._channel.greeting = None
        self._channel.marks = (frame.received, 0, 0, frame.limit)
        if frame.wants_spec:
            self._channel.outbox.extend(self._offer.pages())
        if is_first:
            self.encodings = frame.encodings
        if not is_only:  # the others carry on; it may have been overtaken by an ack on one of them
            self._watch_peer(now)
            return
        self._timers.stop(_OPEN)
        self._pace = self._new_pace(frame.chunk_bytes)
        self._resume(frame, now, is_first=is_first)
        # An owner that does not listen just now needs the latest word only.
        stale = (Accepted, PeerHeld)
        self._events = deque(each for each in self._events if not isinstance(each, stale))
        self._events.append(Accepted(self.position))

    def _resume(self, frame: Accept, now: float, *, is_first: bool) -> None:
        """Take the receiver's mark for ours, and send what lies behind it again."""
        mark, has_moved = frame.received, frame.received > self.received
        self._buffer.rewind(mark, limit=frame.limit, chunk_bytes=frame.chunk_bytes)
        self._buffer.forget(mark, frame.ranges)
        self.received, self.limit = mark, frame.limit
        self._peer_waits_for = ""
        if is_first:
            self.taken = self.durable = self._first_mark = mark
        else:
            self.taken, self.durable = min(self.taken, mark), min(self.durable, mark)
        self._channel.marks = (mark, self.taken, self.durable, frame.limit)
        self._finish_sent_on = None
        if not self.is_written:
            self._finish = None
        elif self._finish is not None:
            self.state = State.FINISHING
        if has_moved:
            self._start_sending_clock(now)
            self._timers.stop(_ACK)  # until a chunk leaves
        self._watch_peer(now)

    def _on_ack(self, frame: Ack, now: float) -> None:
        self._check_marks(frame)
        self._channel.marks = (frame.received, frame.taken, frame.durable, frame.limit)
        is_received, is_taken = frame.received > self.received, frame.taken > self.taken
        if is_taken:
            self._peer_waits_for = ""
        # The greatest of what the channels say: one of them may be behind.
        self.received = max(self.received, frame.received)
        self.taken = max(self.taken, frame.taken)
        self.durable = max(self.durable, frame.durable)
        self.limit = max(self.limit, frame.limit)
        if is_received or frame.ranges:
            self._has_moved = True
            self._buffer.forget(self.received, frame.ranges)
        if is_received:
            self._pace.heard(self.received, now=now)
            self._restart_ack_clock(now)
        self._watch_peer(now, is_progress=is_received or is_taken)

    def _check_marks(self, frame: Ack) -> None:
        """Check an ack; on one channel marks only grow."""
        received, taken, durable, limit = self._channel.marks
        sent = self._buffer.sent
        if not received <= frame.received <= sent:
            raise self._violation(f"acknowledged {frame.received} bytes, but {sent} were sent")
        in_order = durable <= frame.durable <= frame.taken <= frame.received
        if frame.taken < taken or not in_order:
            raise self._violation(
                f"sent marks out of order: received {frame.received}, taken {frame.taken}, "
                f"durable {frame.durable}"
            )
        if frame.limit < max(limit, frame.received):
            why = f"{self.peer} took back credit, from {limit} to {frame.limit}"
            raise FlowControlError(why, stream_id=self.stream_id)
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
            raise self._violation(f"asked to repair chunk {frame.sequence}, not on its way")
        if (count := self._buffer.repairs_of(chunk)) > self.config.stream.max_repairs:
            raise ChecksumError(
                f"the chunk at byte {chunk.offset} arrived damaged at {self.peer} "
                f"{count} times; look at the network cards or proxies on the way",
                stream_id=self.stream_id,
            )
        self._repairs += 1
        self._channel.outbox.append(chunk)

    def _on_committing(self, frame: Committing, now: float) -> None:
        if frame.counter > self._committing:
            self._committing = frame.counter
            self._peer_waits_for = ""
            self._start_sending_clock(now)

    def _on_commit(self, frame: Commit) -> None:
        if self._buffer.sent < self._stop:
            raise self._violation("committed bytes that were not sent")
        if self._finish is not None and frame.digest != self._finish.digest:
            raise self._violation(f"committed a model of digest {frame.digest!r}, not this one")
        self.received = self.taken = self._stop
        self._timers.stop_all()
        self._outbox.clear()
        self._drop_payloads()
        self._events.append(Committed(frame.digest))

    # --- clocks ------------------------------------------------------------------

    def _expire(self, name: str, now: float) -> None:
        facts = self._idle_facts(name, now, self.received)
        if name == _OPEN:
            self._time_out(OpenTimeout(**facts, setting="open_timeout"))
        elif name == _ACK:
            self._time_out(AckTimeout(**facts, setting="streaming_ack_wait"))
        else:
            self._time_out(CommunicationTimeout(**facts, stage="sending"))

    def _peer_holds(self, now: float) -> None:
        if self._timers.is_running(_OPEN):
            self._timers.start(_OPEN, self.config.timeouts.open_timeout, now=now)
        if self._timers.is_running(_SENDING):
            self._start_sending_clock(now)
        self._restart_ack_clock(now)

    def _restart_ack_clock(self, now: float) -> None:
        # Chunks that were only queued do not count: the peer cannot acknowledge what has not left.
        if self._buffer.is_in_flight:
            self._timers.start(_ACK, self.config.timeouts.streaming_ack_wait, now=now)
        else:
            self._timers.stop(_ACK)

    def _watch_peer(self, now: float, *, is_progress: bool = False) -> None:
        # While the peer owes us nothing, it is our own source that is slow. It owes us even when
        # nothing is on its way, if it gives no credit.
        at = self._buffer.position
        is_waiting = self.state is State.OPENING or self._finish is not None
        is_owed = is_waiting or at > self.taken or self.limit <= at < self._stop
        seconds = self.config.timeouts.communication_timeout
        self._watch_turn(_SENDING, seconds, is_owed=is_owed, is_progress=is_progress, now=now)

    def _start_sending_clock(self, now: float) -> None:
        self._timers.start(_SENDING, self.config.timeouts.communication_timeout, now=now)

    # --- what limits it ----------------------------------------------------------

    def _account(self, now: float) -> None:
        super()._account(now)
        self._meter.note(bool(self._channels) and self._buffer.is_in_flight, now=now)

    def _cause(self) -> str:
        if self.state is State.OPENING or not self._channels:
            return HELD if self._peer_waits_for else NETWORK
        if not self._is_idle or self._buffer.unsent:
            return NETWORK  # the carrier is at it
        if self.writable_bytes:
            return self._ours()
        position = self._buffer.position
        on_its_way, untaken = position - self.received, self.received - self.taken
        if on_its_way > 0 and on_its_way >= untaken:
            return NETWORK  # whatever fills the window most
        if self.state is State.STREAMING and position == self._stop:
            return self._ours()  # its finish is not said
        return HELD if self._peer_waits_for else CREDIT

    def _ours(self) -> str:
        return HELD if self.waits_for else READER

    def _peer_is_to_blame(self) -> str:
        return NETWORK if self.state is State.OPENING else CREDIT

    # --- small parts -------------------------------------------------------------

    def _chunks_to_send(self, channel: Channel, now: float) -> list[Chunk]:
        # One at a time where there are several channels: the next goes to whichever has room.
        most = _ALL if len(self._channels) == 1 else 1
        chunks = self._buffer.take_unsent(channel.number, most)
        self._chunks += len(chunks)
        self._allowance.earn(FRAMES_PER_CHUNK * len(chunks))
        for chunk in chunks:
            self._pace.sent(chunk.end, received=self.received, now=now)
        wait = self.config.timeouts.streaming_ack_wait
        self._timers.run_while(self._buffer.is_in_flight, _ACK, wait, now=now)
        return chunks

    def _new_pace(self, chunk_bytes: int) -> Pace:
        settings, wait = self.config.stream, self.config.timeouts.streaming_ack_wait
        return Pace(settings, chunk_bytes=chunk_bytes, ack_wait=wait, ack_clock=self._ack_clock)

    def _drop_payloads(self) -> None:
        self._buffer.clear()
        self._offer.drop_pages()


_STREAMS = (State.STREAMING, State.FINISHING)
_ALL = 1 << 62
