"""The file beside safetensors shards that keeps the block hashes, so that reads are verified.

Layout, little-endian: magic (8 bytes), bytes of the model (u64), the spec's digest (32), the hashes
(16 each), and the xxh3-128 of all that (16).
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import xxhash

from streamlink.descriptors import patiently
from streamlink.errors import CorruptStore
from streamlink.model.digest import BLOCK_HASH_BYTES, block_count
from streamlink.model.spec import ModelSpec
from streamlink.stores.files import read_bytes, write_all

__all__ = ["read_block_hashes", "write_block_hashes"]

_MAGIC = b"SLDIGST1"
_HEAD = struct.Struct("<8sQ32s")
_CHECKSUM_BYTES = 16


def write_block_hashes(path: Path, spec: ModelSpec, hashes: bytes) -> None:
    """Write a new sidecar and bring it to the disk."""
    head = _HEAD.pack(_MAGIC, spec.nbytes, spec.digest)
    data = head + hashes
    fd = patiently(os.open, path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        write_all(fd, data + xxhash.xxh3_128_digest(data), 0)
        os.fsync(fd)
    finally:
        os.close(fd)


def read_block_hashes(path: Path, spec: ModelSpec) -> bytes:
    """Return all hashes in order, joined.

    Raises:
        FileNotFoundError: there is no such sidecar.
        CorruptStore: it is damaged, or belongs to another model.
    """
    expected = _HEAD.size + block_count(spec.nbytes) * BLOCK_HASH_BYTES + _CHECKSUM_BYTES
    fd = patiently(os.open, path, os.O_RDONLY)
    try:
        data = read_bytes(fd, min(expected, os.fstat(fd).st_size), 0, path)
    finally:
        os.close(fd)
    body, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    if len(data) != expected or xxhash.xxh3_128_digest(body) != checksum:
        raise CorruptStore("the digests are damaged or of another model", path=str(path))
    if body[: _HEAD.size] != _HEAD.pack(_MAGIC, spec.nbytes, spec.digest):
        raise CorruptStore("these are the digests of another model", path=str(path))
    return body[_HEAD.size :]
