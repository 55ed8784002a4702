"""The server's gRPC shell: admits sessions, and joins each transfer call to the stream it names."""

from __future__ import annotations

import itertools
import logging
import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import grpc

from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    AddressInUse,
    ProtocolError,
    RemoteProtocolError,
    StreamAborted,
    StreamlinkError,
    TransportClosed,
    code_of,
)
from streamlink.protocol import frames as f
from streamlink.protocol.events import Failed, Greeted, Left
from streamlink.protocol.session import SessionMachine
from streamlink.transport.addresses import is_answered, is_unix
from streamlink.transport.budget import budget_for
from streamlink.transport.damage import DamagedFrame
from streamlink.transport.driver import Pump
from streamlink.transport.farewell import Farewell, leave, superseded
from streamlink.transport.grpc import health
from streamlink.transport.grpc.credentials import certified_names, server_credentials
from streamlink.transport.grpc.options import server_options
from streamlink.transport.grpc.strangers import Strangers
from streamlink.transport.identity import Guard
from streamlink.transport.lobby import Lobby
from streamlink.transport.session import Session, StreamPump
from streamlink.transport.sparing import Sparing
from streamlink.transport.ticker import Ticker
from streamlink.transport.traffic import Traffic, WireCount
from streamlink.transport.wire import SessionWire, TransferWire

logger = logging.getLogger("streamlink.server")

T = TypeVar("T")

SERVICE = "streamlink.v1.Streamlink"
STREAMS_PER_SESSION = 4
"""Streams of one session that may have a call: two of this attempt, two ending of the one before.
"""

_LAST_WORDS_SECONDS = 1.0  # what the end of a call that was given up may take to leave
_ANSWER_SECONDS = 5.0  # what a call that is refused may take to hear it
_UNKNOWN = f.Abort(AbortCode.SESSION_LOST, "this server does not know this session")
_REMEMBERED = 256  # sessions that ended, so that who comes back is told why


class GrpcServer:
    """Listens, greets, and carries. ``on_session`` is called once for each greeted client."""

    def __init__(
        self,
        address: str,
        config: LinkConfig,
        *,
        on_session: Callable[[Session], None] | None = None,
        on_closed: Callable[[Session], None] | None = None,
        on_request: Callable[[Session, f.Request], None] | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        self.config = config
        self._guard = Guard(config.security)
        self._log = Sparing(logger)  # for what strangers can cause as often as they like
        self._budget = budget_for(config)
        self._strangers = Strangers(
            most=self._budget.strangers,
            seconds=config.timeouts.open_timeout,
            has_tls=config.security.certificate is not None,
            log=self._log,
        )
        self._credentials = server_credentials(address, config.security, self._strangers.announce)
        self.epoch = secrets.token_hex(8)
        self.ticker = Ticker()
        self.wire = WireCount()
        self.traffic = traffic or Traffic(config.grpc.max_clients)
        self.barred: dict[str, str] = {}
        """Names of which no client is let in, and why; changed by ``bar`` and ``readmit`` only."""
        self._on_session = on_session
        self._on_closed = on_closed
        self._on_request = on_request
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}
        self._ended: dict[str, f.Abort] = {}
        self._farewell = Farewell()
        self._closing: StreamAborted | None = None
        """What who comes now is told; None: it is let in."""
        self._lobby = Lobby(config.limits.max_silent_calls)
        self._pool = ThreadPoolExecutor(self._calls, thread_name_prefix="streamlink-grpc")
        self._server, self.port = self._listen(address)
        self._strangers.start(self.port)

    @property
    def sessions(self) -> list[Session]:
        """The clients that are here, by name."""
        with self._lock:
            return sorted(self._sessions.values(), key=lambda session: session.peer)

    def new_stream_id(self) -> int:
        """Return a number no stream of this server has had."""
        return next(self._ids)

    def bar(self, name: str, reason: str) -> None:
        """End the session of the client called ``name``, and let none of that name in."""
        with self._lock:
            self.barred = {**self.barred, name: reason}
            known = [each for each in self._sessions.values() if each.peer == name]
        for session in known:
            session.abort(AbortCode.CANCELLED, reason)

    def readmit(self, name: str) -> None:
        """Let clients of that name in again; harmless where they were not barred."""
        with self._lock:
            self.barred = {each: why for each, why in self.barred.items() if each != name}

    def close(self, reason: str = "the server is closing", *, has_failed: bool = False) -> None:
        """Say goodbye to every client, or tell it of the failure, and stop listening."""
        with self._lock:
            code = AbortCode.REFUSED if has_failed else AbortCode.GOODBYE
            self._closing = StreamAborted(code, reason, by_peer=False)
        try:
            longest = self.config.timeouts.reconnect_timeout
            if has_failed:
                self._farewell.abort(self.sessions, reason, longest)
            else:
                leave(self.sessions, reason, longest)
        finally:
            self._stop(reason)

    def _stop(self, reason: str) -> None:
        self._server.stop(grace=1).wait(timeout=5)
        self._strangers.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
        for session in self.sessions:  # nothing may wait for a client once the clocks have stopped
            session.abort(AbortCode.CANCELLED, reason)
        self.ticker.close()

    @property
    def _calls(self) -> int:
        """Calls that may be open at once.

        A synchronous call keeps its worker: fewer workers than admitted calls are a deadlock. A
        session may have two, while the old one is not yet known to be dead.
        """
        known = self.config.grpc.max_clients * (2 + STREAMS_PER_SESSION)
        return known + self.config.limits.max_silent_calls + 2

    # --- listening --------------------------------------------------------------------

    def _listen(self, address: str) -> tuple[grpc.Server, int]:
        options = server_options(self.config, self._budget.connections)
        server = grpc.server(self._pool, options=options, maximum_concurrent_rpcs=self._calls)
        server.add_generic_rpc_handlers((self._handlers(), self._health_handlers()))
        try:
            if is_answered(address):
                raise RuntimeError("another process answers there")
            if self._credentials is None:
                port = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, self._credentials)
        except RuntimeError as error:
            self.ticker.close()
            raise AddressInUse(
                f"cannot listen on {address}; is another server running there, or is the address "
                "not this machine's?"
            ) from error
        server.start()
        return server, 0 if is_unix(address) else port

    def _handlers(self) -> Any:
        # No serialisers: frames stay bytes, so that a chunk is not copied by protobuf.
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Session": grpc.stream_stream_rpc_method_handler(self._session_call),
                "Transfer": grpc.stream_stream_rpc_method_handler(self._transfer_call),
            },
        )

    def _health_handlers(self) -> Any:
        # Not as one of one message: gRPC would keep a worker until that comes.
        check = grpc.stream_stream_rpc_method_handler(self._check_call)
        return grpc.method_handlers_generic_handler(health.SERVICE, {"Check": check})

    def _check_call(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """Say whether this server admits clients. One that is full does: its clients come back."""
        self._strangers.called(context.peer())
        try:
            with self._lobby.waiting(context.cancel):
                request = self._first(requests, context, bytes)
            service = health.service_in(request)
        except (StreamlinkError, ValueError) as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        if service not in ("", SERVICE):
            context.abort(grpc.StatusCode.NOT_FOUND, f"there is no service {service!r} here")
        answer = health.SERVING if self._closing is None else health.NOT_SERVING
        yield from _only_answer(answer, context)

    # --- sessions -----------------------------------------------------------------------

    def _session_call(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        wire = SessionWire()
        self._strangers.called(context.peer())
        try:
            with self._lobby.waiting(context.cancel):
                first = self._first(requests, context, wire.decode)
            self._check_greeting(first, context)
            pump, known = self._pump_for(first)
        except DamagedFrame as damage:
            _give_up(context, damage, self._log)
            return
        except StreamlinkError as error:
            yield from _only_answer(wire.encode(_abort_for(error)), context)
            return
        call = pump.attach(context.cancel)
        self.ticker.add(pump)
        _Reader(pump, call, requests, wire.decode, context, first=(first,)).start()
        if known:
            self._strangers.vouch(context.peer())
        else:
            who = (pump, context.peer())
            threading.Thread(target=self._greet, args=who, name="greet", daemon=True).start()
        for frame in pump.outgoing(call):
            yield wire.encode(frame)
        _end_call(context, pump)

    def _check_greeting(self, first: f.Frame, context: Any) -> None:
        try:
            self._guard.check_greeting(first, certified_names(context))
        except StreamAborted as error:
            name = first.name if isinstance(first, f.Hello) else "a client"
            self._log.warning("refused %.130r at %s: %.500s", name, context.peer(), error.reason)
            raise

    def _pump_for(self, first: f.Frame) -> tuple[Pump[SessionMachine], bool]:
        """Return what a session call carries, and whether it is a session that goes on.

        Raises:
            StreamAborted: the session it asks to go on with is not, or no longer, here.
        """
        if not isinstance(first, f.Hello) or not first.resume:
            return Pump(SessionMachine(self.config, peer="a client")), False
        with self._lock:
            session = self._sessions.get(first.resume)
            ended = self._ended.get(first.resume, _UNKNOWN)
        if session is not None and session.goes_on_with(first):
            return session.pump, True
        self._farewell.told(first.resume)
        self._log.warning("%.130r cannot go on with its session: %.500s", first.name, ended.reason)
        raise StreamAborted(ended.code, ended.reason, by_peer=False)

    def _greet(self, pump: Pump[SessionMachine], address: str) -> None:
        event = None
        while not isinstance(event, Greeted | Failed | Left):
            event = pump.poll()
        if not isinstance(event, Greeted):
            self._log.warning("a client did not greet: %.500s", event)
            return
        try:
            self._admit(pump, event.hello)
            self._strangers.vouch(address)
        except (ProtocolError, StreamAborted) as error:
            abort = _abort_for(error)
            self._log.warning("refused %.130r: %.500s", event.hello.name, abort.reason)
            pump.abort(abort.code, abort.reason)

    def _admit(self, pump: Pump[SessionMachine], hello: f.Hello) -> None:
        session_id = secrets.token_hex(16)
        with self._lock:
            self._check_admission(hello)
            with pump.locked() as (machine, now):
                welcome = machine.welcome(session_id, self.epoch, now=now)
            session = Session(
                pump,
                session_id=session_id,
                peer=hello.name,
                config=agreed(self.config, welcome.chunk_bytes),
                on_request=self._on_request,
                on_closed=self._forget,
                traffic=self.traffic,
            )
            self._sessions[session_id] = session
            session.start()  # before anybody who finds it may close it
        if self._on_session is not None:
            self._on_session(session)

    def _check_admission(self, hello: f.Hello) -> None:
        """Decide on a client that wants a new session.

        One of the same name that is away is superseded: its process was started again, or has given
        its session up. One that is here is not: the later of two clients of one name is told so,
        and may try again.
        """
        if not hello.name or len(hello.name) > 128 or not hello.name.isprintable():
            raise _refusal(f"{hello.name[:130]!r} is no name: use 1 to 128 printable characters")
        if self._closing is not None:
            self._wait_no_more(hello.name)
            raise self._closing
        if (why := self.barred.get(hello.name)) is not None:
            raise ProtocolError(why, code=AbortCode.CANCELLED)  # no refusal: it need not try again
        for session in list(self._sessions.values()):
            if session.peer == hello.name and not session.closed.is_set():
                # The same process greets anew where it has not heard its welcome, or for too long
                # nothing else.
                if not (session.is_away or session.is_leaving or session.is_of(hello)):
                    what = f"a client named {hello.name!r} is already here; names must differ"
                    raise ProtocolError(what, code=AbortCode.NAME_TAKEN)
                session.abort(*superseded(session, hello))
                del self._sessions[session.session_id]
        if len(self._sessions) >= self.config.grpc.max_clients:
            raise _refusal(
                f"the server is full: {len(self._sessions)} of max_clients="
                f"{self.config.grpc.max_clients} sessions are taken"
            )

    def _wait_no_more(self, name: str) -> None:
        """End the sessions that ``name`` has lost: it is told now that all is over."""
        for session in self._sessions.values():
            if session.peer == name and session.is_away:
                session.abort(AbortCode.GOODBYE, "its client has begun another session")

    def _forget(self, session: Session) -> None:
        with self._lock:
            self._sessions.pop(session.session_id, None)
            if session.error is not None:
                self._ended[session.session_id] = _abort_for(session.error)
            while len(self._ended) > _REMEMBERED:
                del self._ended[next(iter(self._ended))]
        if self._on_closed is not None:
            self._on_closed(session)

    # --- transfers ------------------------------------------------------------------------

    def _transfer_call(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        wire = TransferWire(0)
        self._strangers.called(context.peer())
        try:
            with self._lobby.waiting(context.cancel):
                first = self._first(requests, context, wire.decode)
            wire = TransferWire(first.stream_id if isinstance(first, f.Attach) else 0, heard=1)
            session, stream_id, pump = self._stream_for(first, context)
            self._strangers.vouch(context.peer())
            call = session.carry(stream_id, pump, context.cancel, STREAMS_PER_SESSION)
        except DamagedFrame as damage:
            _give_up(context, damage, self._log)
            return
        except StreamlinkError as error:
            yield from _only_answer(wire.encode(_abort_for(error)), context)
            return

        def decode(raw: bytes) -> f.Frame:
            self.wire.add(received=len(raw))
            return wire.decode(raw)

        self.ticker.add(pump)  # again, where it was over: it may have a commit to repeat
        _Reader(
            pump,
            call,
            requests,
            decode,
            context,
            then=lambda: session.carried(stream_id, call),
        ).start()
        for frame in pump.outgoing(call):
            raw = wire.encode(frame)
            self.wire.add(sent=len(raw))
            yield raw
        _end_call(context, pump)

    def _first(self, requests: Iterator[bytes], context: Any, decode: Callable[[bytes], T]) -> T:
        """Return the first frame of a call; one that brings none must not keep its worker.

        Raises:
            DamagedFrame: it is not what was sent.
            StreamlinkError: the call ended without, or it is no frame.
        """
        silence = _start_timer(self.config.timeouts.open_timeout, context.cancel)
        try:
            return decode(next(requests))
        except StopIteration:
            raise RemoteProtocolError("a call ended that had said nothing") from None
        except (StreamlinkError, DamagedFrame):
            raise
        except Exception as error:  # gRPC ends a broken call's iterator with a bare Exception
            raise TransportClosed("a call broke before it said anything") from error
        finally:
            silence.cancel()

    def _stream_for(self, attach: f.Frame, context: Any) -> tuple[Session, int, StreamPump]:
        if not isinstance(attach, f.Attach):
            raise ProtocolError("a transfer begins with attach")
        with self._lock:
            session = self._sessions.get(attach.session_id)
            ended = self._ended.get(attach.session_id, _UNKNOWN)
        if session is None:
            raise StreamAborted(AbortCode.SESSION_LOST, ended.reason, by_peer=False)
        self._guard.check_name(session.peer, certified_names(context))
        pump = session.stream(attach.stream_id)
        if pump is None:
            was = session.withdrawn(attach.stream_id)
            code = AbortCode.STALE_ATTEMPT if was else AbortCode.UNKNOWN_STREAM
            what = f"was the {was}, which is over" if was else "was never offered"
            raise ProtocolError(what, stream_id=attach.stream_id, code=code)
        return session, attach.stream_id, pump


class _Reader(threading.Thread):
    """Feeds a pump from one call. Ends when the call does."""

    def __init__(
        self,
        pump: Any,
        call: int,
        raws: Iterator[bytes],
        decode: Callable[[bytes], f.Frame],
        context: Any,
        *,
        first: tuple[f.Frame, ...] = (),
        then: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(name=f"read-{call}", daemon=True)
        self._pump, self._call, self._raws, self._decode = pump, call, raws, decode
        # Not `_context`: since Python 3.14 that is a thread's own, and it could not start.
        self._grpc_context, self._first, self._then = context, first, then
        if not context.add_callback(self._over):  # it has ended already
            self._over()

    def run(self) -> None:
        try:
            self._pump.incoming(self._first, self._call)
            if self._pump.read(self._raws, self._call, self._decode):
                # Its writer, which ends it in words, may be stuck in a connection that is damaged.
                _start_timer(_LAST_WORDS_SECONDS, self._grpc_context.cancel)
        except Exception as error:  # gRPC ends a broken call's iterator with a bare Exception
            logger.debug("call %d ended: %r", self._call, error)
        self._pump.detach(self._call)

    def _over(self) -> None:
        self._pump.detach(self._call)
        self._then()


def agreed(config: LinkConfig, chunk_bytes: int) -> LinkConfig:
    """Return ``config`` with the chunk size both sides agreed on."""
    stream = config.stream.model_copy(update={"chunk_bytes": chunk_bytes})
    return config.model_copy(update={"stream": stream})


def _end_call(context: Any, pump: Pump[Any]) -> None:
    """Let a call end well only where what it carried has ended: else the client may go on."""
    if not pump.is_closed:
        context.set_code(grpc.StatusCode.UNAVAILABLE)
        context.set_details("another call took over, or this one was given up")


def _only_answer(raw: bytes, context: Any) -> Iterator[bytes]:
    """Say all that is said on a call; one who does not read it must not keep its worker."""
    unread = _start_timer(_ANSWER_SECONDS, context.cancel)
    try:
        yield raw
    finally:
        unread.cancel()


def _give_up(context: Any, damage: DamagedFrame, log: Sparing) -> None:
    """End a call whose first frame is damaged: the client will open another."""
    log.warning("%s began a call that was damaged on the way, %s", context.peer(), damage)
    context.set_code(grpc.StatusCode.UNAVAILABLE)
    context.set_details("its first frame arrived damaged")


def _start_timer(seconds: float, action: Callable[[], object]) -> threading.Timer:
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()
    return timer


def _abort_for(error: StreamlinkError) -> f.Abort:
    """Return what a call is told that is not taken; a session's own end in its own words."""
    reason = error.reason if isinstance(error, StreamAborted) else str(error)
    return f.Abort(code_of(error), reason)


def _refusal(what: str) -> ProtocolError:
    return ProtocolError(what, code=AbortCode.REFUSED)
