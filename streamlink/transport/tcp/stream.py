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
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import xxhash

from streamlink.errors import StreamlinkError
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

__all__ = ["END", "StreamCall"]

_LENGTHS = struct.Struct("<II")  # of the whole frame; check
_FIRST_BYTES = CHUNK_HEADER_BYTES
_HEAD_BYTES = _LENGTHS.size + _FIRST_BYTES
_WAKING_BYTES = 256 * 1024  # of a payload that is read next: else each segment would wake a thread


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
        self._into = self._head  # what is read next, or what is left of it
        self._make: Callable[[], bytes | Apart] | None = None  # of that; None: it is a head
        self._whole = 0  # of the payload that is read now (bytes)
        self.budget = 0
        """What ``try_read`` may still read (bytes)."""
        self._is_lost, self._is_quick = False, True
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
            self._connection.send((END,))

    def _send(self, frame: f.Frame) -> None:
        self._connection.send(self.buffers(frame))

    def buffers(self, frame: f.Frame) -> list[bytes | memoryview]:
        """Return what a frame is on the connection; it counts as sent."""
        front, *payload = self._wire.buffers(frame)
        nbytes = len(front) + sum(map(len, payload))
        self._count.add(sent=nbytes)
        buffers = [_head(nbytes, bytes(front[:_FIRST_BYTES])), front[_FIRST_BYTES:], *payload]
        return [each for each in buffers if len(each)]

    # --- reading ------------------------------------------------------------------------

    def read(self, pump: Pump[Any], number: int) -> bool:
        """Feed ``pump`` until the call ends; returns whether it is to be cut for damage."""
        try:
            return pump.read(self._arriving(pump, number, self._fill), number, self._decode)
        except (OSError, EOFError):
            return False

    def try_read(self, pump: Pump[Any], number: int) -> bool:
        """Feed ``pump`` with the bytes that have arrived, up to ``budget``; returns as ``read``.

        Raises:
            OSError, EOFError: the connection has ended.
        """
        is_over = pump.read(self._arriving(pump, number, self._try_fill), number, self._decode)
        if self._is_lost and not is_over:
            raise EOFError  # where the next message begins is not known
        return is_over

    def _arriving(
        self, pump: Pump[Any], number: int, fill: Callable[[], bool]
    ) -> Iterator[bytes | Apart]:
        """Yield each message once it is whole; ends where ``fill`` does, and at the call's end."""
        try:
            while not self.has_ended and fill():
                if (message := self._filled(pump, number)) is not None:
                    yield message
        except (DamagedFrame, StreamlinkError):
            self._is_lost = True
            raise

    def _fill(self) -> bool:
        self._connection.receive_into(self._into)
        return True

    def _try_fill(self) -> bool:
        """Fill the buffer as far as something is there; returns whether it is full."""
        while self._into.nbytes:
            # Not where bytes wait above the system: nobody is woken for those.
            is_enough = self.budget <= 0 and not self._connection.pending
            got = 0 if is_enough else self._try_receive()
            if not got:
                self._connection.wake_at(min(self._into.nbytes, _WAKING_BYTES))
                return False
            self.budget -= got
            self._into = self._into[got:]
        return True

    def _try_receive(self) -> int:
        """Read what is there, and the rest of a payload, too, where that comes at once."""
        is_payload = self._make is not None
        if is_payload and self._is_quick:
            # One system call and one wake-up for each payload, as with a blocking thread. After a
            # payload that did not arrive in time there is no such wait, until one arrives whole.
            got = self._connection.receive_soon(self._into)
        else:
            got = self._connection.try_receive_into(self._into)
        if is_payload:
            self._is_quick = got == self._whole
        return got

    def _filled(self, pump: Pump[Any], number: int) -> bytes | Apart | None:
        """Return the message that is whole now, and set the buffer for what comes next."""
        if (make := self._make) is not None:
            self._next_head()
            return make()
        nbytes, first = self._length(), bytes(self._head[_LENGTHS.size :])
        if nbytes > _FIRST_BYTES or (nbytes == _FIRST_BYTES and first.startswith(CHUNK_START)):
            self._make = self._rest(first, nbytes - _FIRST_BYTES, pump, number)
            return None
        self._next_head()
        self.has_ended = not nbytes
        return first[:nbytes] or None

    def _next_head(self) -> None:
        self._make, self._into = None, self._head

    def _length(self) -> int:
        """Return the length of the frame whose head is here, 0 at the call's end."""
        nbytes, check = _LENGTHS.unpack_from(self._head)
        if check != _check(nbytes, self._head[_LENGTHS.size :]):
            raise DamagedFrame("the beginning of a message")
        if nbytes > self._most:
            raise DamagedFrame(f"a frame of {nbytes} bytes; the largest has {self._most}")
        return int(nbytes)

    def _rest(
        self, first: bytes, nbytes: int, pump: Pump[Any], number: int
    ) -> Callable[[], bytes | Apart]:
        """Have the rest of a message read next; returns what makes the message of it."""
        if not first.startswith(CHUNK_START):
            rest = bytearray(nbytes)
            self._into, self._whole = memoryview(rest), nbytes
            return lambda: first + rest
        header, digest = decode_header(first, nbytes)
        # Who sends a model is sent no chunks; one that comes all the same is refused then.
        lending = pump if isinstance(pump, LendingPump) else None
        place = lending.place(header, number) if lending else None
        buffers = lending.buffers if lending else Buffers()
        into = buffers.take(nbytes) if place is None else place
        self._into, self._whole = into, nbytes
        # Like the bytes of other carriers: what a program is given of a model it must not change.
        return lambda: Apart(header, digest, into.toreadonly(), place is not None)


def _head(nbytes: int, first: bytes) -> bytes:
    padded = first.ljust(_FIRST_BYTES, b"\0")
    return _LENGTHS.pack(nbytes, _check(nbytes, padded)) + padded


def _check(nbytes: int, first: bytes | memoryview) -> int:
    return xxhash.xxh32_intdigest(first, seed=nbytes)


END = _head(0, b"")
"""What ends a call in order."""
