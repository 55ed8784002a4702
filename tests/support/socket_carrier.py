"""A data carrier over TCP, on loopback and in plain text, as ``docs/design.md`` says to add one.

Each frame has its length in front. A chunk's header is read before its payload, which is read into
memory that the sink lends, where it does. An empty frame: the call has ended, and is not broken.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from streamlink.clock import Clock
from streamlink.config import LinkConfig, StreamConfig
from streamlink.errors import StreamlinkError
from streamlink.protocol import frames as f
from streamlink.transport.addresses import host_of, is_unix, require_address
from streamlink.transport.carriers import CallEnd, ClientCall, DataSession, largest_message
from streamlink.transport.chunks import CHUNK_HEADER_BYTES, CHUNK_START, decode_header
from streamlink.transport.framing import DamagedFrame
from streamlink.transport.hub import Hub
from streamlink.transport.lending import LendingPump
from streamlink.transport.pump import Pump
from streamlink.transport.registry import abort_for
from streamlink.transport.wire import TransferWire

__all__ = [
    "SECURED_BY",
    "SocketCarrier",
    "SocketListener",
    "check_data_listening",
    "new_data_carrier",
    "new_data_listener",
]

SECURED_BY = ""

_LENGTH = struct.Struct("<I")

Apart = tuple[f.ChunkHeader, int, memoryview, bool]
"""A chunk whose payload was read apart: header, hash, payload, whether that is in its place."""


class _Line:
    """One connection; whoever uses it may be cut off from any thread."""

    def __init__(self, connection: socket.socket, stream: StreamConfig) -> None:
        self._connection = connection
        self._most = largest_message(stream)
        self.remote = str(connection.getsockname())
        self.has_ended = False

    # --- as the hub sees who calls: see ``Caller`` ------------------------------------------

    carrier = "socket"

    def x509_names(self) -> frozenset[str] | None:
        return None

    def vouch(self) -> None:
        """This toy counts no strangers."""

    def cut(self) -> None:
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    # --- frames -----------------------------------------------------------------------------

    def close(self) -> None:
        self.cut()
        self._connection.close()

    def send(self, *buffers: bytes | memoryview) -> None:
        nbytes = sum(len(each) for each in buffers)
        self._connection.sendall(_LENGTH.pack(nbytes))
        for each in buffers:
            self._connection.sendall(each)

    def send_all(self, frames: Iterator[f.Frame], wire: TransferWire, pump: Pump[Any]) -> None:
        """Send what has to go out, and how it ended; runs in a thread of its own."""
        with suppress(OSError):
            for frame in frames:
                self.send(*wire.buffers(frame))
            if pump.is_closed:
                self.send()

    def whole(self) -> bytes:
        """Return the next frame, which is no chunk."""
        return bytes(self._exactly(self._length()))

    def frames(self, pump: Pump[Any], call: int) -> Iterator[bytes | Apart]:
        """Yield what arrives; ends where the other end has ended the call."""
        while nbytes := self._length():
            is_large = nbytes >= CHUNK_HEADER_BYTES and isinstance(pump, LendingPump)
            first = bytes(self._exactly(CHUNK_HEADER_BYTES if is_large else nbytes))
            if is_large and first.startswith(CHUNK_START):
                assert isinstance(pump, LendingPump)
                yield self._chunk(pump, call, first, nbytes - len(first))
            else:
                yield first + self._exactly(nbytes - len(first))
        self.has_ended = True

    def _chunk(self, pump: LendingPump, call: int, first: bytes, nbytes: int) -> Apart:
        header, digest = decode_header(first, nbytes)
        place = pump.place(header, call)
        payload = memoryview(bytearray(nbytes)) if place is None else place
        self._fill(payload)
        return header, digest, payload, place is not None

    def _length(self) -> int:
        (nbytes,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if nbytes > self._most:
            raise DamagedFrame(f"a frame of {nbytes} bytes; the largest has {self._most}")
        return int(nbytes)

    def _exactly(self, nbytes: int) -> bytearray:
        raw = bytearray(nbytes)
        self._fill(memoryview(raw))
        return raw

    def _fill(self, view: memoryview) -> None:
        while view.nbytes:
            got = self._connection.recv_into(view)
            if not got:
                raise EOFError
            view = view[got:]


def _read(line: _Line, pump: Pump[Any], call: int, wire: TransferWire) -> bool:
    """Feed ``pump`` until the call ends; returns whether it was given up for damage."""

    def decode(raw: bytes | Apart) -> f.Frame:
        if isinstance(raw, bytes):
            return wire.decode(raw)
        header, digest, payload, is_in_place = raw
        views = (payload,) if payload.nbytes else ()
        return wire.chunk(header, digest, views, is_in_place=is_in_place)

    try:
        return pump.read(line.frames(pump, call), call, decode)
    except (OSError, EOFError):
        return False


class SocketListener:
    """The server's end: ``Hub(config, ..., data=[DataOffer("socket", SocketListener)])``."""

    def __init__(self, hub: Hub, host: str = "127.0.0.1", port: int = 0) -> None:
        self._hub = hub
        self._socket = socket.create_server((host, port))
        self._lines: set[_Line] = set()
        _start(self._accept)

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def stop(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for line in list(self._lines):
            line.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                line = _Line(self._socket.accept()[0], self._hub.config.stream)
                self._lines.add(line)
                _start(self._serve, line)

    def _serve(self, line: _Line) -> None:
        try:
            with suppress(OSError, EOFError, DamagedFrame):
                self._carry(line)
        finally:
            self._lines.discard(line)
            line.close()

    def _carry(self, line: _Line) -> None:
        with self._hub.handshake(line.cut):
            first = TransferWire(0).decode(line.whole())
        wire = TransferWire(first.stream_id if isinstance(first, f.Attach) else 0, received=1)
        try:
            attached = self._hub.attach(first, line)
        except StreamlinkError as error:
            line.send(*wire.buffers(abort_for(error)))
            line.send()
            return
        pump, number = attached.pump, attached.number
        writer = _start(line.send_all, pump.outgoing(number), wire, pump)
        if not _read(line, pump, number, wire):
            pump.detach(number)
        line.cut()
        writer.join()
        attached.detach()


class SocketCarrier:
    """The client's end; see ``DataCarrier``."""

    def __init__(self, port: int, stream: StreamConfig, host: str = "127.0.0.1") -> None:
        self._to, self._stream = (host, port), stream
        self._is_closed = False
        self._lines: set[_Line] = set()

    def carry(self, call: ClientCall) -> CallEnd:
        """See ``DataCarrier``."""
        if self._is_closed:
            return CallEnd.BROKEN
        try:
            connection = socket.create_connection(self._to)
        except OSError:
            return CallEnd.BROKEN
        line = _Line(connection, self._stream)
        self._lines.add(line)
        number, wire = call.attach(line.cut, "socket"), call.wire
        assert isinstance(wire, TransferWire)

        def frames() -> Iterator[f.Frame]:
            yield from call.first
            yield from call.pump.outgoing(number)

        try:
            writer = _start(line.send_all, frames(), wire, call.pump)
            _read(line, call.pump, number, wire)
        finally:
            end = call.detach(number, CallEnd.ENDED if line.has_ended else CallEnd.BROKEN)
            line.close()
            self._lines.discard(line)
        writer.join()
        return end

    @property
    def where(self) -> str:
        """See ``ProvableCarrier``."""
        return f"socket port {self._to[1]}"

    def prove(self, seconds: float) -> str:
        """See ``ProvableCarrier``; this toy trusts whoever answers."""
        try:
            socket.create_connection(self._to, seconds).close()
        except OSError as error:
            return str(error)
        return "it was closed" if self._is_closed else ""

    def renew(self) -> None:
        """See ``DataCarrier``."""
        for line in list(self._lines):
            line.cut()

    def close(self) -> None:
        """See ``DataCarrier``."""
        self._is_closed = True
        self.renew()


def _start(run: Callable[..., object], *args: object) -> threading.Thread:
    thread = threading.Thread(target=run, args=args, daemon=True)
    thread.start()
    return thread


# --- what ``connect`` asks of a carrier -------------------------------------------------------


def check_data_listening(address: str, config: LinkConfig) -> None:
    """See ``DataModule``."""
    if is_unix(address):
        raise ValueError(f"socket://{address}: a port is needed; write socket://HOST:PORT")
    require_address(address)


def new_data_listener(address: str, hub: Hub) -> SocketListener:
    """See ``DataModule``."""
    return SocketListener(hub, host_of(address) or "", int(address.rpartition(":")[2]))


def new_data_carrier(
    address: str, port: int, session: DataSession, config: LinkConfig, clock: Clock
) -> SocketCarrier:
    """See ``DataModule``; a server behind a Unix socket is on this machine."""
    return SocketCarrier(port, config.stream, host_of(address) or "127.0.0.1")
