"""The client's gRPC shell: one connection for the session, another for the transfers.

Each call has a thread that reads it, and opens it anew where it broke (``reconnect``). The
connections themselves are gRPC's: a call for which there is none fails at once, and is tried again.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any

import grpc

from streamlink.config import LinkConfig
from streamlink.errors import AbortCode, ConnectFailed, StreamAborted, StreamlinkError
from streamlink.protocol import frames as f
from streamlink.protocol.events import Failed, Left, Ready
from streamlink.protocol.greeting import VERSION_MAX, VERSION_MIN
from streamlink.protocol.session import SessionMachine
from streamlink.transport import messages
from streamlink.transport.driver import Pump
from streamlink.transport.grpc_options import client_options
from streamlink.transport.reconnect import keep_carried
from streamlink.transport.session import Session, StreamPump
from streamlink.transport.ticker import Ticker

logger = logging.getLogger("streamlink.client")

_METHOD = "/streamlink.v1.Streamlink/"
_LAST_WORDS_SECONDS = 1.0


class GrpcClient:
    """Connects, greets, and opens the transfers the server offered."""

    def __init__(self, address: str, config: LinkConfig, *, name: str, token: str = "") -> None:
        self.address = address
        self.config = config
        self.name = name
        self.ticker = Ticker()
        self._token = token
        self._is_closing = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._session_pump: Pump[SessionMachine] | None = None
        self._session_thread: threading.Thread | None = None
        self._session_line = _Line(self._channel)
        self._data_line = _Line(self._channel)

    def connect(
        self,
        on_request: Callable[[Session, f.Request], None],
        on_called_off: Callable[[int, str], None] | None = None,
    ) -> Session:
        """Reach the server, greet it and return the session.

        Raises:
            ConnectFailed: nobody answers within ``connect_timeout``.
            StreamAborted: the server refused us; its reason says why.
        """
        self._wait_until_ready()
        machine = SessionMachine(self.config, peer=f"server {self.address}", hello=self._hello())
        pump: Pump[SessionMachine] = Pump(machine)
        self._session_pump = pump
        call = _Call(pump, messages.encode_session, messages.decode_session)
        self._session_thread = self._keep(
            "Session", self._session_line, call, lambda: pump.is_closed, pump.wait_closed
        )
        self.ticker.add(pump)
        welcome = _wait_welcome(pump)
        stream = self.config.stream.model_copy(update={"chunk_bytes": welcome.chunk_bytes})
        session = Session(
            pump,
            session_id=welcome.session_id,
            peer=machine.peer,
            config=self.config.model_copy(update={"stream": stream}),
            on_request=on_request,
            on_called_off=on_called_off,
        )
        session.start()
        return session

    def open_transfer(self, session: Session, pump: StreamPump) -> None:
        """Open the call that carries ``pump``'s stream; its frames flow from now on.

        A call that breaks is opened again while the session lives, until both ends know how the
        stream has ended.
        """
        stream_id = pump.stream.stream_id
        attach = messages.encode_transfer(f.Attach(session.session_id, stream_id), stream_id)
        session.offer(pump)
        call = _Call(
            pump,
            lambda frame: messages.encode_transfer(frame, stream_id),
            lambda raw: messages.decode_transfer(raw, stream_id),
            first=attach,
            before=session.wait_here,
        )

        def is_over() -> bool:
            return call.is_over or session.closed.is_set()

        self._keep("Transfer", self._data_line, call, is_over, session.closed.wait)

    def close(self) -> None:
        """Drop both connections; a goodbye that was said may leave first."""
        self._is_closing.set()
        if self._session_pump is not None and self._session_thread is not None:
            # Nothing where a goodbye was said; else the server would wait for us to come back.
            self._session_pump.abort(AbortCode.CANCELLED, "the client is closing")
            self._session_thread.join(_LAST_WORDS_SECONDS)
        self._session_line.close()
        self._data_line.close()
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(_LAST_WORDS_SECONDS)
        self.ticker.close()

    # --- calls ------------------------------------------------------------------------

    def _keep(
        self,
        method: str,
        line: _Line,
        call: _Call,
        is_over: Callable[[], bool],
        pause: Callable[[float], object],
    ) -> threading.Thread:
        """Carry ``call.pump`` from now on, in a thread of its own, until ``is_over``."""

        def carry() -> bool:
            self.ticker.add(call.pump)  # its clocks run while it waits for a call, too
            has_moved = call.run(lambda: line.method(method), self.ticker.add)
            if call.was_cut and line is self._session_line:
                # Nothing was heard on it, and gRPC holds it for alive: the data's may be as dead.
                for each in (self._session_line, self._data_line):
                    each.renew()
            return has_moved

        def run() -> None:
            keep_carried(
                carry,
                is_over=lambda: is_over() or (self._is_closing.is_set() and call.pump.is_closed),
                pause=pause,
            )

        thread = threading.Thread(target=run, name=f"carry-{method}", daemon=True)
        with self._lock:
            self._threads = [one for one in self._threads if one.is_alive()]
            self._threads.append(thread)
            thread.start()
        return thread

    def _channel(self) -> grpc.Channel:
        return grpc.insecure_channel(self.address, options=client_options(self.config.grpc))

    def _wait_until_ready(self) -> None:
        seconds = self.config.timeouts.connect_timeout
        try:
            grpc.channel_ready_future(self._session_line.channel).result(timeout=seconds)
        except grpc.FutureTimeoutError as error:
            raise ConnectFailed(
                f"no server answers at {self.address} within {seconds:g} s (connect_timeout); "
                "is it running, and is the address right?"
            ) from error

    def _hello(self) -> f.Hello:
        return f.Hello(
            version_min=VERSION_MIN,
            version_max=VERSION_MAX,
            name=self.name,
            instance=secrets.token_hex(8),
            chunk_bytes=self.config.stream.chunk_bytes,
            max_message_bytes=self.config.grpc.max_message_bytes,
            session_timeout=self.config.timeouts.session_timeout,
            token=self._token,
        )


def _wait_welcome(pump: Pump[SessionMachine]) -> f.Welcome:
    while True:
        event = pump.poll()
        if isinstance(event, Ready):
            return event.welcome
        if isinstance(event, Failed):
            raise event.error
        if isinstance(event, Left):
            raise StreamAborted(AbortCode.REFUSED, event.reason, by_peer=True, who="the server")


class _Line:
    """One connection to the server, as gRPC keeps it, or a new one in its place."""

    def __init__(self, make: Callable[[], grpc.Channel]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._is_closed = False
        self.channel = make()

    def method(self, name: str) -> Any:
        """Return what opens a call of that name."""
        return self.channel.stream_stream(_METHOD + name, None, None)

    def renew(self) -> None:
        """Make a new connection; calls on the old one end."""
        with self._lock:
            if self._is_closed:
                return
            old, self.channel = self.channel, self._make()
        old.close()

    def close(self) -> None:
        """End it, and every call on it."""
        with self._lock:
            self._is_closed = True
        self.channel.close()


class _Call:
    """Carries one pump over one gRPC call at a time."""

    def __init__(
        self,
        pump: Pump[Any],
        encode: Callable[[Any], bytes],
        decode: Callable[[bytes], f.Frame],
        *,
        first: bytes = b"",
        before: Callable[[], object] = lambda: None,
    ) -> None:
        self.pump = pump
        self.has_ended_well = False
        """Whether the server ended the last call of its own accord: it has said all it had to."""
        self.was_cut = False
        """Whether the last call ended because it was cancelled, here or by the server."""
        self._encode, self._decode = encode, decode
        self._first, self._before = first, before

    @property
    def is_over(self) -> bool:
        """Whether the pump has ended and the server knows of it, or cannot be told any more.

        Only the ticker, which excuses our own standstills, ends a pump for having no call.
        """
        pump = self.pump
        is_told = pump.is_settled or (pump.is_closed and self.has_ended_well)
        return is_told or (pump.is_closed and pump.is_lost)

    def run(self, find_method: Callable[[], Any], attached: Callable[[Pump[Any]], object]) -> bool:
        """Carry over a new call until that ends; returns whether anything that counts came.

        Args:
            find_method: returns what opens a call; asked when it is needed, as connections change.
            attached: called with the pump once the call carries it.
        """
        self._before()
        self.was_cut = False
        number: Future[int] = Future()
        try:
            call = find_method()(self._outgoing(number))
        except ValueError as error:  # the channel was closed meanwhile
            number.set_result(0)  # no call goes by it: the writer ends
            logger.debug("no call: %s", error)
            return False
        number.set_result(self.pump.attach(call.cancel))
        attached(self.pump)
        try:
            self.pump.incoming(self._incoming(call), number.result())
        except grpc.RpcError as error:
            logger.debug("call ended: %s", call_status(error))
            self.was_cut = getattr(error, "code", lambda: None)() is grpc.StatusCode.CANCELLED
        except StreamlinkError as error:
            self.pump.abort(getattr(error, "code", AbortCode.PROTOCOL_ERROR), str(error))
        self.pump.detach(number.result())
        return self.pump.has_moved

    def _outgoing(self, number: Future[int]) -> Iterator[bytes]:
        carried_by = number.result()
        if self._first and carried_by:
            yield self._first
        for frame in self.pump.outgoing(carried_by):
            yield self._encode(frame)

    def _incoming(self, call: Iterable[bytes]) -> Iterator[f.Frame]:
        self.has_ended_well = False
        for raw in call:
            yield self._decode(raw)
        self.has_ended_well = True


def call_status(error: grpc.RpcError) -> str:
    """Return a gRPC error's code and details in one line."""
    code, details = getattr(error, "code", None), getattr(error, "details", None)
    return f"{code() if code else error}: {details() if details else ''}"
