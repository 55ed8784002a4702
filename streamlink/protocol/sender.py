"""``SendStream``: the sending half of a transfer.

    OPENING ── accept ──▶ STREAMING ── finish() ──▶ FINISHING ── commit ──▶ DONE
       ▲                      │                         │
       └── attach() on a new call, after the old one was lost

It keeps every chunk, as views of the source, until the receiver says *received*; a repair or a resume
sends it again from there. Two clocks run: ``streaming_ack_wait`` while a sent chunk is not received,
``communication_timeout`` (stage sending) while anything at all is still owed to us by the peer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from streamlink.config import LinkConfig
from streamlink.errors import (
    AckTimeout,
    ChecksumError,
    CommunicationTimeout,
    FlowControlError,
    LocalProtocolError,
    OpenTimeout,
)
from streamlink.protocol.events import Accepted, Committed
from streamlink.protocol.frames import (
    NO_METRICS,
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
    Open,
    Payload,
    Repair,
    SpecPage,
)
from streamlink.protocol.machine import State, StreamMachine, StreamStats
from streamlink.protocol.window import Pace

_OPEN, _ACK, _SENDING = "open", "ack", "sending"


class SendStream(StreamMachine):
    """Sends one model. See ``machine`` for the verbs both halves share."""

    MOVES = {
        (State.OPENING, Accept): State.STREAMING,
        (State.OPENING, Held): State.OPENING,
        (State.OPENING, Abort): State.OPENING,
        (State.STREAMING, Ack): State.STREAMING,
        (State.STREAMING, Held): State.STREAMING,
        (State.STREAMING, Repair): State.STREAMING,
        (State.STREAMING, Abort): State.STREAMING,
        (State.FINISHING, Ack): State.FINISHING,
        (State.FINISHING, Held): State.FINISHING,
        (State.FINISHING, Repair): State.FINISHING,
        (State.FINISHING, Committing): State.FINISHING,
        (State.FINISHING, Commit): State.DONE,
        (State.FINISHING, Abort): State.FINISHING,
    }

    def __init__(
        self,
        config: LinkConfig,
        *,
        stream_id: int,
        total_bytes: int,
        spec_digest: bytes = b"",
        spec_pages: Sequence[bytes] = (),
        attempt: Attempt = Attempt(),
        weight: float = 1.0,
        peer: str = "peer",
        name: str = "",
    ) -> None:
        super().__init__(config, stream_id=stream_id, peer=peer, name=name)
        self.state = State.OPENING
        self.total_bytes = total_bytes
        self.attempt = attempt
        self.weight = weight
        self.position = 0
        self.received = self.taken = self.durable = self.limit = 0
        self._spec_digest = spec_digest
        self._spec_pages = tuple(spec_pages)
        self._was_attached = False
        self._sequence = 0
        self._unreceived: deque[Chunk] = deque()
        self._unsent: deque[Chunk] = deque()
        self._sent_as: dict[int, Chunk] = {}  # chunk frames of this call, until received
        self._repairs: dict[int, int] = {}
        self._finish: Finish | None = None
        self._is_finish_sent = False
        self._committing = 0
        self._pace = self._new_pace(config.stream.chunk_bytes)
        self._chunks = self._repair_count = self._resent_bytes = 0

    # --- the carrier comes and goes --------------------------------------------

    def attach(self, *, now: float) -> None:
        """Begin, or go on, over a new call."""
        self._require(self.state not in (State.DONE, State.ABORTED), "attach")
        self.resumes += self._was_attached
        self.is_attached = self._was_attached = True
        self._sequence = 0
        self.state = State.OPENING
        self._outbox.clear()
        self._outbox.append(self._open_frame())
        self._timers.stop(_ACK)
        self._timers.start(_OPEN, self.config.timeouts.open_timeout, now=now)
        if not self._timers.is_running(_SENDING):
            self._start_sending_clock(now)

    def detach(self, *, now: float) -> None:
        """The call is lost. Nothing is: ``attach`` goes on from what the receiver has."""
        self.is_attached = False
        self._outbox.clear()
        self._unsent.clear()
        self._sent_as.clear()
        self._repairs.clear()
        self._pace.forget()
        self._timers.stop(_OPEN)
        self._timers.stop(_ACK)
        if self.state in (State.STREAMING, State.FINISHING):
            self.state = State.OPENING

    # --- the owner writes ------------------------------------------------------

    @property
    def chunk_bytes(self) -> int:
        """The chunk size the link is worth now (bytes)."""
        return self._pace.chunk_bytes

    @property
    def writable_bytes(self) -> int:
        """How many bytes ``write`` takes now, from ``position`` on. 0: wait."""
        if self.state is not State.STREAMING:
            return 0
        wanted = min(self._pace.chunk_bytes, self.total_bytes - self.position)
        room = min(self.limit, self.received + self._pace.window_bytes) - self.position
        if room >= wanted:
            return wanted
        # A sliver is only worth a chunk when nothing else could bring more room.
        return max(room, 0) if self.position == self.received else 0

    def write(self, payload: Payload, *, now: float) -> None:
        """Queue the next chunk. The views must not change until they are received."""
        chunk = Chunk(0, self.position, payload)  # numbered when it leaves
        self._require(0 < chunk.nbytes <= self.writable_bytes, f"write of {chunk.nbytes} bytes")
        self.position = chunk.end
        self._unreceived.append(chunk)
        self._unsent.append(chunk)
        if not self._timers.is_running(_SENDING):
            self._start_sending_clock(now)

    def finish(self, digest: str, metrics: Mapping[str, float] = NO_METRICS, *, now: float) -> None:
        """Say that every byte was written; success is the peer's commit, later."""
        self._require(self.state is State.STREAMING, "finish")
        if self.position != self.total_bytes:
            raise LocalProtocolError(
                f"finish after {self.position} of {self.total_bytes} bytes",
                stream_id=self.stream_id,
            )
        self._finish = Finish(self.total_bytes, digest, metrics)
        self.state = State.FINISHING
        self._start_sending_clock(now)

    def frames_to_send(self, *, now: float) -> list[Frame]:
        """Return what has to go out now: control first, then chunks, then the finish."""
        frames = super().frames_to_send(now=now)
        if self.state in (State.STREAMING, State.FINISHING):
            frames.extend(self._chunks_to_send(now))
            if self._finish is not None and not self._is_finish_sent:
                self._is_finish_sent = True
                frames.append(self._finish)
        return frames

    @property
    def has_frames(self) -> bool:
        """Whether ``frames_to_send`` would return something."""
        if self._outbox:
            return True
        if self.state not in (State.STREAMING, State.FINISHING):
            return False
        return bool(self._unsent) or (self._finish is not None and not self._is_finish_sent)

    @property
    def stats(self) -> StreamStats:
        """A snapshot for logs and progress bars."""
        return StreamStats(
            total_bytes=self.total_bytes,
            sent_bytes=self.position,
            received_bytes=self.received,
            taken_bytes=self.taken,
            chunks=self._chunks,
            repairs=self._repair_count,
            resent_bytes=self._resent_bytes,
            resumes=self.resumes,
            window_bytes=self._pace.window_bytes,
            chunk_bytes=self._pace.chunk_bytes,
            rate=self._pace.rate,
        )

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
            case Abort():
                self._on_abort(frame)

    def _on_accept(self, frame: Accept, now: float) -> None:
        if not 0 <= frame.received <= self.position or frame.limit < frame.received:
            raise self._violation(
                f"accepted at byte {frame.received} with credit to {frame.limit}, "
                f"but {self.position} bytes were sent"
            )
        if not 1 <= frame.chunk_bytes <= self.config.stream.chunk_bytes:
            raise self._violation(f"accepted with a chunk size of {frame.chunk_bytes} bytes")
        self._timers.stop(_OPEN)
        self._pace = self._new_pace(frame.chunk_bytes)
        if frame.wants_spec:
            self._outbox.extend(SpecPage(n, page) for n, page in enumerate(self._spec_pages))
        self._rewind(frame.received)
        self.limit = frame.limit
        self._is_finish_sent = False
        if self._finish is not None and self.position == self.total_bytes:
            self.state = State.FINISHING
        self._restart_clocks(now)
        self._events.append(Accepted(self.position))

    def _rewind(self, mark: int) -> None:
        """Go on at the receiver's mark: from kept chunks, or, further back, from the source."""
        kept_from = self._unreceived[0].offset if self._unreceived else self.position
        while self._unreceived and self._unreceived[0].end <= mark:
            self._unreceived.popleft()
        if mark < kept_from or (self._unreceived and self._unreceived[0].offset != mark):
            self._resent_bytes += self.position - mark
            self._unreceived.clear()
            self.position = mark
            self._finish = None
        self._resent_bytes += sum(chunk.nbytes for chunk in self._unreceived)
        self._unsent = deque(self._unreceived)
        self.received = mark
        self.taken = min(self.taken, mark)
        self.durable = min(self.durable, mark)

    def _on_ack(self, frame: Ack, now: float) -> None:
        self._check_marks(frame)
        has_moved = frame.received > self.received or frame.taken > self.taken
        if frame.received > self.received:
            self._pace.heard(frame.received, now=now)
            self._forget_received(frame.received)
            self._restart_ack_clock(now)
        self.received, self.taken = frame.received, frame.taken
        self.durable, self.limit = frame.durable, frame.limit
        if has_moved:
            self._restart_sending_clock(now)

    def _forget_received(self, received: int) -> None:
        while self._unreceived and self._unreceived[0].end <= received:
            self._repairs.pop(self._unreceived.popleft().offset, None)
        # Numbered in sending order; only repairs stand out of offset order, so few are looked at.
        for sequence in [n for n, chunk in self._sent_as.items() if chunk.end <= received]:
            del self._sent_as[sequence]

    def _check_marks(self, frame: Ack) -> None:
        sent = self._sent_up_to()
        if not self.received <= frame.received <= sent:
            raise self._violation(f"acknowledged {frame.received} bytes, but {sent} were sent")
        if not self.taken <= frame.taken <= frame.received or frame.durable > frame.taken:
            raise self._violation(
                f"sent marks out of order: received {frame.received}, taken {frame.taken}, "
                f"durable {frame.durable}"
            )
        if frame.limit < self.limit:
            raise FlowControlError(
                f"{self.peer} took back credit, from {self.limit} to {frame.limit}",
                stream_id=self.stream_id,
            )
        if self._unreceived and frame.received not in self._boundaries(frame.received):
            raise self._violation(f"acknowledged {frame.received} bytes, which is inside a chunk")

    def _boundaries(self, received: int) -> tuple[int, ...]:
        # In order, and nearly always the first one: the search ends where the mark lies.
        for chunk in self._unreceived:
            if chunk.end >= received:
                return (chunk.offset, chunk.end)
        return ()

    def _sent_up_to(self) -> int:
        return self._unsent[0].offset if self._unsent else self.position

    def _on_repair(self, frame: Repair) -> None:
        chunk = self._sent_as.pop(frame.sequence, None)
        if chunk is None:
            raise self._violation(f"asked to repair chunk {frame.sequence}, not on its way")
        self._repairs[chunk.offset] = times = self._repairs.get(chunk.offset, 0) + 1
        if times > self.config.stream.max_repairs:
            raise ChecksumError(
                f"the chunk at byte {chunk.offset} arrived damaged at {self.peer} {times} times; "
                "look at the network cards or proxies on the way",
                stream_id=self.stream_id,
            )
        self._repair_count += 1
        self._resent_bytes += chunk.nbytes
        self._outbox.append(self._numbered(chunk))

    def _on_committing(self, frame: Committing, now: float) -> None:
        if frame.counter > self._committing:
            self._committing = frame.counter
            self._restart_sending_clock(now)

    def _on_commit(self, frame: Commit) -> None:
        self.received = self.taken = self.total_bytes
        self._timers.stop_all()
        self._drop_payloads()
        self._events.append(Committed(frame.digest))

    # --- clocks ------------------------------------------------------------------

    def _expire(self, name: str, now: float) -> None:
        idle = self._timers.idle_seconds(name, now=now)
        if name == _OPEN:
            self._time_out(
                OpenTimeout(
                    who=self.peer,
                    stream=self.name,
                    seconds=idle,
                    bytes_done=self.received,
                    setting="open_timeout",
                )
            )
        elif name == _ACK:
            self._time_out(
                AckTimeout(
                    who=self.peer,
                    stream=self.name,
                    seconds=idle,
                    bytes_done=self.received,
                    setting="streaming_ack_wait",
                )
            )
        else:
            self._time_out(
                CommunicationTimeout(
                    stage="sending",
                    who=self.peer,
                    stream=self.name,
                    seconds=idle,
                    bytes_done=self.received,
                )
            )

    def _restart_clocks(self, now: float) -> None:
        self._restart_ack_clock(now)
        self._restart_sending_clock(now)

    def _restart_ack_clock(self, now: float) -> None:
        # Chunks that were only queued do not count: the peer cannot acknowledge what has not left.
        if self._sent_up_to() > (self._unreceived[0].offset if self._unreceived else self.position):
            self._timers.start(_ACK, self.config.timeouts.streaming_ack_wait, now=now)
        else:
            self._timers.stop(_ACK)

    def _restart_sending_clock(self, now: float) -> None:
        # While the peer owes us nothing, it is our own source that is slow.
        if self.position > self.taken or self._finish is not None or self._must_wait_for_open():
            self._start_sending_clock(now)
        else:
            self._timers.stop(_SENDING)

    def _start_sending_clock(self, now: float) -> None:
        self._timers.start(_SENDING, self.config.timeouts.communication_timeout, now=now)

    def _must_wait_for_open(self) -> bool:
        return self.state is State.OPENING

    # --- small parts -------------------------------------------------------------

    def _numbered(self, chunk: Chunk) -> Chunk:
        repeats = self._repairs.get(chunk.offset, 0)
        chunk = replace(chunk, sequence=self._sequence, repeats=repeats)
        self._sent_as[self._sequence] = chunk
        self._sequence += 1
        return chunk

    def _chunks_to_send(self, now: float) -> list[Chunk]:
        chunks = [self._numbered(chunk) for chunk in self._unsent]
        self._unsent.clear()
        self._chunks += len(chunks)
        for chunk in chunks:
            self._pace.sent(chunk.end, received=self.received, now=now)
        if chunks and not self._timers.is_running(_ACK):
            self._timers.start(_ACK, self.config.timeouts.streaming_ack_wait, now=now)
        return chunks

    def _open_frame(self) -> Open:
        return Open(
            stream_id=self.stream_id,
            attempt=self.attempt,
            total_bytes=self.total_bytes,
            spec_digest=self._spec_digest,
            spec_pages=len(self._spec_pages),
            chunk_bytes=self.config.stream.chunk_bytes,
            weight=self.weight,
            is_resumed=self.resumes > 0,
        )

    def _new_pace(self, chunk_bytes: int) -> Pace:
        wait = self.config.timeouts.streaming_ack_wait
        return Pace(self.config.stream, chunk_bytes=chunk_bytes, ack_wait=wait)

    def _drop_payloads(self) -> None:
        self._unreceived.clear()
        self._unsent.clear()
        self._sent_as.clear()
