"""``ReceiveStream``: the receiving half of a transfer.

    WAITING ── open ──▶ OPENING ── accept() ──▶ STREAMING ── finish ──▶ FINISHING
                                                                        │ every byte delivered
                               DONE ◀── commit() ── COMMITTING ◀────────┘

Chunks are delivered in order. A chunk whose hash is wrong is asked for again; what arrives behind it
waits here, within the window the sender was granted. Credit returns with ``release``, when the sink
has the bytes, not when they arrive. Two clocks run: ``streaming_read_timeout`` while bytes are ready
and nobody takes them, ``communication_timeout`` (stage receiving) while the sender has credit and
sends nothing.
"""

from __future__ import annotations

from streamlink.config import LinkConfig
from streamlink.errors import (
    ChecksumError,
    CommunicationTimeout,
    FlowControlError,
    FrameTooLarge,
    OpenTimeout,
    ReadTimeout,
)
from streamlink.protocol.events import Delivered, Finished, Opened, SpecReceived
from streamlink.protocol.frames import (
    Abort,
    Accept,
    Ack,
    Chunk,
    Commit,
    Committing,
    Finish,
    Frame,
    Held,
    Open,
    Repair,
    SpecPage,
)
from streamlink.protocol.machine import State, StreamMachine, StreamStats
from streamlink.protocol.window import Credit

_OPEN, _READ, _RECEIVING = "open", "read", "receiving"


class ReceiveStream(StreamMachine):
    """Receives one model. See ``machine`` for the verbs both halves share."""

    MOVES = {
        (State.WAITING, Open): State.OPENING,
        (State.WAITING, Abort): State.WAITING,
        (State.OPENING, Abort): State.OPENING,
        (State.OPENING, Held): State.OPENING,
        (State.STREAMING, SpecPage): State.STREAMING,
        (State.STREAMING, Chunk): State.STREAMING,
        (State.STREAMING, Held): State.STREAMING,
        (State.STREAMING, Finish): State.FINISHING,
        (State.STREAMING, Abort): State.STREAMING,
        (State.FINISHING, Chunk): State.FINISHING,
        (State.FINISHING, Held): State.FINISHING,
        (State.FINISHING, Abort): State.FINISHING,
        (State.COMMITTING, Held): State.COMMITTING,
        (State.COMMITTING, Abort): State.COMMITTING,
    }

    def __init__(
        self, config: LinkConfig, *, stream_id: int, peer: str = "peer", name: str = ""
    ) -> None:
        super().__init__(config, stream_id=stream_id, peer=peer, name=name)
        self.state = State.WAITING
        self.opened: Open | None = None
        self.received = self.durable = 0
        self._is_ack_due = False
        self._credit = Credit(config.stream.window_bytes)
        self._chunk_bytes = config.stream.chunk_bytes
        self._ahead: dict[int, Chunk] = {}
        self._arrived = 0  # chunk frames on this call, damaged ones too
        self._missing = 0  # damaged frames whose chunk is not yet made good
        self._damaged_in_a_row = 0
        self._pages: list[bytes] = []
        self._spec_bytes = 0
        self._finish: Finish | None = None
        self._committing = 0
        self._commit: Commit | None = None
        self._chunks = self._repair_count = 0

    # --- the carrier comes and goes ----------------------------------------------

    def attach(self, *, now: float) -> None:
        """Begin, or go on, over a new call; the sender speaks first."""
        self._require(self.state is not State.ABORTED, "attach")
        self.resumes += self.opened is not None
        self.is_attached = True
        self._outbox.clear()
        if self.state is not State.DONE:
            self.state = State.WAITING
            self._timers.start(_OPEN, self.config.timeouts.open_timeout, now=now)
            self._start_receiving_clock(now)

    def detach(self, *, now: float) -> None:
        """The call is lost. What arrived stays; chunks behind a damaged one do not."""
        self.is_attached = False
        self._outbox.clear()
        self._ahead.clear()
        self._arrived = self._missing = self._damaged_in_a_row = 0
        self._timers.stop(_OPEN)

    def receive(self, frame: Frame, *, now: float) -> None:
        """Take one frame from the sender."""
        if self.state is State.DONE and isinstance(frame, Open) and self._commit is not None:
            # The commit was on its way when the call broke: say it again, on the new one.
            self._outbox.extend((self._accept_frame(wants_spec=False), self._commit))
            return
        super().receive(frame, now=now)

    # --- the owner reads -----------------------------------------------------------

    def accept(self, *, wants_spec: bool, now: float) -> None:
        """Answer ``Opened``: the sender may begin. Asks for the description where it is unknown."""
        self._require(self.state is State.OPENING, "accept")
        self.state = State.STREAMING
        self._outbox.append(self._accept_frame(wants_spec=wants_spec))
        self._restart_clocks(now)

    def release(self, nbytes: int, *, now: float) -> None:
        """Say that the sink has ``nbytes`` more of what was delivered."""
        self._require(nbytes <= self.received - self._credit.taken, f"release of {nbytes} bytes")
        self._credit.release(nbytes)
        self._is_ack_due |= self._credit.is_due
        self._restart_read_clock(now)
        self._restart_receiving_clock(now)
        self._advance(now)

    def mark_durable(self, durable: int) -> None:
        """Say that bytes below ``durable`` would survive this process."""
        self.durable = min(max(durable, self.durable), self._credit.taken)
        self._is_ack_due = True

    def committing(self, *, now: float) -> None:
        """Say that the commit moved."""
        self._require(self.state is State.COMMITTING, "committing")
        self._committing += 1
        if self.is_attached:
            self._outbox.append(Committing(self._committing))

    def commit(self, digest: str) -> None:
        """Say that the model is whole and the sink has it: success."""
        self._require(self.state is State.COMMITTING, "commit")
        self.state = State.DONE
        self._timers.stop_all()
        self._commit = Commit(digest)
        if self.is_attached:
            self._outbox.append(self._commit)

    def frames_to_send(self, *, now: float) -> list[Frame]:
        """Return what has to go out now; at most one ack, with the marks as they are."""
        if self._is_ack_due and self._may_ack():
            self._is_ack_due = False
            self._outbox.append(self._ack_frame())
            self._restart_receiving_clock(now)
        return super().frames_to_send(now=now)

    @property
    def has_frames(self) -> bool:
        """Whether ``frames_to_send`` would return something."""
        return bool(self._outbox) or (self._is_ack_due and self._may_ack())

    @property
    def taken(self) -> int:
        """How many bytes the sink has."""
        return self._credit.taken

    @property
    def stats(self) -> StreamStats:
        """A snapshot for logs and progress bars."""
        return StreamStats(
            total_bytes=self.opened.total_bytes if self.opened else 0,
            sent_bytes=self.received,
            received_bytes=self.received,
            taken_bytes=self.taken,
            chunks=self._chunks,
            repairs=self._repair_count,
            resent_bytes=0,
            resumes=self.resumes,
            window_bytes=self.config.stream.window_bytes,
            chunk_bytes=self._chunk_bytes,
            rate=0.0,
        )

    # --- the sender speaks -----------------------------------------------------------

    def _dispatch(self, frame: Frame, now: float) -> None:
        match frame:
            case Chunk():
                self._on_chunk(frame, now)
            case Open():
                self._on_open(frame, now)
            case SpecPage():
                self._on_spec_page(frame, now)
            case Finish():
                self._on_finish(frame, now)
            case Held():
                self._on_held(frame, now)
            case Abort():
                self._on_abort(frame)

    def _on_open(self, frame: Open, now: float) -> None:
        self._timers.stop(_OPEN)
        if self.opened is None:
            self._first_open(frame)
            return
        known = self.opened
        if (frame.total_bytes, frame.spec_digest) != (known.total_bytes, known.spec_digest):
            raise self._violation("came back with another model")
        if frame.attempt != known.attempt:
            raise self._violation(f"came back with {frame.attempt}, this is {known.attempt}")
        self._go_on(now)

    def _first_open(self, frame: Open) -> None:
        if frame.stream_id != self.stream_id:
            raise self._violation(f"opened stream {frame.stream_id} on a call for this one")
        if frame.total_bytes < 0 or frame.spec_pages < 0 or frame.chunk_bytes < 1:
            raise self._violation("opened with a size below zero")
        self._chunk_bytes = min(frame.chunk_bytes, self.config.stream.chunk_bytes)
        self.opened = frame
        self._events.append(Opened(frame))

    def _go_on(self, now: float) -> None:
        """The sender is back: tell it where we are and go on in the state we were in."""
        wants_spec = bool(self._pages)  # pages that had not all arrived come again
        self._pages.clear()
        self._spec_bytes = 0
        self._finish = None
        self.state = State.STREAMING
        self._outbox.append(self._accept_frame(wants_spec=wants_spec))
        self._restart_clocks(now)

    def _on_spec_page(self, frame: SpecPage, now: float) -> None:
        assert self.opened is not None
        self._spec_bytes += len(frame.body)
        if frame.number != len(self._pages) or frame.number >= self.opened.spec_pages:
            raise self._violation(f"sent page {frame.number} of the description out of order")
        if self._spec_bytes > self.config.stream.max_spec_bytes:
            raise FrameTooLarge(
                f"{self.peer} describes its model in more than "
                f"{self.config.stream.max_spec_bytes} bytes (max_spec_bytes)",
                stream_id=self.stream_id,
            )
        self._pages.append(frame.body)
        self._start_receiving_clock(now)
        if len(self._pages) == self.opened.spec_pages:
            self._events.append(SpecReceived(tuple(self._pages)))
            self._pages.clear()

    def _on_chunk(self, chunk: Chunk, now: float) -> None:
        number, self._arrived = self._arrived, self._arrived + 1
        if not chunk.is_intact:
            self._ask_again(number)
            return
        if chunk.sequence != number:
            raise self._violation(f"sent chunk {chunk.sequence} where {number} was due")
        self._check_range(chunk)
        self._missing -= chunk.repeats
        self._damaged_in_a_row = 0
        if chunk.offset > self.received:
            self._ahead[chunk.offset] = chunk
            return
        self._deliver(chunk, now)
        while (behind := self._ahead.pop(self.received, None)) is not None:
            self._deliver(behind, now)
        self._is_ack_due = True
        self._start_receiving_clock(now)
        self._advance(now)

    def _check_range(self, chunk: Chunk) -> None:
        assert self.opened is not None
        if not 0 < chunk.nbytes <= self._chunk_bytes:
            raise FrameTooLarge(
                f"{self.peer} sent a chunk of {chunk.nbytes} bytes; agreed were at most "
                f"{self._chunk_bytes}",
                stream_id=self.stream_id,
            )
        if chunk.offset < self.received or chunk.offset in self._ahead:
            raise self._violation(f"sent byte {chunk.offset} twice")
        if not 0 <= chunk.repeats <= self._missing:
            raise self._violation(f"repeated byte {chunk.offset} without being asked")
        if chunk.offset > self.received and self._missing == chunk.repeats:
            raise self._violation(f"left out bytes {self.received} to {chunk.offset}")
        if chunk.end > self.opened.total_bytes:
            raise self._violation(f"sent bytes beyond its model, up to {chunk.end}")
        if chunk.end > self._credit.limit:
            raise FlowControlError(
                f"{self.peer} sent up to byte {chunk.end} with credit to {self._credit.limit}",
                stream_id=self.stream_id,
            )
        if self._finish is not None and not chunk.repeats:
            raise self._violation("sent a chunk after its finish")

    def _ask_again(self, number: int) -> None:
        # The sender bounds the repairs of one chunk; this side cannot tell which chunk it was and
        # bounds how many may come damaged while not one is whole.
        self._damaged_in_a_row += 1
        if self._damaged_in_a_row > self._max_damaged_in_a_row():
            raise ChecksumError(
                f"{self._damaged_in_a_row} chunks from {self.peer} arrived damaged in a row after "
                f"byte {self.received}; look at the network cards or proxies on the way",
                stream_id=self.stream_id,
            )
        self._missing += 1
        self._repair_count += 1
        self._outbox.append(Repair(number))

    def _max_damaged_in_a_row(self) -> int:
        stream = self.config.stream
        return (stream.max_repairs + 1) * (stream.window_bytes // stream.smallest_chunk_bytes + 1)

    def _deliver(self, chunk: Chunk, now: float) -> None:
        was_idle = self.received == self._credit.taken
        self.received = chunk.end
        self._chunks += 1
        self._events.append(Delivered(chunk.offset, chunk.payload, chunk.nbytes))
        if was_idle:
            self._restart_read_clock(now)

    def _on_finish(self, frame: Finish, now: float) -> None:
        assert self.opened is not None
        if frame.total_bytes != self.opened.total_bytes:
            raise self._violation(
                f"finished at {frame.total_bytes} of {self.opened.total_bytes} bytes"
            )
        if self.received < frame.total_bytes and not self._missing:
            raise self._violation(f"finished after {self.received} of {frame.total_bytes} bytes")
        self._finish = frame
        self._advance(now)

    def _advance(self, now: float) -> None:
        """Move on to committing once every byte was delivered and taken."""
        if self.state is not State.FINISHING or self._finish is None:
            return
        if self._credit.taken == self._finish.total_bytes:
            self.state = State.COMMITTING
            self._restart_clocks(now)
            self._events.append(Finished(self._finish.digest, self._finish.metrics))

    # --- clocks ------------------------------------------------------------------------

    def _expire(self, name: str, now: float) -> None:
        idle = self._timers.idle_seconds(name, now=now)
        if name == _READ:
            self._time_out(
                ReadTimeout(
                    who="the reader on this side",
                    stream=self.name,
                    seconds=idle,
                    bytes_done=self.taken,
                    setting="streaming_read_timeout",
                )
            )
        elif name == _OPEN:
            self._time_out(
                OpenTimeout(
                    who=self.peer,
                    stream=self.name,
                    seconds=idle,
                    bytes_done=self.received,
                    setting="open_timeout",
                )
            )
        else:
            self._time_out(
                CommunicationTimeout(
                    stage="receiving",
                    who=self.peer,
                    stream=self.name,
                    seconds=idle,
                    bytes_done=self.received,
                )
            )

    def _restart_clocks(self, now: float) -> None:
        self._restart_read_clock(now)
        self._restart_receiving_clock(now)

    def _restart_read_clock(self, now: float) -> None:
        if self.received > self._credit.taken:
            self._timers.start(_READ, self.config.timeouts.streaming_read_timeout, now=now)
        else:
            self._timers.stop(_READ)

    def _restart_receiving_clock(self, now: float) -> None:
        # Without credit the sender must not send: then the reader's own clock bounds the wait.
        can_send = self._credit.limit > self.received or self._missing > 0
        if self.state in (State.STREAMING, State.FINISHING) and can_send:
            self._start_receiving_clock(now)
        else:
            self._timers.stop(_RECEIVING)

    def _start_receiving_clock(self, now: float) -> None:
        self._timers.start(_RECEIVING, self.config.timeouts.communication_timeout, now=now)

    # --- small parts -------------------------------------------------------------------

    def _may_ack(self) -> bool:
        return self.is_attached and self.state in (
            State.STREAMING,
            State.FINISHING,
            State.COMMITTING,
        )

    def _ack_frame(self) -> Ack:
        return Ack(self.received, self._credit.taken, self.durable, self._credit.grant())

    def _accept_frame(self, *, wants_spec: bool) -> Accept:
        limit = self._credit.grant()
        return Accept(self.received, max(limit, self.received), self._chunk_bytes, wants_spec)

    def _drop_payloads(self) -> None:
        self._ahead.clear()
        self._pages.clear()
        self._events = type(self._events)(
            event for event in self._events if not isinstance(event, Delivered)
        )
