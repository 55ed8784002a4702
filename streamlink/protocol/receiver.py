"""``ReceiveStream``: the receiving half of a transfer.

    AWAITING_OPEN ── open ──▶ OPENING ── accept() ──▶ STREAMING ── finish ──▶ FINISHING
       ▲                                                                          │ all consumed
       └── attach() on a new channel            DONE ◀── commit() ── COMMITTING ◀─┘

Chunks are admitted in any order inside the window and delivered in order (``receiver_chunks``).
Credit returns with ``release``, when the sink has the bytes, not when they arrive: so a slow sink
slows the sender down (back-pressure) and fills no memory. Two timers run:
``streaming_read_timeout`` while bytes are ready and nobody consumes them, ``communication_timeout``
(stage receiving) while it is the sender's turn. On a new channel everything resumes where it was;
what the owner decided while there was none is sent on the next one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    CommunicationTimeout,
    OpenTimeout,
    ReadTimeout,
    StreamlinkError,
)
from streamlink.extent import Extent
from streamlink.protocol.events import Delivered, Finished, Opened, SpecReceived
from streamlink.protocol.flow_control import ACK_DELAY
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
    SpecPage,
)
from streamlink.protocol.handshake import check_open, is_same_model
from streamlink.protocol.limits import (
    MAX_ACK_RANGES,
    MAX_BASES,
    MAX_ENCODINGS,
    SMALLEST_CHUNK_BYTES,
)
from streamlink.protocol.receiver_chunks import (
    OPEN_TIMER,
    READ_TIMER,
    RECEIVING_TIMER,
    ChunkReceiver,
)
from streamlink.protocol.states import RECEIVER_TRANSITIONS, State, Transitions
from streamlink.protocol.stats import HELD, LIMIT, NETWORK, READER, StreamStats
from streamlink.protocol.stream import Channel


class ReceiveStream(ChunkReceiver):
    """Receives one extent of a model. The verbs that both halves share: ``machine``, ``stream``."""

    TRANSITIONS: ClassVar[Transitions] = RECEIVER_TRANSITIONS
    INITIAL_STATE: ClassVar[State] = State.AWAITING_OPEN

    def __init__(
        self,
        config: LinkConfig,
        *,
        stream_id: int,
        peer_name: str = "peer",
        name: str = "",
        encodings: Collection[str] = (),
    ) -> None:
        super().__init__(
            config, stream_id=stream_id, peer_name=peer_name, name=name, encodings=encodings
        )
        self.state = State.AWAITING_OPEN
        self.durable = 0
        self._travels = Extent(0, 0)  # known once it is announced
        self._committing = 0
        self._commit: Commit | None = None
        self._is_expected = False
        self._base = ""
        self._may_be_opened = True

    # --- the owner reads -----------------------------------------------------------

    def accept(
        self, *, wants_spec: bool, now: float, start: int | None = None, base: str = ""
    ) -> None:
        """Answer ``Opened``: the sender may begin.

        Args:
            wants_spec: the description is not known here, so the sender has to send it first.
            now: monotonic seconds.
            start: the offset to begin at; None: where the extent begins. The bytes below are
                here, durable, from an earlier process.
            base: the one of the sender's bases that this end has, too; empty: none.
        """
        is_decided = self._is_accepted or self.is_closed
        self._require(self.opened is not None and not is_decided, "accept")
        assert self.opened is not None
        extent = self.opened.brings
        start = extent.start if start is None else start
        self._require(extent.start <= start <= extent.stop, f"accept at byte {start} of {extent}")
        if start:
            self.durable = start
            self._begin_at(start)
        self._require(not base or base in self.opened.bases, f"accept with the base {base!r}")
        self._travels = Extent(start, extent.stop)
        self._is_accepted, self._base = True, base
        self._expect_need(now)
        self._pages.is_wanted = wants_spec and self.opened.spec_pages > 0
        if wants_spec and not self._pages.is_wanted:
            self._events.append(SpecReceived(()))
        self._answer(now)
        self._account(now)

    def drop_base(self, offset: int, *, now: float) -> None:
        """Request all bytes from ``offset`` on again, plain: the base can no longer be read.

        What is on its way needs the base, so all channels are closed; the next accept has none.
        """
        if self.is_closed:
            return
        consumed, received = self._credit.consumed, self._reassembly.received
        self._require(bool(self._base) and consumed <= offset <= received, "drop_base")
        self._base, self._finish = "", None
        self._drop_chunks()
        self._reassembly.received = offset
        self._restart_read_timer(now)
        for channel in list(self._channels):
            self.detach(now=now, channel=channel)

    def release(self, nbytes: int, *, now: float) -> None:
        """Note that the sink has consumed ``nbytes`` more; this returns their credit."""
        credit = self._credit
        if not 0 <= nbytes <= self._reassembly.received - credit.consumed:
            raise self._misuse(f"release of {nbytes} bytes")
        credit.release(nbytes)
        is_all_consumed = credit.consumed == self._reassembly.received
        self._acks.consumed(is_credit_due=credit.is_due, is_all_consumed=is_all_consumed, now=now)
        self._restart_read_timer(now)
        if self._finish is not None:
            self._advance(now)  # these may have been the last bytes that were missing
        if self.waits_for:
            self._stop_waiting()
        self._account(now)

    def mark_durable(self, durable: int) -> None:
        """Note that bytes below ``durable`` would survive this process."""
        # Offsets of an ack are in order: what the sink has not consumed cannot be durable.
        self.durable = min(max(durable, self.durable), self.consumed)
        self._acks.is_due = True

    def committing(self, *, now: float) -> None:
        """Report to the sender that the commit makes progress."""
        self._require(self._is_whole and self._commit is None, "committing")
        self._committing += 1
        if self._can_report():
            self._outbox.append(Committing(self._committing))

    def commit(self, digest: str) -> None:
        """Report to the sender that the sink has the whole model: success."""
        may_commit = self._is_whole and self._commit is None and not self.is_closed
        advice = "" if self._is_whole else "; read the transfer until is_complete first"
        self._require(may_commit, "commit", advice)
        self._commit = Commit(digest)
        if self._can_report():
            self._outbox.append(self._commit)
        # While a new channel waits for its open, the commit is kept: ``_answer`` sends it.
        if not (self._channels and self.state is State.AWAITING_OPEN):
            self._succeed()

    def frames_to_send(self, *, now: float, channel: int = 0) -> list[Frame]:
        """Return what has to leave now; at most one ack, with the offsets of this moment."""
        if self._is_ack_due(channel):
            self._acks.sent(now=now)
            received, credit = self._reassembly.received, self._credit
            if self._need is not None and credit.is_grantable:
                self._need.granted(credit.limit, now=now)
            ranges = self._reassembly.ranges(MAX_ACK_RANGES) if self._reassembly.has_gap else ()
            self._outbox.append(
                Ack(received, credit.consumed, self.durable, credit.grant(), ranges)
            )
            self._watch_sender(now)  # new credit makes it the sender's turn
        return super().frames_to_send(now=now, channel=channel)

    def has_frames(self, channel: int = 0) -> bool:
        """Whether ``frames_to_send`` would return something for ``channel``."""
        return super().has_frames(channel) or self._is_ack_due(channel)

    def _is_ack_due(self, channel: int) -> bool:
        if not (self._acks.is_due and self.state in _ACCEPTED):
            return False
        on = self._channels.get(channel)
        return on is not None and on.is_ready and self._is_control_channel(on)

    @property
    def is_committed(self) -> bool:
        """Whether the owner has committed the model; no later call can undo that."""
        return self._commit is not None

    @property
    def has_chunk(self) -> bool:
        """Whether the next event is bytes of the model."""
        return bool(self._events) and isinstance(self._events[0], Delivered)

    @property
    def received(self) -> int:
        """How many bytes arrived whole and in order."""
        return self._reassembly.received

    @property
    def consumed(self) -> int:
        """How many bytes the sink has."""
        return self._credit.consumed

    @property
    def stats(self) -> StreamStats:
        """A snapshot for logs and progress bars."""
        seconds, nbytes = self._meter.measured
        return StreamStats(
            total_bytes=self.opened.total_bytes if self.opened else 0,
            extent=self._travels,
            sent_bytes=self.received,
            received_bytes=self.received,
            consumed_bytes=self.consumed,
            resent_bytes=0,
            window_bytes=self._window_bytes or self.config.stream.window_bytes,
            chunk_bytes=self._chunk_bytes,
            rate=0.0,
            in_flight_bytes=0 if self.is_closed else self.received - self.consumed,
            moving_seconds=seconds,
            moving_bytes=nbytes,
            saved_bytes=self._saved_bytes,
            wasted_bytes=self._wasted_bytes,
            **self._shared_stats(),
        )

    # --- channels come and go ----------------------------------------------------

    def expect(self, *, now: float) -> None:
        """Note that the sender has replied: from now on it has ``open_timeout`` for this stream."""
        self._is_expected = True
        self._watch_opening(now)

    def offer(self, *, now: float) -> None:
        """Note that the sender can open this stream, after ``retract_offer``."""
        self._may_be_opened = True
        self._watch_opening(now)

    def retract_offer(self) -> None:
        """Note that the sender cannot open this stream now: ``offer`` follows when it can."""
        self._may_be_opened = False
        if not self._channels:
            self._timers.stop(OPEN_TIMER)

    def _watch_opening(self, now: float) -> None:
        """Give the sender ``open_timeout``, if the stream is due and no channel has a handshake."""
        is_due = self._is_expected and self._may_be_opened and self.opened is None
        if is_due and not self._channels and not self.is_closed:
            self._timers.start(OPEN_TIMER, self.config.timeouts.open_timeout, now=now)

    def _attach(self, channel: Channel, now: float) -> None:
        # Also when done: the commit may have been in flight when the call broke, and is repeated.
        if len(self._channels) == 1:
            self.resumes += self.opened is not None
            self.state = State.AWAITING_OPEN
            self._timers.start(OPEN_TIMER, self.config.timeouts.open_timeout, now=now)
        self._watch_sender(now)

    def detach(self, *, now: float, channel: int = 0) -> None:
        """Note that a channel is lost: the others continue, or ``attach`` resumes."""
        super().detach(now=now, channel=channel)
        # The lost channel may have carried the commit. The sender ignores it if it arrives twice.
        if self.state is State.DONE and self._is_ready and self._commit not in self._outbox:
            assert self._commit is not None
            self._outbox.append(self._commit)

    def _detach(self, channel: Channel, now: float) -> None:
        self._cancel_reservation(channel)
        if self._is_ready:
            self._acks.is_due = True  # the last one may be lost
        else:
            self._lose_last(now)
        self._watch_sender(now)

    def _lose_last(self, now: float) -> None:
        """Wait for another channel, or continue with one whose handshake has begun."""
        self._timers.stop(OPEN_TIMER)
        if self._commit is not None:
            self._succeed()
            return
        self._pages.clear()  # another channel brings them again, from the first
        handshakes = {each.handshake for each in self._channels.values()}
        if State.OPENING in handshakes:
            self.state = State.OPENING
            self._answer(now)
        elif self._channels:
            self.state = State.AWAITING_OPEN
            self._timers.start(OPEN_TIMER, self.config.timeouts.open_timeout, now=now)
        else:
            self._watch_opening(now)

    # --- frames of the sender --------------------------------------------------------

    def _is_small(self, frame: Frame) -> bool:
        # Credit bounds the chunks, unless they are tiny, and max_spec_bytes the pages.
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
        self._timers.stop(OPEN_TIMER)
        self._check_open(frame)
        self._channel.handshake = State.OPENING
        is_first, self.opened = self.opened is None, frame
        if is_first:
            self._chunk_bytes = min(frame.chunk_bytes, self.config.stream.chunk_bytes)
            self._acks.set_chunk_bytes(self._chunk_bytes)
            # Before the first accept, so nothing was granted yet by the credit that this replaces.
            self._credit = self._new_credit()
            self.encodings = tuple(each for each in frame.encodings if each in self._decodes)
            self._travels = frame.brings
            self._events.append(Opened(frame))
        self._answer(now)
        self._watch_sender(now)

    def _check_open(self, frame: Open) -> None:
        if frame.stream_id != self.stream_id:
            raise self._violation(f"opened stream {frame.stream_id} on a call for {self.name}")
        check_open(frame, self.config.limits, peer_name=self.peer_name, stream_id=self.stream_id)
        if len(frame.encodings) > MAX_ENCODINGS:
            raise self._violation(
                f"offers {len(frame.encodings)} encodings; the most are {MAX_ENCODINGS}"
            )
        if len(frame.bases) > MAX_BASES:
            raise self._violation(f"offers {len(frame.bases)} bases; the most are {MAX_BASES}")
        known = self.opened or frame
        if frame.attempt != known.attempt:
            raise self._violation(
                f"resumed with {frame.attempt}, but this stream is {known.attempt}"
            )
        if not is_same_model(frame, known):
            error = self._violation("resumed with another model")
            # After the commit this machine does not fail any more, so it sends no abort by itself.
            if self._commit is not None:
                self._channel.outbox.append(Abort(AbortCode.STALE_ATTEMPT, str(error)))
            raise error

    def _answer(self, now: float) -> None:
        """Accept on every channel that was opened, once the owner has decided."""
        if not self._is_accepted:
            return
        for channel in self._channels.values():
            is_only = not self._is_ready
            # One channel brings the description; the others are accepted when it is here.
            if channel.handshake is State.OPENING and (is_only or not self._pages.is_wanted):
                if is_only:
                    self._resume()
                channel.handshake = None
                channel.outbox.append(self._accept())
                if is_only and self._need is not None:
                    self._need.accepted(self.received, now=now)
        if self._commit is not None and self._is_ready:
            self._outbox.append(self._commit)
            self._succeed()
        self._watch_sender(now)

    def _resume(self) -> None:
        """Continue over the only channel there is, in the state before the break."""
        self._pages.clear()  # the sender sends them again, from the first
        self._finish = None
        self.state = State.COMMITTING if self._is_whole else State.STREAMING

    def _accept(self) -> Accept:
        return Accept(
            self.received,
            self._credit.grant(),
            self._chunk_bytes,
            self._pages.is_wanted,
            self._reassembly.ranges(MAX_ACK_RANGES),
            self.encodings,
            self._base,
        )

    def _on_spec_page(self, frame: SpecPage, now: float) -> None:
        assert self.opened is not None
        pages = self._pages.add(frame, self.opened, peer_name=self.peer_name)
        self._watch_sender(now, is_progress=True)
        if pages is not None:
            self._events.append(SpecReceived(pages))
            self._answer(now)

    def _on_finish(self, frame: Finish, now: float) -> None:
        assert self.opened is not None
        if frame.stop != self.opened.brings.stop:
            raise self._violation(f"finished at byte {frame.stop} of {self.opened.brings}")
        # Chunks may still be missing: under repair, or on another channel.
        if self._pages.is_wanted or (self._finish or frame) != frame:
            raise self._violation(
                "sent a second finish, or one before the description of its model"
            )
        self._finish = frame
        self._watch_sender(now)
        self._advance(now)

    def _advance(self, now: float) -> None:
        """Move on to committing once every byte was delivered and consumed."""
        if self.state is not State.FINISHING or self._finish is None:
            return
        if self.consumed == self._finish.stop:
            self.state = State.COMMITTING
            self._is_whole = True
            self._watch_sender(now)
            self._events.append(Finished(self._finish.digest, self._finish.metrics))

    # --- timers ------------------------------------------------------------------------

    def _timer_expired(self, name: str, now: float) -> None:
        facts = self._idle_facts(name, now, self.received)
        if name == ACK_DELAY:
            self._acks.timer_expired()
        elif name == READ_TIMER:
            facts["who"], facts["bytes_done"] = "the reader on this side", self.consumed
            self._time_out(ReadTimeout(**facts, setting="streaming_read_timeout"))
        elif name == OPEN_TIMER:
            self._time_out(OpenTimeout(**facts, setting="open_timeout"))
        else:
            self._time_out(CommunicationTimeout(**facts, stage="receiving"))

    def _on_own_hold(self, now: float) -> None:
        self._restart_read_timer(now)

    def _on_peer_hold(self, now: float) -> None:
        self._meter.skip_wait()
        if self._timers.is_running(RECEIVING_TIMER):
            seconds = self.config.timeouts.communication_timeout
            self._timers.start(RECEIVING_TIMER, seconds, now=now)

    # --- what limits it ------------------------------------------------------------------

    def _cause(self) -> str:
        is_open = self._channels and self.state is not State.AWAITING_OPEN
        is_ours = self._is_whole or (is_open and not self._is_accepted)
        if is_ours or (is_open and self._reassembly.received > self._credit.consumed):
            return HELD if self.waits_for else READER
        if is_open and self._is_limited:
            return LIMIT
        return HELD if is_open and self._peer_waits_for else NETWORK

    # --- ends --------------------------------------------------------------------------

    def _can_report(self) -> bool:
        """Whether the sender has our accept: before it no other frame is allowed."""
        return self._is_ready and self.state in _ACCEPTED

    def _succeed(self) -> None:
        self.state = State.DONE
        self._timers.stop_all()

    def _end(self, error: StreamlinkError) -> None:
        if self._commit is None:
            super()._end(error)
        else:
            self._succeed()  # no fault of a later call can undo a commit

    def _drop_payloads(self) -> None:
        self._drop_chunks()
        self._pages.clear()

    def _drop_chunks(self) -> None:
        self._reassembly.clear()
        # Events that are facts stay: the owner still learns that the model was opened, or finished.
        self._events = type(self._events)(
            event for event in self._events if not isinstance(event, Delivered)
        )


_ACCEPTED = (State.STREAMING, State.FINISHING, State.COMMITTING)
