"""Peers that do not keep to the protocol: a client and a server over plain gRPC, frame by frame.

They have the checks of their frames right, where they want to, since a hostile peer has, too.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar

import grpc

from streamlink.closing import Closing
from streamlink.protocol import frames as f
from streamlink.transport.framing import DamagedFrame
from streamlink.transport.messages import encode_transfer
from streamlink.transport.wire import SessionWire, TransferWire, Wire
from tests.support.machines import KiB, a_hello
from tests.support.peers import WAIT

SERVICE = "streamlink.v1.Streamlink"
MESSAGES = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
T = TypeVar("T")
_PATIENCE = 0.2  # a call that was not ended by what was said on it is cut (seconds)


class Line:
    """One call of a hostile client: says what it is told to, and notes what it hears.

    Args:
        channel: carries it.
        wire: its frames.
        stream_id: the stream it carries; 0: none.
        said: how many frames were said on it before.
    """

    def __init__(
        self, channel: grpc.Channel, wire: Wire, *, stream_id: int = 0, said: int = 0
    ) -> None:
        self.stream_id = stream_id
        self.said = said
        """How many frames but chunks it has said."""
        self._wire = wire
        self._says: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._heard: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.status = grpc.StatusCode.OK
        method = "Session" if self.is_session else "Transfer"
        call = channel.stream_stream(f"/{SERVICE}/{method}", None, None)
        self._call: Any = call(iter(self._says.get, None))
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def say(self, *frames: f.Frame) -> Self:
        """Send frames, checks and all."""
        for frame in frames:
            self.say_bytes(self._wire.encode(frame))
            self.said += not isinstance(frame, f.Chunk)
        return self

    def say_bytes(self, raw: bytes) -> Self:
        """Send bytes as they are."""
        self._says.put(raw)
        return self

    def hear(self, kind: type[T]) -> T:
        """Return the next frame of ``kind``; what comes before it is passed over."""
        while (raw := self._heard.get(timeout=WAIT)) is not None:
            frame = self._wire.decode(raw)
            if isinstance(frame, kind):
                return frame
        raise AssertionError(f"the call ended with {self.status} and no {kind.__name__}")

    def abort_heard(self) -> f.Abort | None:
        """Wait until the call ends; returns the server's last words, if it had any."""
        last: f.Abort | None = None
        while (raw := self._heard.get(timeout=WAIT)) is not None:
            frame = self._wire.decode(raw)
            last = frame if isinstance(frame, f.Abort) else last
        return last

    @property
    def is_session(self) -> bool:
        """Whether it is a session's call."""
        return isinstance(self._wire, SessionWire)

    def last_words(self) -> f.Abort | None:
        """Say no more, and return the server's last words, if it had any that can be read."""
        self._says.put(None)
        timer = threading.Timer(_PATIENCE, self._call.cancel)
        timer.start()
        try:
            return self.abort_heard()
        except DamagedFrame:  # of a stream that this line has only made up
            return None
        finally:
            timer.cancel()

    def end(self) -> None:
        """Say no more, and wait until the call has ended."""
        self._says.put(None)
        self._call.cancel()
        self._thread.join(WAIT)

    def _listen(self) -> None:
        try:
            for raw in self._call:
                self._heard.put(raw)
        except grpc.RpcError as error:
            self.status = error.code()
        self._heard.put(None)
        self._says.put(None)


class HostileClient(Closing):
    """Speaks to the server at ``address``. A context manager."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, options=MESSAGES)
        self._lines: list[Line] = []

    def session(self) -> Line:
        """Open a session call that has said nothing."""
        return self._opened(Line(self._channel, SessionWire()))

    def greeted(self, name: str, **changes: Any) -> tuple[Line, f.Welcome]:
        """Open a session under ``name``."""
        fields = {"chunk_bytes": 4 * KiB, "instance": "evil", **changes}
        line = self.session().say(a_hello(name=name, **fields))
        return line, line.hear(f.Welcome)

    def transfer(self) -> Line:
        """Open a transfer call that has said nothing."""
        return self._opened(Line(self._channel, TransferWire(0)))

    def attached(self, session_id: str, stream_id: int) -> Line:
        """Open a transfer call for a stream."""
        wire = TransferWire(stream_id, sent=1)
        line = self._opened(Line(self._channel, wire, stream_id=stream_id, said=1))
        return line.say_bytes(encode_transfer(f.Attach(session_id, stream_id), 0))

    def close(self) -> None:
        """Drop every call."""
        for line in self._lines:
            line.end()
        self._channel.close()

    def _opened(self, line: Line) -> Line:
        self._lines.append(line)
        return line

    def __enter__(self) -> Self:
        return self


Session = Callable[[SessionWire, Iterator[bytes]], Iterator[bytes]]
"""What a hostile server says on a session, having the client's frames at hand."""


class HostileServer(Closing):
    """Listens on a free port of the loopback and answers each session call with ``session``."""

    def __init__(self, session: Session) -> None:
        self._pool = ThreadPoolExecutor(8)
        self._server = grpc.server(self._pool)

        def serve(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
            yield from session(SessionWire(), requests)

        calls = {"Session": grpc.stream_stream_rpc_method_handler(serve)}
        handler = grpc.method_handlers_generic_handler(SERVICE, calls)
        self._server.add_generic_rpc_handlers((handler,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        self._server.stop(grace=0).wait(WAIT)
        self._pool.shutdown(wait=False, cancel_futures=True)


def a_welcome(**changes: Any) -> f.Welcome:
    """Return what a server says first."""
    fields = {"version": 1, "session_id": "id", "epoch": "e", "chunk_bytes": 4 * KiB}
    return f.Welcome(**{**fields, "heartbeat_interval": 5.0, **changes})
