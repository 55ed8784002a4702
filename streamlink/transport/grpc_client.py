"""The client's gRPC shell: one connection for the session, another for the transfers."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from streamlink.config import LinkConfig
from streamlink.errors import AbortCode, ConnectFailed, StreamAborted, StreamlinkError
from streamlink.protocol import frames as f
from streamlink.protocol.events import Failed, Left, Ready
from streamlink.protocol.session import VERSION_MAX, VERSION_MIN, SessionMachine
from streamlink.transport import messages
from streamlink.transport.grpc_options import channel_options
from streamlink.transport.pump import Pump, Ticker
from streamlink.transport.session import Session, StreamPump

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
        self._session_reader: threading.Thread | None = None
        self._session_channel = self._channel()
        self._data_channel = self._channel()

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
        self._session_reader = self._open_call(
            "Session", self._session_channel, pump, messages.encode_session, messages.decode_session
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
        """Open the call that carries ``pump``'s stream; its frames flow from now on."""
        stream_id = pump.stream.stream_id
        attach = messages.encode_transfer(f.Attach(session.session_id, stream_id), stream_id)
        session.offer(pump)
        self.ticker.add(pump)
        self._open_call(
            "Transfer",
            self._data_channel,
            pump,
            lambda frame: messages.encode_transfer(frame, stream_id),
            lambda raw: messages.decode_transfer(raw, stream_id),
            first=attach,
        )

    def close(self) -> None:
        """Drop both connections; a goodbye that was said may leave first."""
        if self._session_reader is not None:
            self._session_reader.join(_LAST_WORDS_SECONDS)
        self._session_channel.close()
        self._data_channel.close()
        self.ticker.close()

    # --- calls ------------------------------------------------------------------------

    def _open_call(
        self,
        method: str,
        channel: grpc.Channel,
        pump: Any,
        encode: Callable[[Any], bytes],
        decode: Callable[[bytes], f.Frame],
        first: bytes = b"",
    ) -> threading.Thread:
        is_attached = threading.Event()
        numbers: list[int] = []

        def outgoing() -> Iterator[bytes]:
            is_attached.wait()
            if first:
                yield first
            for frame in pump.outgoing(numbers[0]):
                yield encode(frame)

        call = channel.stream_stream(_METHOD + method, None, None)(outgoing())
        numbers.append(pump.attach(call.cancel))
        is_attached.set()
        reader = threading.Thread(
            target=_read, args=(pump, numbers[0], call, decode), name=f"read-{method}", daemon=True
        )
        reader.start()
        return reader

    def _channel(self) -> grpc.Channel:
        options: list[tuple[str, Any]] = [
            *channel_options(self.config.grpc),
            # Equal channels would share one connection, and heartbeats queue behind megabytes.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_retries", 0),
        ]
        return grpc.insecure_channel(self.address, options=options)

    def _wait_until_ready(self) -> None:
        seconds = self.config.timeouts.connect_timeout
        try:
            grpc.channel_ready_future(self._session_channel).result(timeout=seconds)
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


def _read(pump: Any, number: int, call: Any, decode: Callable[[bytes], f.Frame]) -> None:
    """Feed a pump from one call until that ends."""
    try:
        pump.incoming((decode(raw) for raw in call), number)
    except grpc.RpcError as error:
        logger.debug("call ended: %s", call_status(error))
    except StreamlinkError as error:
        pump.abort(getattr(error, "code", AbortCode.PROTOCOL_ERROR), str(error))
    pump.detach(number)
    # Nobody reopens a call yet: better to end its stream now than to wait for its clocks.
    pump.abort(AbortCode.SESSION_LOST, "its connection ended")


def call_status(error: grpc.RpcError) -> str:
    """Return a gRPC error's code and details in one line."""
    code, details = getattr(error, "code", None), getattr(error, "details", None)
    return f"{code() if code else error}: {details() if details else ''}"
