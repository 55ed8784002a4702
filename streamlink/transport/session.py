"""``Session``: one peer, as its owner sees it: requests, replies, and the streams between the two.

A thread per session turns the machine's events into answers of ``PendingReply`` and calls of
``on_request``. What the session offered dies with it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from streamlink.config import LinkConfig
from streamlink.errors import AbortCode, StreamAborted, StreamlinkError
from streamlink.protocol.events import (
    Answered,
    Asked,
    CalledOff,
    Event,
    Failed,
    Left,
    RequestFailed,
)
from streamlink.protocol.frames import NO_ENTRIES, Attempt, Reply, Request
from streamlink.protocol.session import SessionMachine
from streamlink.transport.pump import Pump, ReceivePump, SendPump

logger = logging.getLogger("streamlink.session")

_REMEMBERED = 256  # withdrawn streams, so that a late call for one is refused by name

StreamPump = SendPump | ReceivePump


class PendingReply(Future[Reply]):
    """The answer to one request, once it is there."""

    number = 0


class Session:
    """A greeted session. ``config`` carries what was agreed, so its chunk size is both sides'."""

    def __init__(
        self,
        pump: Pump[SessionMachine],
        *,
        session_id: str,
        peer: str,
        config: LinkConfig,
        on_request: Callable[[Session, Request], None] | None = None,
        on_closed: Callable[[Session], None] | None = None,
        on_called_off: Callable[[int, str], None] | None = None,
    ) -> None:
        self.session_id = session_id
        self.peer = peer
        self.config = config
        self.error: StreamlinkError | None = None
        self.closed = threading.Event()
        self._left_because = "session closed"
        self._pump = pump
        self._on_request = on_request
        self._on_closed = on_closed
        self._on_called_off = on_called_off
        self._lock = threading.Lock()
        self._pending: dict[int, PendingReply] = {}
        self._streams: dict[int, StreamPump] = {}
        self._withdrawn: dict[int, str] = {}
        self._thread = threading.Thread(target=self._run, name=f"session-{peer}", daemon=True)

    def start(self) -> None:
        """Begin to listen to the peer."""
        self._thread.start()

    def close(self, reason: str) -> None:
        """Say goodbye and end."""
        self._left_because = reason
        with self._pump.locked() as (machine, _):
            machine.goodbye(reason)
        self._thread.join(timeout=5)

    def abort(self, code: AbortCode, reason: str) -> None:
        """End for a fault."""
        self._pump.abort(code, reason)

    # --- asking -------------------------------------------------------------------

    def request(
        self,
        topic: str,
        *,
        attempt: Attempt = Attempt(),
        sends: StreamPump | None = None,
        returns: StreamPump | None = None,
        metadata: Mapping[str, str] = NO_ENTRIES,
        part: tuple[str, ...] = (),
    ) -> PendingReply:
        """Ask the peer; streams that go with it were offered before."""
        pending = PendingReply()
        with self._lock, self._pump.locked() as (machine, now):
            pending.number = machine.request(
                topic,
                attempt=attempt,
                sends=sends.stream.stream_id if sends else 0,
                returns=returns.stream.stream_id if returns else 0,
                metadata=metadata,
                part=part,
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
        """Nobody wants this answer any more; the peer is told."""
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
        """Answer a request of the peer's."""
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
        with self._lock:
            is_over = self.closed.is_set()
            if not is_over:
                self._streams[pump.stream.stream_id] = pump
        if is_over:
            pump.abort(AbortCode.SESSION_LOST, f"the session with {self.peer} is over")

    def withdraw(self, pump: StreamPump) -> None:
        """Forget a stream that is over."""
        with self._lock:
            self._streams.pop(pump.stream.stream_id, None)
            self._withdrawn[pump.stream.stream_id] = pump.stream.name
            while len(self._withdrawn) > _REMEMBERED:
                del self._withdrawn[next(iter(self._withdrawn))]

    def withdrawn(self, stream_id: int) -> str:
        """Return the name of a stream that was withdrawn lately, or nothing."""
        with self._lock:
            return self._withdrawn.get(stream_id, "")

    def stream(self, stream_id: int) -> StreamPump | None:
        """Return the offered stream of that number."""
        with self._lock:
            return self._streams.get(stream_id)

    # --- the peer ---------------------------------------------------------------------

    def _run(self) -> None:
        while not self.closed.is_set():
            event = self._pump.poll()
            if event is not None:
                self._handle(event)
            else:
                with self._pump.locked() as (machine, _):
                    is_closed = machine.is_closed and not machine.has_events
                if is_closed:
                    self._end(self._own_goodbye())

    def _handle(self, event: Event) -> None:
        match event:
            case Answered(reply):
                self._settle(reply.request_id, reply)
            case RequestFailed(number, error):
                self._settle(number, error)
            case Asked(request) if self._on_request is not None:
                self._on_request(self, request)
            case Asked(request):
                self.reply(request, error=f"nobody here answers {request.topic!r}")
            case CalledOff(number, reason) if self._on_called_off is not None:
                self._on_called_off(number, reason)
            case Failed(error):
                self._end(error)
            case Left(reason):
                self._end(
                    StreamAborted(
                        AbortCode.SESSION_LOST, f"left: {reason}", by_peer=True, who=self.peer
                    )
                )

    def _own_goodbye(self) -> StreamAborted:
        return StreamAborted(AbortCode.CANCELLED, f"left: {self._left_because}", by_peer=False)

    def _settle(self, number: int, outcome: Reply | StreamlinkError) -> None:
        with self._lock:
            pending = self._pending.pop(number, None)
        if pending is None or not pending.set_running_or_notify_cancel():
            return
        if isinstance(outcome, Reply):
            pending.set_result(outcome)
        else:
            pending.set_exception(outcome)

    def _end(self, error: StreamlinkError) -> None:
        with self._lock:
            self.error = error
            self.closed.set()
            numbers, streams = list(self._pending), list(self._streams.values())
            self._streams.clear()
        for number in numbers:
            self._settle(number, error)
        why = error.reason if isinstance(error, StreamAborted) else str(error)
        for stream in streams:
            stream.abort(AbortCode.SESSION_LOST, f"the session with {self.peer} ended: {why}")
        if self._on_closed is not None:
            self._on_closed(self)
