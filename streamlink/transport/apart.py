"""A chunk whose payload was read apart from its header, on its way from a carrier to a pump."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from streamlink.protocol import frames as f
from streamlink.transport.chunks import CHUNK_HEADER_BYTES
from streamlink.transport.traffic import WireCount
from streamlink.transport.wire import TransferWire

__all__ = ["Apart", "decoder"]


class Apart(NamedTuple):
    """A chunk that arrived, and was not checked yet.

    Attributes:
        header: what its header says.
        digest: the hash that its header names.
        payload: what came after the header; empty: nothing did.
        is_in_place: whether that was read into memory that the sink has lent.
    """

    header: f.ChunkHeader
    digest: int
    payload: memoryview
    is_in_place: bool


def decoder(wire: TransferWire, count: WireCount) -> Callable[[bytes | Apart], f.Frame]:
    """Return what makes frames of what a call brings, counting its bytes; see ``Pump.read``."""

    def decode(raw: bytes | Apart) -> f.Frame:
        if isinstance(raw, bytes):
            count.add(received=len(raw))
            return wire.decode(raw)
        count.add(received=CHUNK_HEADER_BYTES + raw.payload.nbytes)
        views = (raw.payload,) if raw.payload.nbytes else ()
        return wire.chunk(raw.header, raw.digest, views, is_in_place=raw.is_in_place)

    return decode
