"""``ReceiveStream``: the receiving half of a transfer.

    WAITING ── open ──▶ OPENING ── accept() ──▶ STREAMING ── finish ──▶ FINISHING
       ▲                                                                    │ every byte taken
       └── attach() on a new channel      DONE ◀── commit() ── COMMITTING ◀─┘

Chunks are admitted in any order inside the window and delivered in order (``reassembly``); one
whose hash is wrong is asked for again, on the channel that brought it. Credit returns with
``release``, when the sink has the bytes, not when they arrive. Two clocks run:
``streaming_read_timeout`` while bytes are ready and nobody takes them, ``communication_timeout``
(stage receiving) while it is the sender's turn. On a new channel everything resumes where it stood;
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
from streamlink.protocol.acks import REPORT
from streamlink.protocol.channel import Channel
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
    SpecPage,
)
from streamlink.protocol.intake import Intake
from streamlink.protocol.limits import (
    MAX_ACK_RANGES,
    MAX_ENCODINGS,
    SMALLEST_CHUNK_BYTES,
)
from streamlink.protocol.machine import Moves
from streamlink.protocol.stalls import HELD, NETWORK, READER
from streamlink.protocol.stats import StreamStats
from streamlink.protocol.stream_state import RECEIVER_MOVES, State
from streamlink.protocol.validate import check_open, is_same_model
from streamlink.protocol.window import credit_for

_OPEN, _READ, _RECEIVING = "open", "read", "receiving"


class ReceiveStream(Intake):
    """Receives one extent of a model. The verbs both halves share: ``machine``, ``stream``."""

    MOVES: ClassVar[Moves] = RECEIVER_MOVES
    UNGREETED: ClassVar[State] = State.WAITING

    def __init__(
        self,
        config: LinkConfig,
        *,
        stream_id: int,
        peer: str = "peer",
        name: str = "",
        encodings: Collection[str] = (),
    ) -> None:
        super().__init__(config, stream_id=stream_id, peer=peer, name=name, encodings=encodings)
        self.state = State.WAITING
        self.durable = 0
        self._is_accepted = False
        self._travels = Extent(0, 0)  # known once it is announced
        self._finish: Finish | None = None
        self._is_whole = False
        self._committing = 0
        self._commit: Commit | None = None

    # --- the owner reads -----------------------------------------------------------

    def accept(self, *, wants_spec: bool, now: float, start: int | None = None) -> None:
        """Answer ``Opened``: the sender may begin. Asks for the description where it is unknown.

        Args:
            wants_spec: the description has to come, too.
            now: monotonic seconds.
            start: bytes below do not come: they are here, durable, from a process before this one.
                None: all of the extent comes.
        """
        is_decided = self._is_accepted or self.is_closed
        self._require(self.opened is not None and not is_decided, "accept")
        assert self.opened is not None
        extent = self.opened.brings
        start = extent.start if start is None else start
        self._require(extent.start <= start <= extent.stop, f"accept at byte {start} of {extent}")
        if start:
            self._reassembly.received = self.durable = start
            self._credit.release(start)
        self._travels = Extent(start, extent.stop)
        self._is_accepted = True
        self._pages.is_wanted = wants_spec and self.opened.spec_pages > 0
        if wants_spec and not self._pages.is_wanted:
            self._events.append(SpecReceived(()))
        self._answer(now)
        self._account(now)

    def release(self, nbytes: int, *, now: float) -> None:
        """Say that the sink has ``nbytes`` more of what was delivered."""
        credit = self._credit
        if not 0 <= nbytes <= self._reassembly.received - credit.taken:
            raise self._misuse(f"release of {nbytes} bytes")
        credit.release(nbytes)
        is_all_taken = credit.taken == self._reassembly.received
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
        if not (self._channels and self.state is State.WAITING):  # else: said after its open
            self._be_done()

    def frames_to_send(self, *, now: float, channel: int = 0) -> list[Frame]:
        """Return what has to go out now; at most one ack, with the marks as they are."""
        if self._is_ack_due(channel):
            self._acks.told(now=now)
            received, credit = self._reassembly.received, self._credit
            ranges = self._reassembly.ranges(MAX_ACK_RANGES) if self._reassembly.has_gap else ()
            self._outbox.append(Ack(received, credit.taken, self.durable, credit.grant(), ranges))
            self._watch_sender(now)
        return super().frames_to_send(now=now, channel=channel)

    def has_frames(self, channel: int = 0) -> bool:
        """Whether ``frames_to_send`` would return something for ``channel``."""
        return super().has_frames(channel) or self._is_ack_due(channel)

    def _is_ack_due(self, channel: int) -> bool:
        if not (self._acks.is_due and self.state in _ACCEPTED):
            return False
        on = self._channels.get(channel)
        return on is not None and on.is_ready and self._controls(on)

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
        return self._reassembly.received

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
            extent=self._travels,
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

    def _attach(self, channel: Channel, now: float) -> None:
        # Done, too: the commit may have been on its way when the call broke, and is said again.
        if len(self._channels) == 1:
            self.resumes += self.opened is not None
            self.state = State.WAITING
            self._timers.start(_OPEN, self.config.timeouts.open_timeout, now=now)
        self._watch_sender(now)

    def _detach(self, channel: Channel, now: float) -> None:
        self._free_place(channel)
        if self._is_ready:
            self._acks.is_due = True  # the last one may be lost
            if self._commit is not None:
                self._outbox.append(self._commit)
        else:
            self._lose_last(now)
        self._watch_sender(now)

    def _lose_last(self, now: float) -> None:
        """Wait for another channel, or go on with one whose greeting has begun."""
        self._timers.stop(_OPEN)
        if self._commit is not None:
            self._be_done()
            return
        self._pages.clear()  # those of a channel that is lost come again
        greetings = {each.greeting for each in self._channels.values()}
        if State.OPENING in greetings:
            self.state = State.OPENING
            self._answer(now)
        elif self._channels:
            self.state = State.WAITING
            self._timers.start(_OPEN, self.config.timeouts.open_timeout, now=now)

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
        self._channel.greeting = State.OPENING
        is_first, self.opened = self.opened is None, frame
        if is_first:
            self._chunk_bytes = min(frame.chunk_bytes, self.config.stream.chunk_bytes)
            self._acks.agree(self._chunk_bytes)
            self._credit = credit_for(self.config.stream, self._chunk_bytes)
            self.encodings = tuple(each for each in frame.encodings if each in self._decodes)
            self._travels = frame.brings
            self._events.append(Opened(frame))
        self._answer(now)
        self._watch_sender(now)

    def _check_open(self, frame: Open) -> None:
        if frame.stream_id != self.stream_id:
            raise self._violation(f"opened stream {frame.stream_id} on a call for this one")
        check_open(frame, self.config.limits, peer=self.peer, stream_id=self.stream_id)
        if len(frame.encodings) > MAX_ENCODINGS:
            raise self._violation(f"offers {len(frame.encodings)} encodings")
        known = self.opened or frame
        if frame.attempt != known.attempt:
            raise self._violation(f"came back with {frame.attempt}, this is {known.attempt}")
        if not is_same_model(frame, known):
            error = self._violation("came back with another model")
            if self._commit is not None:  # what is committed stays, and this machine does not fail
                self._channel.outbox.append(Abort(AbortCode.STALE_ATTEMPT, str(error)))
            raise error

    def _answer(self, now: float) -> None:
        """Accept on every channel that was opened, once the owner has decided."""
        if not self._is_accepted:
            return
        for channel in self._channels.values():
            is_only = not self._is_ready
            # One channel brings the description; the others join when it is here.
            if channel.greeting is State.OPENING and (is_only or not self._pages.is_wanted):
                if is_only:
                    self._resume()
                channel.greeting = None
                channel.outbox.append(self._accept())
        if self._commit is not None and self._is_ready:
            self._outbox.append(self._commit)
            self._be_done()
        self._watch_sender(now)

    def _resume(self) -> None:
        """Go on, over the only channel there is, in the state we were in."""
        self._pages.clear()  # those of a call that broke come again
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
        )

    def _on_spec_page(self, frame: SpecPage, now: float) -> None:
        assert self.opened is not None
        pages = self._pages.take(frame, self.opened, peer=self.peer)
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
            raise self._violation("finished twice, or before its description")
        self._finish = frame
        self._watch_sender(now)
        self._advance(now)

    def _advance(self, now: float) -> None:
        """Move on to committing once every byte was delivered and taken."""
        if self.state is not State.FINISHING or self._finish is None:
            return
        if self.taken == self._finish.stop:
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

    def _watch_sender(self, now: float, *, is_progress: bool = False) -> None:
        seconds = self.config.timeouts.communication_timeout
        is_owed = self._is_senders_turn()
        self._meter.may_arrive(is_owed and bool(self._channels), now=now)
        self._watch_turn(_RECEIVING, seconds, is_owed=is_owed, is_progress=is_progress, now=now)

    def _is_senders_turn(self) -> bool:
        if self._is_whole:
            return False
        if not self._channels or self.state is State.WAITING:
            return True
        if self.state is State.OPENING or self.opened is None:
            return False  # our owner decides; the sender has a clock on that
        received = self._reassembly.received
        if received == self.opened.brings.stop:
            return self._finish is None
        # Without credit the sender must not send: then the reader's own clock bounds the wait.
        return self._credit.limit > received

    # --- what limits it ------------------------------------------------------------------

    def _cause(self) -> str:
        is_open = self._channels and self.state is not State.WAITING
        is_ours = self._is_whole or (is_open and not self._is_accepted)
        if is_ours or (is_open and self._reassembly.received > self._credit.taken):
            return HELD if self.waits_for else READER
        return HELD if is_open and self._peer_waits_for else NETWORK

    # --- ends --------------------------------------------------------------------------

    def _is_heard(self) -> bool:
        """Whether the sender has our accept and can make sense of more."""
        return self._is_ready and self.state in _ACCEPTED

    def _be_done(self) -> None:
        self.state = State.DONE
        self._timers.stop_all()

    def _end(self, error: StreamlinkError) -> None:
        if self._commit is None:
            super()._end(error)
        else:
            self._be_done()  # what happens to a later call cannot undo a commit

    def _drop_payloads(self) -> None:
        self._reassembly.clear()
        self._pages.clear()
        self._events = type(self._events)(
            event for event in self._events if not isinstance(event, Delivered)
        )


_ACCEPTED = (State.STREAMING, State.FINISHING, State.COMMITTING)
