"""Chunks whose payload was read apart from their header."""

from __future__ import annotations

import pytest

from streamlink.protocol import frames as f
from streamlink.transport.apart import Apart, decoder
from streamlink.transport.chunks import decode_header
from streamlink.transport.traffic import WireCount
from streamlink.transport.wire import TransferWire

STREAM = 7


@pytest.mark.parametrize("nbytes", [0, 1, 5_000])
def test_a_chunk_counts_as_many_bytes_where_it_arrives_as_where_it_was_sent(nbytes: int) -> None:
    chunk = f.Chunk(0, 0, (memoryview(bytes(nbytes)),))
    front, *payload = TransferWire(STREAM).buffers(chunk)
    header, digest = decode_header(bytes(front), nbytes)
    count = WireCount()
    decode = decoder(TransferWire(STREAM), count)
    arrived = decode(Apart(header, digest, memoryview(b"".join(payload)), is_in_place=False))
    assert isinstance(arrived, f.Chunk)
    assert arrived.is_intact
    assert count.received == len(front) + sum(map(len, payload))


def test_other_frames_are_counted_whole() -> None:
    raw = b"".join(TransferWire(STREAM).buffers(f.Held(1, "waits", "site-2")))
    count = WireCount()
    assert decoder(TransferWire(STREAM), count)(raw) == f.Held(1, "waits", "site-2")
    assert count.received == len(raw)
