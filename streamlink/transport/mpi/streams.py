"""The frames of a stream over a call: the header of a chunk and its payload are two messages."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from streamlink.protocol import frames as f
from streamlink.transport.apart import Apart, decoder
from streamlink.transport.buffers import Buffers
from streamlink.transport.chunks import decode_header
from streamlink.transport.framing import DamagedFrame
from streamlink.transport.lending import LendingPump
from streamlink.transport.mpi.calls import Arrived, CallOver, MpiCall
from streamlink.transport.mpi.tags import ENDS, Kind
from streamlink.transport.pump import Pump
from streamlink.transport.traffic import WireCount
from streamlink.transport.wire import TransferWire

__all__ = ["StreamCall"]

# Before a header, which has no length of its payload: over gRPC the message has it.
_LENGTH = struct.Struct("<Q")


class StreamCall:
    """A call that carries a stream; both ends use it.

    Args:
        call: what it goes over.
        wire: encodes and counts its frames.
        count: counts their bytes.
    """

    def __init__(self, call: MpiCall, wire: TransferWire, count: WireCount) -> None:
        self._call, self._wire, self._count = call, wire, count
        self._decode = decoder(wire, count)

    def send(self, frames: Iterable[f.Frame]) -> None:
        """Send all ``frames``; stop early where the call ends."""
        with suppress(CallOver):
            for frame in frames:
                self._send(frame)

    def _send(self, frame: f.Frame) -> None:
        first, *payload = self._wire.buffers(frame)
        nbytes = sum(len(each) for each in payload)
        self._count.add(sent=len(first) + nbytes)
        if not isinstance(frame, f.Chunk):
            self._call.send(Kind.FRAME, first)
            return
        self._call.send(Kind.HEAD, _LENGTH.pack(nbytes) + first)
        if nbytes:
            # Joined where it spans tensors: a thousand of them would be as many messages.
            self._call.send(Kind.BODY, payload[0] if len(payload) == 1 else b"".join(payload))

    def read(self, pump: Pump[Any], number: int) -> bool:
        """Feed ``pump`` until the call ends; returns whether it is to be cut for damage."""
        try:
            return pump.read(self._arriving(pump, number), number, self._decode)
        except CallOver:
            return False

    def _arriving(self, pump: Pump[Any], number: int) -> Iterator[bytes | Apart]:
        while (each := self._call.next()).kind not in ENDS:
            if each.kind is Kind.HEAD:
                yield self._chunk(each, pump, number)
            elif each.kind is Kind.FRAME:
                yield bytes(self._call.content(each))
            else:
                raise DamagedFrame("a payload without a header")

    def _chunk(self, head: Arrived, pump: Pump[Any], number: int) -> Apart:
        raw = bytes(self._call.content(head))
        if len(raw) < _LENGTH.size:
            raise DamagedFrame(f"a header of {len(raw)} bytes")
        (nbytes,) = _LENGTH.unpack_from(raw)
        header, digest = decode_header(raw[_LENGTH.size :], nbytes)
        if not nbytes:
            return Apart(header, digest, memoryview(b""), False)
        body = self._call.next()
        if body.kind is not Kind.BODY or body.arrival.nbytes != nbytes:
            raise DamagedFrame(f"a payload of {body.arrival.nbytes} bytes where {nbytes} were due")
        # Not before the payload has come: until then its place may be another call's.
        receiving = pump if isinstance(pump, LendingPump) else None
        place = receiving.place(header, number) if receiving else None
        # Where a chunk comes to an end that sends, nothing is kept: its machine will refuse it.
        buffers = receiving.buffers if receiving else Buffers()
        into = buffers.take(nbytes) if place is None else place
        return Apart(header, digest, self._call.content(body, into), place is not None)
