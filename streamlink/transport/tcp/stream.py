"""The frames of a stream over a connection, the header of a chunk apart from its payload.

A message is its length, a check, the first 64 bytes of a frame (padded where it is shorter), and
the rest. So a chunk takes two reads: one of all that stands before the payload, which has a known
length, and one of the payload, straight into its place. A message of length 0 ends the call in
order; a connection that ends without it is broken.

The check covers length and first bytes. Frames have checks of their own, but the header of a chunk
decides where its payload is written before that is there, and a wrong length would make nonsense of
all that follows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import xxhash

from streamlink.protocol import frames as f
from streamlink.transport.apart import Apart, decoder
from streamlink.transport.buffers import Buffers
from streamlink.transport.chunks import CHUNK_HEADER_BYTES, CHUNK_START, decode_header
from streamlink.transport.framing import DamagedFrame
from streamlink.transport.lending import LendingPump
from streamlink.transport.pump import Pump
from streamlink.transport.tcp.sockets import Socket
from streamlink.transport.traffic import WireCount
from streamlink.transport.wire import TransferWire

__all__ = ["StreamCall"]

_LENGTHS = struct.Struct("<II")  # of the whole frame; check
_FIRST_BYTES = CHUNK_HEADER_BYTES
_HEAD_BYTES = _LENGTHS.size + _FIRST_BYTES


class StreamCall:
    """A connection that carries a stream; both ends use it. One thread sends and one reads.

    Args:
        connection: what it goes over, proven.
        wire: encodes its frames.
        count: counts their bytes.
        most: the longest frame that is let in (bytes).
    """

    def __init__(self, connection: Socket, wire: TransferWire, count: WireCount, most: int) -> None:
        self._connection, self._wire, self._count, self._most = connection, wire, count, most
        self._decode = decoder(wire, count)
        self._head = memoryview(bytearray(_HEAD_BYTES))
        self.has_ended = False
        """Whether the other end has ended the call in order."""

    # --- sending ------------------------------------------------------------------------

    def send(self, frames: Iterable[f.Frame]) -> None:
        """Send all ``frames``; stop early where the connection ends."""
        with suppress(OSError, EOFError):
            for frame in frames:
                self._send(frame)

    def end(self) -> None:
        """Say that nothing follows: the call has ended, and is not broken."""
        with suppress(OSError, EOFError):
            self._connection.send((_head(0, b""),))

    def _send(self, frame: f.Frame) -> None:
        front, *payload = self._wire.buffers(frame)
        nbytes = len(front) + sum(map(len, payload))
        self._count.add(sent=nbytes)
        buffers = [_head(nbytes, bytes(front[:_FIRST_BYTES])), front[_FIRST_BYTES:], *payload]
        self._connection.send([each for each in buffers if len(each)])

    # --- reading ------------------------------------------------------------------------

    def read(self, pump: Pump[Any], number: int) -> bool:
        """Feed ``pump`` until the call ends; returns whether it is to be cut for damage."""
        try:
            return pump.read(self._arriving(pump, number), number, self._decode)
        except (OSError, EOFError):
            return False

    def _arriving(self, pump: Pump[Any], number: int) -> Iterator[bytes | Apart]:
        while nbytes := self._next():
            first = bytes(self._head[_LENGTHS.size :])
            if nbytes >= _FIRST_BYTES and first.startswith(CHUNK_START):
                yield self._chunk(first, nbytes - _FIRST_BYTES, pump, number)
            elif nbytes > _FIRST_BYTES:
                yield first + self._connection.receive(nbytes - _FIRST_BYTES)
            else:
                yield first[:nbytes]
        self.has_ended = True

    def _next(self) -> int:
        """Read up to the payload; returns the length of the frame, 0 at the call's end."""
        self._connection.receive_into(self._head)
        nbytes, check = _LENGTHS.unpack_from(self._head)
        if check != _check(nbytes, self._head[_LENGTHS.size :]):
            raise DamagedFrame("the beginning of a message")
        if nbytes > self._most:
            raise DamagedFrame(f"a frame of {nbytes} bytes; the largest has {self._most}")
        return int(nbytes)

    def _chunk(self, first: bytes, nbytes: int, pump: Pump[Any], number: int) -> Apart:
        header, digest = decode_header(first, nbytes)
        # Who sends a model is sent no chunks; one that comes all the same is refused then.
        lending = pump if isinstance(pump, LendingPump) else None
        place = lending.place(header, number) if lending else None
        buffers = lending.buffers if lending else Buffers()
        into = buffers.take(nbytes) if place is None else place
        self._connection.receive_into(into)
        # Like the bytes of other carriers: what a program is given of a model it must not change.
        return Apart(header, digest, into.toreadonly(), place is not None)


def _head(nbytes: int, first: bytes) -> bytes:
    padded = first.ljust(_FIRST_BYTES, b"\0")
    return _LENGTHS.pack(nbytes, _check(nbytes, padded)) + padded


def _check(nbytes: int, first: bytes | memoryview) -> int:
    return xxhash.xxh32_intdigest(first, seed=nbytes)
