"""The server's gRPC shell: admits sessions, and joins each transfer call to the stream it names."""

from __future__ import annotations

import itertools
import logging
import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

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
)
from streamlink.protocol import frames as f
from streamlink.protocol.events import Failed, Greeted, Left
from streamlink.protocol.session import SessionMachine
from streamlink.transport import messages
from streamlink.transport.driver import Pump
from streamlink.transport.grpc_options import channel_options
from streamlink.transport.session import Session, StreamPump
from streamlink.transport.ticker import Ticker

logger = logging.getLogger("streamlink.server")

SERVICE = "streamlink.v1.Streamlink"
STREAMS_PER_SESSION = 4
"""Streams of one session that may have a call: two of this attempt, two ending of the one before.
"""

_REMEMBERED = 256  # sessions that ended, so that who comes back is told why


class WireCount:
    """Bytes of the transfers' gRPC messages, both ways, since the server began."""

    def __init__(self) -> None:
        self.sent = self.received = 0
        self._lock = threading.Lock()

    def add(self, *, sent: int = 0, received: int = 0) -> None:
        """Count one message."""
        with self._lock:
            self.sent += sent
            self.received += received


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
    ) -> None:
        self.config = config
        self.epoch = secrets.token_hex(8)
        self.ticker = Ticker()
        self.wire = WireCount()
        self._on_session = on_session
        self._on_closed = on_closed
        self._on_request = on_request
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}
        self._ended: dict[str, str] = {}
        self._is_closing = False
        self._pool = ThreadPoolExecutor(self._calls, thread_name_prefix="streamlink-grpc")
        self._server, self.port = self._listen(address)

    @property
    def sessions(self) -> list[Session]:
        """The clients that are here, by name."""
        with self._lock:
            return sorted(self._sessions.values(), key=lambda session: session.peer)

    def new_stream_id(self) -> int:
        """Return a number no stream of this server has had."""
        return next(self._ids)

    def close(self, reason: str = "the server is closing", *, has_failed: bool = False) -> None:
        """Say goodbye to every client, or tell it of the failure, and stop listening."""
        with self._lock:
            self._is_closing = True
        for session in self.sessions:
            if has_failed:
                session.abort(AbortCode.CANCELLED, reason)
            else:
                session.close(reason)
        self._server.stop(grace=1).wait(timeout=5)
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
        return self.config.grpc.max_clients * (2 + STREAMS_PER_SESSION) + 2

    # --- listening --------------------------------------------------------------------

    def _listen(self, address: str) -> tuple[grpc.Server, int]:
        options: list[tuple[str, Any]] = channel_options(self.config.grpc)
        options.append(("grpc.so_reuseport", 0))  # else a second server would share the port
        server = grpc.server(self._pool, options=options, maximum_concurrent_rpcs=self._calls)
        server.add_generic_rpc_handlers((self._handlers(),))
        try:
            port = server.add_insecure_port(address)
        except RuntimeError as error:
            self.ticker.close()
            raise AddressInUse(
                f"cannot listen on {address}; is another server running there, or is the address "
                "not this machine's?"
            ) from error
        server.start()
        return server, port

    def _handlers(self) -> Any:
        # No serialisers: frames stay bytes, so that a chunk is not copied by protobuf.
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Session": grpc.stream_stream_rpc_method_handler(self._session_call),
                "Transfer": grpc.stream_stream_rpc_method_handler(self._transfer_call),
            },
        )

    # --- sessions -----------------------------------------------------------------------

    def _session_call(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        try:
            first = self._first(requests, context, messages.decode_session)
            pump, known = self._pump_for(first)
        except StreamlinkError as error:
            yield messages.encode_session(_abort_for(error))
            return
        call = pump.attach(context.cancel)
        self.ticker.add(pump)
        frames = (messages.decode_session(raw) for raw in requests)
        _Reader(pump, call, itertools.chain((first,), frames), context).start()
        if not known:
            threading.Thread(target=self._greet, args=(pump,), name="greet", daemon=True).start()
        for frame in pump.outgoing(call):
            yield messages.encode_session(frame)  # type: ignore[arg-type]
        _end_call(context, pump)

    def _pump_for(self, first: f.Frame) -> tuple[Pump[SessionMachine], bool]:
        """Return what a session call carries, and whether it is a session that goes on.

        Raises:
            StreamAborted: the session it asks to go on with is not, or no longer, here.
        """
        if not isinstance(first, f.Hello) or not first.resume:
            return Pump(SessionMachine(self.config, peer="a client")), False
        with self._lock:
            session = self._sessions.get(first.resume)
            why = self._ended.get(first.resume, "this server does not know the session")
        if session is not None and session.goes_on_with(first):
            return session.pump, True
        logger.info("%s cannot go on with its session: %s", first.name, why)
        raise StreamAborted(AbortCode.SESSION_LOST, why, by_peer=False)

    def _greet(self, pump: Pump[SessionMachine]) -> None:
        event = None
        while not isinstance(event, Greeted | Failed | Left):
            event = pump.poll()
        if not isinstance(event, Greeted):
            logger.warning("a client did not greet: %s", event)
            return
        try:
            self._admit(pump, event.hello)
        except ProtocolError as error:
            logger.warning("refused %s: %s", event.hello.name, error)
            pump.abort(error.code, str(error))

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
            )
            self._sessions[session_id] = session
            session.start()  # before anybody who finds it may close it
        if self._on_session is not None:
            self._on_session(session)

    def _check_admission(self, hello: f.Hello) -> None:
        """Decide on a client that wants a new session.

        One of the same name that is away is superseded: its process was started again. One that
        is here is not: two clients were given the same name, and the later is told so.
        """
        if not hello.name or len(hello.name) > 128 or not hello.name.isprintable():
            raise _refusal(f"{hello.name!r} is no name: use 1 to 128 printable characters")
        if self._is_closing:
            raise _refusal("the server is closing")
        for session in list(self._sessions.values()):
            if session.peer == hello.name and not session.closed.is_set():
                if not session.is_away:
                    raise _refusal(
                        f"a client named {hello.name!r} is already here; names must differ"
                    )
                session.abort(AbortCode.SESSION_LOST, f"{hello.name} came back as another process")
                del self._sessions[session.session_id]
        if len(self._sessions) >= self.config.grpc.max_clients:
            raise _refusal(
                f"the server is full: {len(self._sessions)} of max_clients="
                f"{self.config.grpc.max_clients} sessions are taken"
            )

    def _forget(self, session: Session) -> None:
        with self._lock:
            self._sessions.pop(session.session_id, None)
            error = session.error
            why = error.reason if isinstance(error, StreamAborted) else str(error)
            self._ended[session.session_id] = why
            while len(self._ended) > _REMEMBERED:
                del self._ended[next(iter(self._ended))]
        if self._on_closed is not None:
            self._on_closed(session)

    # --- transfers ------------------------------------------------------------------------

    def _transfer_call(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        try:
            first = self._first(requests, context, lambda raw: messages.decode_transfer(raw, 0))
            session, stream_id, pump = self._stream_for(first)
            call = session.carry(stream_id, pump, context.cancel, STREAMS_PER_SESSION)
        except StreamlinkError as error:
            yield messages.encode_transfer(_abort_for(error), 0)
            return
        self.ticker.add(pump)  # again, where it was over: it may have a commit to repeat
        _Reader(
            pump,
            call,
            self._decoded(requests, stream_id),
            context,
            then=lambda: session.carried(stream_id, call),
        ).start()
        for frame in pump.outgoing(call):
            raw = messages.encode_transfer(frame, stream_id)  # type: ignore[arg-type]
            self.wire.add(sent=len(raw))
            yield raw
        _end_call(context, pump)

    def _first(
        self, requests: Iterator[bytes], context: Any, decode: Callable[[bytes], f.Frame]
    ) -> f.Frame:
        """Return the first frame of a call; one that brings none must not keep its worker.

        Raises:
            StreamlinkError: the call ended without, or it is no frame.
        """
        silence = threading.Timer(self.config.timeouts.open_timeout, context.cancel)
        silence.daemon = True
        silence.start()
        try:
            return decode(next(requests))
        except StopIteration:
            raise RemoteProtocolError("a call ended that had said nothing") from None
        except StreamlinkError:
            raise
        except Exception as error:  # gRPC ends a broken call's iterator with a bare Exception
            raise TransportClosed("a call broke before it said anything") from error
        finally:
            silence.cancel()

    def _decoded(self, requests: Iterator[bytes], stream_id: int) -> Iterator[f.Frame]:
        for raw in requests:
            self.wire.add(received=len(raw))
            yield messages.decode_transfer(raw, stream_id)

    def _stream_for(self, attach: f.Frame) -> tuple[Session, int, StreamPump]:
        if not isinstance(attach, f.Attach):
            raise ProtocolError("a transfer begins with attach")
        with self._lock:
            session = self._sessions.get(attach.session_id)
            why = self._ended.get(attach.session_id, "this server does not know its session")
        if session is None:
            raise StreamAborted(AbortCode.SESSION_LOST, why, by_peer=False)
        pump = session.stream(attach.stream_id)
        if pump is None:
            was = session.withdrawn(attach.stream_id)
            code = AbortCode.STALE_ATTEMPT if was else AbortCode.UNKNOWN_STREAM
            what = f"was the {was}, which is over" if was else "was never offered"
            raise _coded(code, what, attach.stream_id)
        return session, attach.stream_id, pump


class _Reader(threading.Thread):
    """Feeds a pump from one call. Ends when the call does."""

    def __init__(
        self,
        pump: Any,
        call: int,
        frames: Iterator[f.Frame],
        context: Any,
        then: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(name=f"read-{call}", daemon=True)
        self._pump, self._call, self._frames, self._then = pump, call, frames, then
        if not context.add_callback(self._over):  # it has ended already
            self._over()

    def run(self) -> None:
        try:
            self._pump.incoming(self._frames, self._call)
        except StreamlinkError as error:
            self._pump.abort(getattr(error, "code", AbortCode.PROTOCOL_ERROR), str(error))
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


def _abort_for(error: StreamlinkError) -> f.Abort:
    """Return what a call is told that is not taken; a session's own end in its own words."""
    code = getattr(error, "code", AbortCode.PROTOCOL_ERROR)
    return f.Abort(code, error.reason if isinstance(error, StreamAborted) else str(error))


def _refusal(what: str) -> ProtocolError:
    return _coded(AbortCode.REFUSED, what)


def _coded(code: AbortCode, what: str, stream_id: int = 0) -> ProtocolError:
    error = ProtocolError(what, stream_id=stream_id)
    error.code = code
    return error
