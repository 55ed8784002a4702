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
from streamlink.errors import AbortCode, AddressInUse, ProtocolError, StreamlinkError
from streamlink.protocol import frames as f
from streamlink.protocol.events import Failed, Greeted, Left
from streamlink.protocol.session import SessionMachine
from streamlink.transport import messages
from streamlink.transport.grpc_options import channel_options
from streamlink.transport.pump import Pump, Ticker
from streamlink.transport.session import Session, StreamPump

logger = logging.getLogger("streamlink.server")

SERVICE = "streamlink.v1.Streamlink"
STREAMS_PER_SESSION = 4
"""Transfer calls one session may have open: two of this attempt, two ending of the one before."""


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
        self._admitted = 0
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
        for session in self.sessions:
            if has_failed:
                session.abort(AbortCode.CANCELLED, reason)
            else:
                session.close(reason)
        self._server.stop(grace=1).wait(timeout=5)
        self.ticker.close()

    # --- listening --------------------------------------------------------------------

    def _listen(self, address: str) -> tuple[grpc.Server, int]:
        # A synchronous call keeps its worker: fewer workers than admitted calls are a deadlock.
        calls = self.config.grpc.max_clients * (1 + STREAMS_PER_SESSION) + 2
        pool = ThreadPoolExecutor(max_workers=calls, thread_name_prefix="streamlink-grpc")
        options: list[tuple[str, Any]] = channel_options(self.config.grpc)
        options.append(("grpc.so_reuseport", 0))  # else a second server would share the port
        server = grpc.server(pool, options=options, maximum_concurrent_rpcs=calls)
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
        machine = SessionMachine(self.config, peer=context.peer())
        pump: Pump[SessionMachine] = Pump(machine)
        call = pump.attach(context.cancel)
        self.ticker.add(pump)
        reader = _Reader(pump, call, (messages.decode_session(raw) for raw in requests))
        context.add_callback(lambda: pump.detach(call))
        reader.start()
        threading.Thread(target=self._greet, args=(pump,), name="greet", daemon=True).start()
        for frame in pump.outgoing(call):
            yield messages.encode_session(frame)  # type: ignore[arg-type]

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
        if not hello.name or len(hello.name) > 128 or not hello.name.isprintable():
            raise _refusal(f"{hello.name!r} is no name: use 1 to 128 printable characters")
        if any(session.peer == hello.name for session in self._sessions.values()):
            raise _refusal(f"a client named {hello.name!r} is already here; names must differ")
        if len(self._sessions) >= self.config.grpc.max_clients:
            raise _refusal(
                f"the server is full: {len(self._sessions)} of max_clients="
                f"{self.config.grpc.max_clients} sessions are taken"
            )

    def _forget(self, session: Session) -> None:
        with self._lock:
            self._sessions.pop(session.session_id, None)
        if self._on_closed is not None:
            self._on_closed(session)

    # --- transfers ------------------------------------------------------------------------

    def _transfer_call(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        silence = threading.Timer(self.config.timeouts.open_timeout, context.cancel)
        silence.daemon = True
        silence.start()  # a call that names no stream must not keep its worker
        try:
            stream_id, pump = self._stream_for(next(requests, b""))
        except StreamlinkError as error:
            code = getattr(error, "code", AbortCode.PROTOCOL_ERROR)
            yield messages.encode_transfer(f.Abort(code, str(error)), 0)
            return
        finally:
            silence.cancel()
        call = pump.attach(context.cancel)
        context.add_callback(lambda: pump.detach(call))
        _Reader(pump, call, self._decoded(requests, stream_id)).start()
        for frame in pump.outgoing(call):
            raw = messages.encode_transfer(frame, stream_id)  # type: ignore[arg-type]
            self.wire.add(sent=len(raw))
            yield raw

    def _decoded(self, requests: Iterator[bytes], stream_id: int) -> Iterator[f.Frame]:
        for raw in requests:
            self.wire.add(received=len(raw))
            yield messages.decode_transfer(raw, stream_id)

    def _stream_for(self, raw: bytes) -> tuple[int, StreamPump]:
        attach = messages.decode_transfer(raw, 0)
        if not isinstance(attach, f.Attach):
            raise ProtocolError("a transfer begins with attach")
        with self._lock:
            session = self._sessions.get(attach.session_id)
        pump = session.stream(attach.stream_id) if session else None
        if session is None or pump is None:
            was = session.withdrawn(attach.stream_id) if session else ""
            what = f"was the {was}, which is over" if was else "was never offered"
            error = ProtocolError(what, stream_id=attach.stream_id)
            error.code = AbortCode.STALE_ATTEMPT if was else AbortCode.UNKNOWN_STREAM
            raise error
        return attach.stream_id, pump


class _Reader(threading.Thread):
    """Feeds a pump from one call. Ends when the call does."""

    def __init__(self, pump: Any, call: int, frames: Iterator[f.Frame]) -> None:
        super().__init__(name=f"read-{call}", daemon=True)
        self._pump, self._call, self._frames = pump, call, frames

    def run(self) -> None:
        try:
            self._pump.incoming(self._frames, self._call)
        except StreamlinkError as error:
            self._pump.abort(getattr(error, "code", AbortCode.PROTOCOL_ERROR), str(error))
        except Exception as error:  # gRPC ends a broken call's iterator with a bare Exception
            logger.debug("call %d ended: %r", self._call, error)
        self._pump.detach(self._call)


def agreed(config: LinkConfig, chunk_bytes: int) -> LinkConfig:
    """Return ``config`` with the chunk size both sides agreed on."""
    stream = config.stream.model_copy(update={"chunk_bytes": chunk_bytes})
    return config.model_copy(update={"stream": stream})


def _refusal(what: str) -> ProtocolError:
    error = ProtocolError(what)
    error.code = AbortCode.REFUSED
    return error
