"""``Session``: one peer, as its owner sees it: requests, replies, and the streams between the two.

The machine's events become answers of ``PendingReply`` and calls of ``on_request``, in a thread of
the session or, at a server with many, in whichever of its workers is free. What the session offered
dies with it. A session whose call is lost is *away*: it still takes requests, and resumes where it
stood once another call carries it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import suppress

from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    LocalProtocolError,
    StreamAborted,
    StreamlinkError,
    to_raise,
)
from streamlink.extent import Extent
from streamlink.protocol.events import (
    Disconnected,
    Event,
    Failed,
    PeerLeft,
    Reconnected,
    ReplyReceived,
    RequestCancelled,
    RequestFailed,
    RequestReceived,
)
from streamlink.protocol.frames import NO_ENTRIES, Attempt, Hello, Reply, Request
from streamlink.protocol.liveness import extra_grace_seconds
from streamlink.protocol.session import SessionMachine
from streamlink.transport import offers
from streamlink.transport.bandwidth import join_bandwidth
from streamlink.transport.call_places import CallPlaces, LanePlaces
from streamlink.transport.facts import require_sendable
from streamlink.transport.log import noted
from streamlink.transport.pending_reply import PendingReply as PendingReply
from streamlink.transport.process_memory import Seat
from streamlink.transport.pump import Pump
from streamlink.transport.receive_pump import ReceivePump
from streamlink.transport.remembered import Remembered
from streamlink.transport.send_pump import SendPump
from streamlink.transport.traffic import TrafficCounter
from streamlink.transport.workers import Serial

logger = logging.getLogger("streamlink.session")

GOODBYE_SECONDS = 5.0
"""How long a client that closes waits for the answer to its goodbye (seconds)."""

_REMEMBERED = 256  # withdrawn streams, so that a late call for one is refused with the reason
_REPEATABLE = 16  # committed streams that were withdrawn: a commit lost with its call is repeated

StreamPump = SendPump | ReceivePump


class Session:
    """A greeted session; ``config`` was agreed on. ``workers`` handle its events, else a thread."""

    def __init__(
        self,
        pump: Pump[SessionMachine],
        *,
        session_id: str,
        peer_name: str,
        config: LinkConfig,
        on_request: Callable[[Session, Request], None] | None = None,
        on_closed: Callable[[Session], None] | None = None,
        on_called_off: Callable[[Session, int, str], None] | None = None,
        traffic: TrafficCounter | None = None,
        seat: Seat | None = None,
        is_probe: bool = False,
        workers: Executor | None = None,
        lanes: LanePlaces | None = None,
    ) -> None:
        self.session_id = session_id
        self.is_probe = is_probe  # it only measures the line
        self.peer_name = peer_name
        self.config = config
        self.error: StreamlinkError | None = None
        self.closed = pump.clock.event()
        self.clock = pump.clock
        self.began_at = self.clock()
        self.left_because = "session closed"  # if this end has left
        self.reconnects = 0  # how often its connection was lost and came back
        self._pump = pump
        self._on_request = on_request
        self._on_closed = on_closed
        self._on_called_off = on_called_off
        self._traffic = traffic or TrafficCounter(clock=self.clock)
        self._seat = seat  # of the memory that streams share; None: they share none
        # Lock order: this one, then the session's pump, then a stream's pump.
        self._lock = threading.Lock()
        self._pending: dict[int, PendingReply] = {}
        self._streams: dict[int, StreamPump] = {}
        self._received = 0  # by its streams, when the session's call was last lost (bytes)
        self._withdrawn = Remembered[int, str](_REMEMBERED)
        self._committed = Remembered[int, ReceivePump](_REPEATABLE)
        self._places = CallPlaces(config, peer_name, lanes)
        self.asking = pump.clock.condition()
        """Held while a place for a request is looked for and taken; before the other locks."""
        self._is_here = pump.clock.event()
        self._is_here.set()
        self._is_over = pump.clock.event()  # set last, once everybody has heard of the end
        self._workers = workers

    def start(self) -> None:
        """Begin to listen to the peer."""
        extra = noted("session began", peer=self.peer_name)
        logger.info("the session with %s began", self.peer_name, extra=extra)
        if self._workers is None:
            name = f"session-{self.peer_name}"
            threading.Thread(target=self._run, name=name, daemon=True).start()
            return
        events = Serial(self._workers, self._look)
        self._pump.on_event = events.wake
        events.wake()  # for what came before

    def leave(self, reason: str) -> None:
        """Say goodbye; it has ``closed`` once the peer has acknowledged that, or is given up."""
        self.left_because = reason
        with self._pump.locked() as (machine, now):
            machine.goodbye(reason, now=now)

    def close(self, reason: str, seconds: float = GOODBYE_SECONDS) -> None:
        """Say goodbye, and end after ``seconds`` without an answer."""
        self.leave(reason)
        self._is_over.wait(seconds)
        # No effect after an answer; without one it ends the session, so that nobody waits again.
        self._pump.abort(AbortCode.GOODBYE, reason)

    @property
    def is_leaving(self) -> bool:
        """Whether this end has sent a goodbye and waits for the answer."""
        with self._pump.locked() as (machine, _):
            return machine.is_leaving

    @property
    def is_ending(self) -> bool:
        """Whether it has ended, or is about to: then ``closed`` follows."""
        return self._pump.is_closed

    def abort(self, code: AbortCode, reason: str) -> None:
        """End for a fault."""
        self._pump.abort(code, reason)

    @property
    def is_disconnected(self) -> bool:
        """Whether the connection is lost and another is waited for."""
        with self._pump.locked() as (machine, _):
            return machine.is_disconnected

    def wait_here(self) -> None:
        """Wait while the session is away; it is here, or has ended, after that."""
        self._is_here.wait()

    @property
    def instance(self) -> str:
        """Server: names the client's process, whose next session has the same."""
        with self._pump.locked() as (machine, _):
            return machine.instance

    @property
    def damaged(self) -> int:
        """Frames of the session that arrived damaged, and cost their call (count)."""
        with self._pump.locked() as (machine, _):
            return machine.damaged

    def can_resume(self, hello: Hello) -> bool:
        """Server: whether ``hello`` asks to resume this session, and may."""
        with self._pump.locked() as (machine, _):
            return machine.can_resume(hello) and not machine.is_closed

    @property
    def is_asking(self) -> bool:
        """Whether a request of this end waits for its reply."""
        with self._lock:
            return bool(self._pending)

    @property
    def has_streams(self) -> bool:
        """Whether a model is offered, moves, or is about to."""
        return bool(self._offered())

    @property
    def has_place(self) -> bool:
        """Whether the peer takes another request; also once the session is over."""
        with self._pump.locked() as (machine, _):
            return machine.is_closed or machine.has_place

    @property
    def pump(self) -> Pump[SessionMachine]:
        """What a new call has to carry."""
        return self._pump

    def request(
        self,
        topic: str,
        *,
        attempt: Attempt = Attempt(),
        sends: int = 0,
        returns: int = 0,
        metadata: Mapping[str, str] = NO_ENTRIES,
        part: tuple[str, ...] = (),
        extents: tuple[Extent | None, Extent | None] = (None, None),
    ) -> PendingReply:
        """Ask the peer; the streams ``sends`` and ``returns`` (their numbers) were offered before.

        ``extents`` are the bytes of the two models that travel; None: all.

        Raises:
            LocalProtocolError: a fact or the topic is no text, or there is too much of it.
            StreamlinkError: why the session has ended.
        """
        require_sendable(metadata, part, topic)
        pending = PendingReply(self.clock)
        # Both until it is noted: a quick reply would find nothing that waits for it.
        with self._lock, self._pump.locked() as (machine, now):
            if self.error is not None:
                raise to_raise(self.error)
            pending.number = machine.request(
                topic,
                attempt=attempt,
                sends=sends,
                returns=returns,
                metadata=metadata,
                part=part,
                extents=extents,
                now=now,
            )
            self._pending[pending.number] = pending
        return pending

    def request_complete(self, pending: PendingReply) -> None:
        """The model of this request is whole at the peer: its processing clock starts."""
        with self._pump.locked() as (machine, now):
            machine.request_complete(pending.number, now=now)

    def reply_began(self, pending: PendingReply) -> None:
        """The first byte of the reply's model is here: its processing clock stops."""
        with self._pump.locked() as (machine, _):
            machine.reply_began(pending.number)

    def cancel(self, pending: PendingReply, reason: str) -> None:
        """Cancel a request of ours; the peer is notified."""
        with self._lock:
            self._pending.pop(pending.number, None)
        with self._pump.locked() as (machine, _):
            machine.cancel(pending.number, reason)
        pending.cancel()

    # --- answering ------------------------------------------------------------------

    def reply(
        self,
        request: Request,
        *,
        error: str = "",
        traceback: str = "",
        metadata: Mapping[str, str] = NO_ENTRIES,
    ) -> None:
        """Answer a request of the peer's.

        Raises:
            LocalProtocolError: a fact in ``metadata`` is no text, or there is too much of it.
        """
        require_sendable(metadata)
        with self._pump.locked() as (machine, _):
            if not machine.is_closed:
                machine.reply(
                    request.request_id, error=error, traceback=traceback, metadata=metadata
                )

    def report_progress(self, request: Request, counter: int) -> None:
        """Say that the work on a request of the peer's has moved."""
        with self._pump.locked() as (machine, _):
            if not machine.is_closed:
                machine.report_progress(request.request_id, counter)

    # --- streams --------------------------------------------------------------------

    def offer(self, pump: StreamPump) -> None:
        """Let the peer open this stream."""
        if self._seat is not None:
            # First: as soon as it is offered, a call may take it over and have credit promised.
            self._seat.take(pump)
        join_bandwidth(pump)
        with self._lock:
            # Under the lock that ``_end`` takes: the stream is ended there or here, never missed.
            is_over = self.closed.is_set()
            if not is_over:
                self._streams[pump.stream.stream_id] = pump
        self._traffic.begin(self.peer_name, pump)
        if is_over:
            pump.abort(AbortCode.SESSION_LOST, f"the session with {self.peer_name} has ended")

    def start_offer(self, pump: SendPump) -> None:
        """Give the peer ``open_timeout`` to open ``pump``'s stream, from when it is here on."""
        offers.start(self._pump, pump)

    def expect(self, pump: ReceivePump) -> None:
        """Give the peer ``open_timeout`` to open a stream of its own, from when it is here on."""
        offers.expect(self._pump, pump)

    def withdraw(self, pump: StreamPump) -> None:
        """Forget an ended stream, but for how it ended and a commit that may be repeated."""
        stream = pump.stream
        pump.leave_memory()
        with self._lock:
            self._streams.pop(stream.stream_id, None)
            self._withdrawn[stream.stream_id] = stream.ended_as
            if isinstance(pump, ReceivePump) and pump.stream.is_committed:
                self._committed[stream.stream_id] = pump

    def withdrawn(self, stream_id: int) -> str:
        """Return what a stream was that was withdrawn lately, and why it ended; or nothing."""
        with self._lock:
            return self._withdrawn.get(stream_id, "")

    def stream(self, stream_id: int) -> StreamPump | None:
        """Return the offered stream of that number, or one that was committed and withdrawn.

        The commit may have been lost with its call; then it is repeated.
        """
        with self._lock:
            return self._streams.get(stream_id) or self._committed.get(stream_id)

    def carry(
        self, stream_id: int, pump: StreamPump, cut: Callable[[], None], carrier: str = ""
    ) -> int:
        """Let a new call carry a stream of this session; returns the number that call goes by.

        Raises:
            ProtocolError: too many other streams of this session have a call already.
        """
        with self._lock:
            self._places.take(stream_id, self._streams.keys())
        # We may see a break that the client, which has to come back, hears of only by silence.
        timeouts = self.config.timeouts
        extra = extra_grace_seconds(timeouts, timeouts.session_timeout)
        with pump.locked() as (machine, _):
            machine.extra_grace_seconds = extra
        # Without the lock: this cuts the call before, and that may call ``carried`` at once.
        call = pump.attach(cut, carrier=carrier)
        with self._lock:
            self._places.took(stream_id, call)
        return call

    def carry_lane(
        self, stream_id: int, pump: StreamPump, cut: Callable[[], None], carrier: str = ""
    ) -> int:
        """Let one more call carry a stream, beside those that do; see ``carry``.

        Raises:
            ProtocolError: the stream, the session or the server has as many as it may; or none
                carries the stream, so that it has to be resumed first.
        """
        with self._lock:
            with self._places.taking_lane(stream_id, pump.calls):
                # Within the lock, unlike ``carry``: this cuts no other call.
                call = pump.attach(cut, is_lane=True, carrier=carrier)
            self._places.took_lane(stream_id, call)
        return call

    def carried(self, stream_id: int, call: int) -> None:
        """Note that a call has ended."""
        with self._lock:
            self._places.free(stream_id, call)

    # --- the peer ---------------------------------------------------------------------

    def _run(self) -> None:
        while not self.closed.is_set():
            self._take(self._pump.poll())

    def _look(self) -> None:
        """Handle the events that there are, in a worker."""
        has_more = True
        while has_more and not self.closed.is_set():
            try:
                has_more = self._take(self._pump.poll(0.0))
            except Exception:  # of the owner's code: the end of the session is still to be seen
                logger.exception("an event of %s could not be handled", self.peer_name)

    def _take(self, event: Event | None) -> bool:
        """Handle an event, or the end where there is none; returns whether there was one."""
        if event is not None:
            self._handle(event)
            return True
        # Both in one look: the end may have brought an event after the poll.
        with self._pump.locked() as (machine, _):
            is_closed = machine.is_closed and not machine.has_events
        if is_closed:
            self._end(StreamAborted(AbortCode.GOODBYE, self.left_because, by_peer=False))
        return False

    def _handle(self, event: Event) -> None:
        match event:
            case ReplyReceived(reply):
                self._settle(reply.request_id, reply)
            case RequestFailed(number, error):
                self._settle(number, error)
            case RequestReceived(request) if self._on_request is not None:
                self._hand_over(self._on_request, request)
            case RequestReceived(request):
                fault = f"requests of topic {request.topic!r} are not answered here"
                self.reply(request, error=fault)
            case RequestCancelled(number, reason) if self._on_called_off is not None:
                self._on_called_off(self, number, reason)
            case Disconnected(reason, patience):
                self._is_here.clear()
                offers.pause(self._offered())
                self._note_streams()
                logger.warning(
                    "connection to %s lost (%s); waiting for another for up to %g s",
                    self.peer_name,
                    reason,
                    round(patience, 1),
                    extra=noted("session lost", peer=self.peer_name, reason=reason),
                )
            case Reconnected(seconds):
                self.reconnects += 1
                offers.renew(self._offered())
                self._is_here.set()
                extra = noted("session back", peer=self.peer_name, seconds=round(seconds, 3))
                logger.info("%s is back after %.1f s", self.peer_name, seconds, extra=extra)
            case Failed(error):
                self._end(error)
            case PeerLeft(reason):
                self._end(
                    StreamAborted(AbortCode.GOODBYE, reason, by_peer=True, who=self.peer_name)
                )

    def _hand_over(self, serve: Callable[[Session, Request], None], request: Request) -> None:
        try:
            serve(self, request)
        except Exception as error:
            # Such as no thread left to serve it. This thread goes on: else nobody would notice the
            # end of the session.
            logger.exception("request %r of %s failed", request.topic, self.peer_name)
            with suppress(LocalProtocolError):  # it was answered before that
                self.reply(request, error=f"it cannot be served: {type(error).__name__}: {error}")

    def _note_streams(self) -> None:
        """Tell the session where its streams have moved: breaks may follow faster than beats."""
        with self._lock:
            received = sum(pump.stream.received for pump in self._streams.values())
            has_moved, self._received = received > self._received, received
        if has_moved:
            with self._pump.locked() as (machine, now):
                machine.note_stream_progress(now=now)

    def _offered(self) -> list[StreamPump]:
        with self._lock:
            return list(self._streams.values())

    def _settle(self, number: int, outcome: Reply | StreamlinkError) -> None:
        with self._lock:
            pending = self._pending.pop(number, None)
        # A cancelled future takes no result any more.
        if pending is None or not pending.set_running_or_notify_cancel():
            return
        if isinstance(outcome, Reply):
            pending.set_result(outcome)
        else:
            pending.set_exception(to_raise(outcome))  # each waiter raises its own

    def _end(self, error: StreamlinkError) -> None:
        with self._lock:
            self.error = error
            self.closed.set()
            self._is_here.set()
            numbers, streams = list(self._pending), list(self._streams.values())
            self._streams.clear()
            self._committed.clear()
        # Without the lock from here on: callbacks of a future run in this thread, and may ask.
        for number in numbers:
            self._settle(number, error)
        is_goodbye = error.code is AbortCode.GOODBYE
        why = error.reason if isinstance(error, StreamAborted) and not is_goodbye else str(error)
        extra = noted("session ended", peer=self.peer_name, reason=why)
        logger.info("the session with %s ended: %s", self.peer_name, why, extra=extra)
        for stream in streams:
            stream.abort(AbortCode.SESSION_LOST, f"the session with {self.peer_name} ended: {why}")
        if self._seat is not None:
            self._seat.vacate()
        try:
            if self._on_closed is not None:
                self._on_closed(self)
        finally:
            self._pump.on_event = None  # else the two would keep each other until a collection
            self._is_over.set()
