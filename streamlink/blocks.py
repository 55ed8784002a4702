"""The blocks of 1 MiB that a model's bytes are hashed in: by its digest, and by each chunk.

Both hash the same parts of the same blocks, so where a chunk holds whole blocks its bytes are
hashed once: a chunk's hash is computed over its header and the hashes of its parts
(``transport/chunks.py``), the digest over those of all blocks (``model/digest.py``).
"""

from __future__ import annotations

from collections.abc import Iterable

import xxhash

__all__ = ["BLOCK_BYTES", "BLOCK_HASH_BYTES", "block_hash_of", "part_hashes"]

BLOCK_BYTES = 1 << 20
"""Logical bytes of one block."""

BLOCK_HASH_BYTES = 16
"""Bytes of one block hash."""


def block_hash_of(block: memoryview | bytes) -> bytes:
    """Return the hash (16 bytes, xxHash's canonical big-endian form) of one whole block."""
    # Not a cryptographic hash: it detects damage at the speed of memory. Against changes on purpose
    # there is TLS.
    return xxhash.xxh3_128_digest(block)


def part_hashes(offset: int, views: Iterable[memoryview]) -> bytes:
    """Return the hashes of the parts of blocks that consecutive bytes consist of, joined.

    Args:
        offset: where they begin; a part ends at each multiple of ``BLOCK_BYTES``.
        views: the bytes (flat, C-contiguous).
    """
    hashes = []
    part, at = xxhash.xxh3_128(), offset
    for view in views:
        start, length = 0, view.nbytes
        while start < length:
            stop = min(length, start + BLOCK_BYTES - at % BLOCK_BYTES)
            part.update(view[start:stop])
            at += stop - start
            start = stop
            if at % BLOCK_BYTES == 0:
                hashes.append(part.digest())
                part.reset()
    if at % BLOCK_BYTES and at > offset:
        hashes.append(part.digest())
    return b"".join(hashes)
