"""A chunk's frame: a header of fixed size, then the payload's own buffers.

It is written by hand around its payload: protobuf would copy the payload into a message object and
then into the serialised bytes, and again on the way back. Here a carrier sends header and payload
as they are or joins them, and a payload is read in place, or apart from its header and straight
into memory that the sink lends. The bytes are what any protobuf parser expects.
"""

from __future__ import annotations

import struct
from functools import lru_cache

import xxhash

from streamlink.blocks import part_hashes
from streamlink.protocol import frames as f
from streamlink.transport.framing import DamagedFrame

_HASHED = struct.Struct("<QQIII")  # sequence, offset, nbytes, encoding, payload length
# tag+sequence, tag+offset, tag+nbytes, tag+encoding, tag+hash, tag of pad, length of pad
_HEAD = struct.Struct("<BQBQBIBIBQBB")
_TAGS = (0x09, 0x11, 0x1D, 0x25, 0x29, 0x72)
_FRAME_TAG, _PAYLOAD_TAG = 0x0A, 0x7A
CHUNK_START = bytes((_FRAME_TAG,))
_HEAD_AT = 6  # behind the frame's tag and five bytes of its length
CHUNK_HEADER_BYTES = 64
"""Where a chunk's payload begins in its frame: aligned for every dtype's vector loads."""


def chunk_hash(chunk: f.Chunk | f.ChunkHeader, hashes: bytes, stream_id: int) -> int:
    """Return the XXH3-64 of a chunk's header and of the ``part_hashes`` of its payload.

    It is seeded with the stream's id: the right payload on a wrong stream is damage, too.
    """
    header = _HASHED.pack(
        chunk.sequence, chunk.offset, chunk.nbytes, chunk.encoding, chunk.wire_bytes
    )
    return xxhash.xxh3_64_intdigest(header + hashes, seed=stream_id)


def encode_header(chunk: f.Chunk, stream_id: int) -> bytes:
    """Return the ``CHUNK_HEADER_BYTES`` that stand before a chunk's payload."""
    start, pad, between = _layout(chunk.wire_bytes)
    hashes = chunk.hashes or part_hashes(chunk.offset, chunk.payload)
    head = _HEAD.pack(
        _TAGS[0], chunk.sequence, _TAGS[1], chunk.offset, _TAGS[2], chunk.nbytes,
        _TAGS[3], chunk.encoding, _TAGS[4], chunk_hash(chunk, hashes, stream_id),
        _TAGS[5], pad,
    )  # fmt: skip
    return start + head + between


def decode_header(raw: bytes, wire_bytes: int) -> tuple[f.ChunkHeader, int]:
    """Return the header of a chunk, and its hash, before the payload of ``wire_bytes`` is read.

    Its layout has to be the one ``encode_header`` writes: only so a damaged chunk, whose hash is
    wrong, can be told from another frame that is damaged.

    Raises:
        DamagedFrame: it is laid out otherwise.
    """
    if len(raw) < CHUNK_HEADER_BYTES or wire_bytes < 0:
        raise DamagedFrame(f"{len(raw)} bytes that may have been a chunk")
    fields = _HEAD.unpack_from(raw, _HEAD_AT)
    sequence, offset, nbytes, encoding, digest, pad = fields[1::2]
    layout = raw[:_HEAD_AT], pad, raw[_HEAD_AT + _HEAD.size : CHUNK_HEADER_BYTES]
    if fields[0::2] != _TAGS or layout != _layout(wire_bytes):
        raise DamagedFrame(f"{len(raw)} bytes that may have been a chunk")
    return f.ChunkHeader(sequence, offset, nbytes, wire_bytes, encoding), digest


def chunk_of(
    header: f.ChunkHeader,
    digest: int,
    payload: f.Payload,
    stream_id: int,
    *,
    is_in_place: bool = False,
) -> f.Chunk:
    """Return the chunk of a header and the payload that came with it, and whether it is intact."""
    hashes = part_hashes(header.offset, payload)
    return f.Chunk(
        header.sequence,
        header.offset,
        payload,
        header.encoding,
        header.nbytes,
        is_intact=chunk_hash(header, hashes, stream_id) == digest,
        is_in_place=is_in_place,
        hashes=hashes if header.encoding == f.PLAIN else b"",
    )


def decode_chunk(raw: bytes, stream_id: int) -> f.Chunk:
    """Return the chunk in a whole frame; its payload is a view of it.

    Raises:
        DamagedFrame: it is laid out otherwise.
    """
    header, digest = decode_header(raw[:CHUNK_HEADER_BYTES], len(raw) - CHUNK_HEADER_BYTES)
    view = memoryview(raw)[CHUNK_HEADER_BYTES:]
    return chunk_of(header, digest, (view,) if view.nbytes else (), stream_id)


@lru_cache(maxsize=64)
def _layout(nbytes: int) -> tuple[bytes, int, bytes]:
    """Return what stands before and behind the header of a chunk of ``nbytes``, and its pad.

    Nearly all chunks of a stream are of a few sizes.
    """
    start = CHUNK_START + _varint(CHUNK_HEADER_BYTES - _HEAD_AT + nbytes, width=5)
    length = _varint(nbytes)
    # A field that no parser needs, as long as it takes for the payload to begin at byte 64.
    pad = CHUNK_HEADER_BYTES - _HEAD_AT - _HEAD.size - 1 - len(length)
    return start, pad, bytes(pad) + bytes((_PAYLOAD_TAG,)) + length


def _varint(value: int, width: int = 0) -> bytes:
    """Encode ``value``; with ``width``, padded to so many bytes (protobuf allows it)."""
    out = bytearray()
    while value > 0x7F or len(out) + 1 < width:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
