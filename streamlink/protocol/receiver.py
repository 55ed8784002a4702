"""``ReceiveStream``: the receiving half of a transfer.

    WAITING ── open ──▶ OPENING ── accept() ──▶ STREAMING ── finish ──▶ FINISHING
       ▲                                                                    │ every byte taken
       └── attach() on a new call         DONE ◀── commit() ── COMMITTING ◀─┘

Chunks are delivered in order; one whose hash is wrong is asked for again (``arrivals``). Credit
returns with ``release``, when the sink has the bytes, not when they arrive. Two clocks run:
``streaming_read_timeout`` while bytes are ready and nobody takes them, ``communication_timeout``
(stage receiving) while it is the sender's turn. On a new call everything goes on where it stood;
what the owner decided while there was no call is told on the next one.
"""

from __future__ import annotations

from typing import ClassVar

from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    ChecksumError,
    CommunicationTimeout,
    OpenTimeout,
    ReadTimeout,
    StreamlinkError,
)
from streamlink.protocol.acks import REPORT, AckRule
from streamlink.protocol.admitted import check_chunk
from streamlink.protocol.announced import check_sizes, is_same_model
from streamlink.protocol.arrivals import Arrivals
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
from streamlink.protocol.limits import MAX_WAITING_FRAMES, SMALLEST_CHUNK_BYTES
from streamlink.protocol.machine import Moves
from streamlink.protocol.meter import ReceiveMeter
from streamlink.protocol.pages import Pages
from streamlink.protocol.stalls import HELD, NETWORK, READER
from streamlink.protocol.stats import StreamStats
from streamlink.protocol.stream import StreamMachine
from streamlink.protocol.stream_state import RECEIVER_MOVES, State
from streamlink.protocol.window import credit_for

_OPEN, _READ, _RECEIVING = "open", "read", "receiving"


class ReceiveStream(StreamMachine):
    """Receives one model. See ``machine`` and ``stream`` for the verbs both halves share."""

    MOVES: ClassVar[Moves] = RECEIVER_MOVES

    def __init__(
        self, config: LinkConfig, *, stream_id: int, peer: str = "peer", name: str = ""
    ) -> None:
        super().__init__(config, stream_id=stream_id, peer=peer, name=name)
        stream = config.stream
        self.state = State.WAITING
        self.opened: Open | None = None
        self.durable = 0
        self._credit = credit_for(stream, stream.chunk_bytes)
        self._arrivals = Arrivals(
            max_damaged=(stream.max_repairs + 1)
            * (stream.window_bytes // stream.smallest_chunk_bytes + 1)
        )
        self._most_chunks = 2 * stream.window_bytes // SMALLEST_CHUNK_BYTES + 64
        self._chunk_bytes = stream.chunk_bytes
        self._is_accepted = False
        self._pages = Pages(stream.max_spec_bytes)
        self._finish: Finish | None = None
        self._is_whole = False
        self._committing = 0
        self._meter = ReceiveMeter()
        self._commit: Commit | None = None
        self._acks = AckRule(
            stream.window_bytes,
            report_seconds=config.timeouts.held_interval,
            timers=self._timers,
        )

    # --- the owner reads -----------------------------------------------------------

    def accept(self, *, wants_spec: bool, now: float, start: int = 0) -> None:
        """Answer ``Opened``: the sender may begin. Asks for the description where it is unknown.

        Args:
            wants_spec: the description has to come, too.
            now: monotonic seconds.
            start: bytes below do not come: they are here, durable, from a process before this one,
                or are not needed.
        """
        is_decided = self._is_accepted or self.is_closed
        self._require(self.opened is not None and not is_decided, "accept")
        assert self.opened is not None
        self._require(0 <= start <= self.opened.total_bytes, f"accept at byte {start}")
        if start:
            self._arrivals.received = self.durable = start
            self._credit.release(start)
        self._is_accepted = True
        self._pages.is_wanted = wants_spec and self.opened.spec_pages > 0
        if wants_spec and not self._pages.is_wanted:
            self._events.append(SpecReceived(()))
        if self.state is State.OPENING and self.is_attached:
            self._go_on(now)
        self._account(now)

    def release(self, nbytes: int, *, now: float) -> None:
        """Say that the sink has ``nbytes`` more of what was delivered."""
        credit = self._credit
        if not 0 <= nbytes <= self._arrivals.received - credit.taken:
            raise self._misuse(f"release of {nbytes} bytes")
        credit.release(nbytes)
        is_all_taken = credit.taken == self._arrivals.received
        self._acks.taken(is_credit_due=credit.is_due, is_all_taken=is_all_taken, now=now)
        self._restart_read_clock(now)
        if self._finish is not None:
            self._advance(now)
        if self.waits_for:
            self._go_on_ourselves()
        self._account(now)

    def mark_durable(self, durable: int) -> None:
        """Say that bytes below ``durable`` would survive this process."""
        self.durable = min(max(durable, self.durable), self.taken)
        self._acks.is_due = True

    def committing(self, *, now: float) -> None:
        """Say that the commit moved."""
        self._require(self._is_whole and self._commit is None, "committing")
        self._committing += 1
        if self._is_heard():
            self._outbox.append(Committing(self._committing))

    def commit(self, digest: str) -> None:
        """Say that the model is whole and the sink has it: success."""
        may_commit = self._is_whole and self._commit is None and not self.is_closed
        self._require(may_commit, "commit")
        self._commit = Commit(digest)
        if self._is_heard():
            self._outbox.append(self._commit)
        if not (self.is_attached and self.state is State.WAITING):  # else: said after its open
            self._be_done()

    def frames_to_send(self, *, now: float) -> list[Frame]:
        """Return what has to go out now; at most one ack, with the marks as they are."""
        if self._acks.is_due and self._is_heard():
            self._acks.told(now=now)
            received, credit = self._arrivals.received, self._credit
            self._outbox.append(Ack(received, credit.taken, self.durable, credit.grant()))
            self._watch_sender(now)
        return super().frames_to_send(now=now)

    @property
    def has_frames(self) -> bool:
        """Whether ``frames_to_send`` would return something."""
        return bool(self._outbox) or (self._acks.is_due and self._is_heard())

    @property
    def is_committed(self) -> bool:
        """Whether the owner has said that the model is whole; a later call cannot undo it."""
        return self._commit is not None

    @property
    def has_piece(self) -> bool:
        """Whether the next event is bytes of the model."""
        return bool(self._events) and isinstance(self._events[0], Delivered)

    @property
    def received(self) -> int:
        """How many bytes arrived whole and in order."""
        return self._arrivals.received

    @property
    def taken(self) -> int:
        """How many bytes the sink has."""
        return self._credit.taken

    @property
    def stats(self) -> StreamStats:
        """A snapshot for logs and progress bars."""
        seconds, nbytes = self._meter.moved
        return StreamStats(
            total_bytes=self.opened.total_bytes if self.opened else 0,
            sent_bytes=self.received,
            received_bytes=self.received,
            taken_bytes=self.taken,
            resent_bytes=0,
            window_bytes=self.config.stream.window_bytes,
            chunk_bytes=self._chunk_bytes,
            rate=0.0,
            in_flight_bytes=0 if self.is_closed else self.received - self.taken,
            moving_seconds=seconds,
            moving_bytes=nbytes,
            **self._shared_stats(),
        )

    # --- the carrier comes and goes ----------------------------------------------

    def _attach(self, now: float) -> None:
        # Done, too: the commit may have been on its way when the call broke, and is said again.
        self.resumes += self.opened is not None
        self.state = State.WAITING
        self._timers.start(_OPEN, self.config.timeouts.open_timeout, now=now)
        self._watch_sender(now)

    def _detach(self, now: float) -> None:
        self._arrivals.lose_call()
        self._timers.stop(_OPEN)
        if self._commit is not None:
            self._be_done()
        self._watch_sender(now)

    # --- the sender speaks -----------------------------------------------------------

    def _is_small(self, frame: Frame) -> bool:
        # The others are bounded: chunks by their credit, pages by max_spec_bytes.
        if isinstance(frame, Chunk):
            return frame.nbytes < SMALLEST_CHUNK_BYTES or not frame.is_intact
        return not isinstance(frame, SpecPage)

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
            case Abort():  # pragma: no branch (the table lets nothing else through)
                self._on_abort(frame)

    def _on_open(self, frame: Open, now: float) -> None:
        self._timers.stop(_OPEN)
        self._check_open(frame)
        self._chunk_bytes = min(frame.chunk_bytes, self.config.stream.chunk_bytes)
        self._acks.agree(self._chunk_bytes)
        is_first, self.opened = self.opened is None, frame
        if is_first:
            self._credit = credit_for(self.config.stream, self._chunk_bytes)
            self._events.append(Opened(frame))
        if self._is_accepted:
            self._go_on(now)
        else:
            self._watch_sender(now)

    def _check_open(self, frame: Open) -> None:
        if frame.stream_id != self.stream_id:
            raise self._violation(f"opened stream {frame.stream_id} on a call for this one")
        check_sizes(frame, self.config.limits, peer=self.peer, stream_id=self.stream_id)
        known = self.opened or frame
        if frame.attempt != known.attempt:
            raise self._violation(f"came back with {frame.attempt}, this is {known.attempt}")
        if not is_same_model(frame, known):
            error = self._violation("came back with another model")
            if self._commit is not None:  # what is committed stays, and this machine does not fail
                self._outbox.append(Abort(AbortCode.STALE_ATTEMPT, str(error)))
            raise error

    def _go_on(self, now: float) -> None:
        """Tell the sender where we are, and go on in the state we were in."""
        self._pages.clear()  # those of a call that broke come again
        self._finish = None
        self.state = State.COMMITTING if self._is_whole else State.STREAMING
        limit = self._credit.grant()
        accept = Accept(self.received, limit, self._chunk_bytes, self._pages.is_wanted)
        self._outbox.append(accept)
        if self._commit is not None:
            self._outbox.append(self._commit)
            self._be_done()
        self._watch_sender(now)

    def _on_spec_page(self, frame: SpecPage, now: float) -> None:
        assert self.opened is not None
        pages = self._pages.take(frame, self.opened, peer=self.peer)
        self._watch_sender(now, is_progress=True)
        if pages is not None:
            self._events.append(SpecReceived(pages))

    def _on_chunk(self, chunk: Chunk, now: float) -> None:
        if self._pages.is_wanted:
            raise self._violation("sent a chunk before its description")
        if not chunk.is_intact:
            self._ask_again()
            return
        assert self.opened is not None
        check_chunk(
            chunk,
            self._arrivals,
            self.opened,
            most=self._chunk_bytes,
            limit=self._credit.limit,
            peer=self.peer,
        )
        if self._finish is not None and not chunk.repeats:
            raise self._violation("sent a chunk after its finish")
        if not chunk.nbytes or len(self._events) + len(self._arrivals) > self._most_chunks:
            raise self._violation(f"cuts its model too fine, {chunk.nbytes} bytes in a chunk")
        in_order = self._arrivals.take(chunk)
        if self._arrivals.is_overlapping:
            raise self._violation(f"sent bytes behind {self.received} twice")
        if in_order:
            self._deliver(in_order, now)

    def _ask_again(self) -> None:
        number = self._arrivals.take_damaged()
        if number is None:
            raise ChecksumError(
                f"{self._arrivals.damaged_in_a_row} chunks from {self.peer} arrived damaged in a "
                f"row after byte {self.received}; look at the network cards or proxies on the way",
                stream_id=self.stream_id,
            )
        if len(self._outbox) >= MAX_WAITING_FRAMES:
            raise self._violation(f"leaves {MAX_WAITING_FRAMES} answers unread")
        self._repairs += 1
        self._outbox.append(Repair(number))

    def _deliver(self, chunks: list[Chunk], now: float) -> None:
        self._has_moved = True
        self._meter.arrived(sum(chunk.nbytes for chunk in chunks), now=now)
        for chunk in chunks:
            self._chunks += 1
            self._events.append(Delivered(chunk.offset, chunk.payload, chunk.nbytes))
        self._peer_waits_for = ""
        is_full = chunks[-1].nbytes == self._chunk_bytes and not self._arrivals.missing
        self._acks.delivered(len(chunks), is_full=is_full, now=now)
        if not self._timers.is_running(_READ):
            self._restart_read_clock(now)
        self._watch_sender(now, is_progress=True)

    def _on_finish(self, frame: Finish, now: float) -> None:
        assert self.opened is not None
        if frame.total_bytes != self.opened.total_bytes:
            raise self._violation(
                f"finished at {frame.total_bytes} of {self.opened.total_bytes} bytes"
            )
        if self.received < frame.total_bytes and not self._arrivals.missing:
            raise self._violation(f"finished after {self.received} of {frame.total_bytes} bytes")
        if self._pages.is_wanted or self._finish is not None:
            raise self._violation("finished twice, or before its description")
        self._finish = frame
        self._watch_sender(now)
        self._advance(now)

    def _advance(self, now: float) -> None:
        """Move on to committing once every byte was delivered and taken."""
        if self.state is not State.FINISHING or self._finish is None:
            return
        if self.taken == self._finish.total_bytes:
            self.state = State.COMMITTING
            self._is_whole = True
            self._watch_sender(now)
            self._events.append(Finished(self._finish.digest, self._finish.metrics))

    # --- clocks ------------------------------------------------------------------------

    def _expire(self, name: str, now: float) -> None:
        facts = self._idle_facts(name, now, self.received)
        if name == REPORT:
            self._acks.expired()
        elif name == _READ:
            facts["who"], facts["bytes_done"] = "the reader on this side", self.taken
            self._time_out(ReadTimeout(**facts, setting="streaming_read_timeout"))
        elif name == _OPEN:
            self._time_out(OpenTimeout(**facts, setting="open_timeout"))
        else:
            self._time_out(CommunicationTimeout(**facts, stage="receiving"))

    def _we_hold(self, now: float) -> None:
        self._restart_read_clock(now)

    def _peer_holds(self, now: float) -> None:
        self._meter.excuse()
        if self._timers.is_running(_RECEIVING):
            seconds = self.config.timeouts.communication_timeout
            self._timers.start(_RECEIVING, seconds, now=now)

    def _restart_read_clock(self, now: float) -> None:
        if self._arrivals.received > self._credit.taken:
            self._timers.start(_READ, self.config.timeouts.streaming_read_timeout, now=now)
        else:
            self._timers.stop(_READ)

    def _watch_sender(self, now: float, *, is_progress: bool = False) -> None:
        seconds = self.config.timeouts.communication_timeout
        is_owed = self._is_senders_turn()
        self._meter.may_arrive(is_owed and self.is_attached, now=now)
        self._watch_turn(_RECEIVING, seconds, is_owed=is_owed, is_progress=is_progress, now=now)

    def _is_greeting(self) -> bool:
        return self.state is State.WAITING

    def _is_senders_turn(self) -> bool:
        if self._is_whole:
            return False
        if not self.is_attached or self.state is State.WAITING:
            return True
        if self.state is State.OPENING or self.opened is None:
            return False  # our owner decides; the sender has a clock on that
        received = self._arrivals.received
        if received == self.opened.total_bytes:
            return self._finish is None
        # Without credit the sender must not send: then the reader's own clock bounds the wait.
        return self._credit.limit > received or self._arrivals.missing > 0

    # --- what limits it ------------------------------------------------------------------

    def _cause(self) -> str:
        is_open = self.is_attached and self.state is not State.WAITING
        is_ours = self._is_whole or (is_open and not self._is_accepted)
        if is_ours or (is_open and self._arrivals.received > self._credit.taken):
            return HELD if self.waits_for else READER
        return HELD if is_open and self._peer_waits_for else NETWORK

    # --- ends --------------------------------------------------------------------------

    def _is_heard(self) -> bool:
        """Whether the sender has heard our accept on this call and can make sense of more."""
        return self.is_attached and self.state in _ACCEPTED

    def _be_done(self) -> None:
        self.state = State.DONE
        self._timers.stop_all()

    def _end(self, error: StreamlinkError) -> None:
        if self._commit is None:
            super()._end(error)
        else:
            self._be_done()  # what happens to a later call cannot undo a commit

    def _drop_payloads(self) -> None:
        self._arrivals.lose_call()
        self._pages.clear()
        self._events = type(self._events)(
            event for event in self._events if not isinstance(event, Delivered)
        )


_ACCEPTED = (State.STREAMING, State.FINISHING, State.COMMITTING)
