"""Two pumps joined by pipes of bytes, which bring a chunk's header before its payload.

What a carrier over sockets would be, without its security: each frame has its length and a check in
front, and a payload is read into the memory that the sink lends, if it lends any.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import xxhash

from streamlink.config import LinkConfig
from streamlink.model.spec import ModelSpec
from streamlink.protocol import frames as f
from streamlink.transport.chunks import CHUNK_HEADER_BYTES, CHUNK_START, decode_header
from streamlink.transport.framing import DamagedFrame
from streamlink.transport.lending import LendingPump
from streamlink.transport.pump import Pump
from streamlink.transport.wire import TransferWire
from tests.support.joined_pumps import STREAM, Transfer
from tests.support.peers import SMALL, WAIT, until
from tests.support.pumps import pump_of

_PREFIX = struct.Struct("<IQ")  # length of the frame; check of what comes before a payload
MAX_FRAME_BYTES = 1 << 20

OnChunk = Callable[[f.Chunk, "Lane"], bytes | None]
"""Sees each chunk before it leaves; returns what travels as its payload. None: the lane is lost in
the middle of it, and the other end does not hear of that."""


def untouched(chunk: f.Chunk, lane: Lane) -> bytes:
    return b"".join(chunk.payload)


@dataclass
class ApartPayload:
    """A chunk as it was read: its header, then its payload, perhaps in its place."""

    header: f.ChunkHeader
    digest: int
    payload: memoryview
    is_in_place: bool


class Lane:
    """One pipe between two pumps, with a writer and a reader at each end."""

    def __init__(self, left: Pump[Any], right: Pump[Any], *, first: bool, on_chunk: OnChunk):
        self._on_chunk = on_chunk
        self.before_loss: Callable[[], None] = lambda: None
        """Called when half a payload has left, before this end gives the lane up."""
        here, there = socket.socketpair()
        self.sockets = here, there
        self._threads: list[threading.Thread] = []
        for pump, pipe in ((left, here), (right, there)):
            call = pump.attach(lambda pipe=pipe: _shut(pipe), is_lane=not first)  # type: ignore[misc]
            wire = TransferWire(STREAM)
            for run in (self._write, self._read):
                args = pump, pipe, call, wire
                self._threads.append(threading.Thread(target=run, args=args, daemon=True))
        for each in self._threads:
            each.start()

    def cut(self) -> None:
        """Lose it, at both ends."""
        for pipe in self.sockets:
            _shut(pipe)

    def close(self) -> None:
        """Lose it, and wait until nobody uses it."""
        self.cut()
        for each in self._threads:
            each.join(WAIT)
        for pipe in self.sockets:
            pipe.close()

    def _write(self, pump: Pump[Any], pipe: socket.socket, call: int, wire: TransferWire) -> None:
        with suppress(OSError):
            for frame in pump.outgoing(call):
                if not self._send(pipe, frame, wire):
                    pump.detach(call)
                    return
            pipe.shutdown(socket.SHUT_WR)

    def _send(self, pipe: socket.socket, frame: Any, wire: TransferWire) -> bool:
        first, *payload = map(bytes, wire.buffers(frame))
        length = len(first) + sum(map(len, payload))
        travels = self._on_chunk(frame, self) if isinstance(frame, f.Chunk) else None
        pipe.sendall(_PREFIX.pack(length, _check(length, first)) + first)
        if isinstance(frame, f.Chunk):
            if travels is None:
                pipe.sendall(b"".join(payload)[: frame.wire_bytes // 2])
                self.before_loss()
                return False
            pipe.sendall(travels)
        return True

    def _read(self, pump: Pump[Any], pipe: socket.socket, call: int, wire: TransferWire) -> None:
        def decode(raw: bytes | ApartPayload) -> f.Frame:
            if isinstance(raw, bytes):
                return wire.decode(raw)
            payload = (raw.payload,) if raw.payload.nbytes else ()
            return wire.chunk(raw.header, raw.digest, payload, is_in_place=raw.is_in_place)

        with suppress(OSError, EOFError):
            pump.read(_frames(pump, pipe, call), call, decode)
        pump.detach(call)


def _frames(pump: Pump[Any], pipe: socket.socket, call: int) -> Iterator[bytes | ApartPayload]:
    while True:
        length, check = _PREFIX.unpack(_exactly(pipe, _PREFIX.size))
        if length > MAX_FRAME_BYTES:
            raise DamagedFrame(f"a frame of {length} bytes")
        is_chunk = length >= CHUNK_HEADER_BYTES and isinstance(pump, LendingPump)
        first = bytes(_exactly(pipe, CHUNK_HEADER_BYTES if is_chunk else length))
        if is_chunk and not first.startswith(CHUNK_START):
            first += _exactly(pipe, length - len(first))
        if check != _check(length, first):
            raise DamagedFrame("a frame whose check is wrong")
        if first.startswith(CHUNK_START):
            assert isinstance(pump, LendingPump)
            yield _chunk(pump, pipe, call, first, length - len(first))
        else:
            yield first


def _chunk(
    pump: LendingPump, pipe: socket.socket, call: int, first: bytes, nbytes: int
) -> ApartPayload:
    header, digest = decode_header(first, nbytes)
    place = pump.place(header, call)
    payload = memoryview(bytearray(nbytes)) if place is None else place
    _fill(pipe, payload)
    return ApartPayload(header, digest, payload, place is not None)


class Pipes:
    """Carries ``left`` to ``right`` and back over one lane or several."""

    def __init__(
        self, left: Pump[Any], right: Pump[Any], lanes: int, before: Callable[[], None]
    ) -> None:
        self.left, self.right = left, right
        self._before, self._may_begin = before, False
        self.on_chunk: OnChunk = untouched
        self.lanes: list[Lane] = []
        self._count = lanes

    def join(self) -> None:
        """Let new lanes carry both pumps."""
        for number in range(self._count):
            first = number == 0
            lane = Lane(self.left, self.right, first=first, on_chunk=self._seen)
            self.lanes.append(lane)

    def _seen(self, chunk: f.Chunk, lane: Lane) -> bytes | None:
        if not self._may_begin:
            self._before()
            self._may_begin = True
        return self.on_chunk(chunk, lane)

    def close(self) -> None:
        """Cut all."""
        for lane in self.lanes:
            lane.close()


class PipedTransfer(Transfer):
    """One model over pipes; both ends' work has a thread of its own."""

    def __init__(self, spec: ModelSpec, config: LinkConfig = SMALL, *, lanes: int = 1) -> None:
        super().__init__(spec, config)
        pump = pump_of(self.incoming)
        # A sender may begin before there is a sink; what comes that early cannot be in place.
        self.pipes = Pipes(
            pump_of(self.outgoing), pump, lanes, before=lambda: until(lambda: pump.is_lending)
        )

    def join(self) -> None:
        self.pipes.join()

    def close(self) -> None:
        self.pipes.close()


def _check(length: int, first: bytes) -> int:
    return xxhash.xxh3_64_intdigest(first, seed=length)


def _exactly(pipe: socket.socket, nbytes: int) -> bytearray:
    raw = bytearray(nbytes)
    _fill(pipe, memoryview(raw))
    return raw


def _fill(pipe: socket.socket, view: memoryview) -> None:
    while view.nbytes:
        got = pipe.recv_into(view)
        if not got:
            raise EOFError
        view = view[got:]


def _shut(pipe: socket.socket) -> None:
    with suppress(OSError):
        pipe.shutdown(socket.SHUT_RDWR)
