"""The layout of a compressed model file (``.slz``): encoding and decoding, no I/O but reads.

    head      16 bytes: magic, version, block size
    frames    one for each block of 1 MiB, in the order in which they were written
    spec      JSON: [[name, dtype, [dimensions]], ...]
    index     28 bytes for each block: offset and length of its frame, the block's hash
    footer    136 bytes: positions of spec and index, sizes, checksums, magic

A frame is a zstd frame, or the raw block if it has the length of the block: a compressed frame is
stored only if it is shorter. There may be dead frames, of blocks that were written twice. Integers
are little-endian. The footer is written last, so a file without a valid footer is not a model.
"""

from __future__ import annotations

import json
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from streamlink.errors import CorruptStore, ModelError
from streamlink.model.block_hashes import block_range
from streamlink.model.digest import BLOCK_BYTES, BLOCK_HASH_BYTES, block_count
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.stores.files import read_bytes

__all__ = ["HEAD", "MAGIC", "Contents", "encode_tail", "index_bytes", "new_index", "read_contents"]

MAGIC = b"STREAMLZ"
"""The first eight bytes of the file."""

_VERSION = 1
_HEAD = struct.Struct("<8sII")
_FOOTER = struct.Struct("<QQQQQ16s16s32sQ8s")  # the last integer is the checksum of all before it
_FOOTER_MAGIC = b"ZLMAERTS"
# Packed, 28 bytes: NumPy aligns fields only where it is asked to. The index is written and read as
# it lies in memory, so its byte order is explicit.
_INDEX = np.dtype([("offset", "<u8"), ("length", "<u4"), ("hash", "u1", (BLOCK_HASH_BYTES,))])

HEAD = _HEAD.pack(MAGIC, _VERSION, BLOCK_BYTES)
"""The head of a file of this version; the frames follow."""

Index = npt.NDArray[Any]
"""One record (offset, length, hash) for each block."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The model's spec, and the index of its blocks."""

    spec: ModelSpec
    index: Index


def index_bytes(spec: ModelSpec) -> int:
    """Return the length of the index of such a model (bytes)."""
    return block_count(spec.nbytes) * _INDEX.itemsize


def new_index(spec: ModelSpec) -> Index:
    """Return an index with a zero record for each block (length 0: not written yet)."""
    return np.zeros(block_count(spec.nbytes), _INDEX)


def encode_tail(spec: ModelSpec, index: Index, offset: int) -> bytes:
    """Return everything that follows the frames, which end at ``offset``."""
    entries = [[tensor.name, tensor.dtype, tensor.shape] for tensor in spec.tensors]
    text, records = json.dumps(entries, separators=(",", ":")).encode(), index.tobytes()
    # The fixed end of the file: a reader finds everything from there, and the frames can be
    # appended before anybody knows their sizes.
    footer = _FOOTER.pack(
        offset,
        len(text),
        offset + len(text),
        len(index),
        spec.nbytes,
        xxhash.xxh3_128_digest(text),
        xxhash.xxh3_128_digest(records),
        spec.digest,
        0,
        _FOOTER_MAGIC,
    )
    return text + records + _with_checksum(footer)


def read_contents(fd: int, path: Path) -> Contents:
    """Read and check everything but the frames of an open file.

    Raises:
        CorruptStore: it is not such a file, is damaged, or was cut short.
    """
    file_bytes = os.fstat(fd).st_size
    if file_bytes < _HEAD.size + _FOOTER.size:
        raise CorruptStore(f"{file_bytes} bytes are too few for a compressed model", path=str(path))
    _check_head(read_bytes(fd, _HEAD.size, 0, path), path)
    footer = read_bytes(fd, _FOOTER.size, file_bytes - _FOOTER.size, path)
    if footer[-8:] != _FOOTER_MAGIC or _with_checksum(footer) != footer:
        raise CorruptStore("its footer is damaged or missing; it was cut short", path=str(path))
    fields = _FOOTER.unpack(footer)
    text_at, text_bytes, index_at, blocks, nbytes, text_sum, index_sum, spec_digest, _, _ = fields
    index_bytes = blocks * _INDEX.itemsize
    # Before either is read: this bounds both by the size of the file. Python's integers do not
    # wrap, so a huge field cannot pass.
    if text_at + text_bytes != index_at or index_at + index_bytes + _FOOTER.size != file_bytes:
        raise CorruptStore("spec and index do not end where its footer begins", path=str(path))
    text = _read_checked(fd, text_at, text_bytes, text_sum, path)
    records = _read_checked(fd, index_at, index_bytes, index_sum, path)
    spec = _parse_spec(text, path)
    if (spec.nbytes, spec.digest, block_count(nbytes)) != (nbytes, spec_digest, blocks):
        raise CorruptStore("spec, index and footer contradict each other", path=str(path))
    index = np.frombuffer(records, _INDEX)
    _check_index(index, spec, text_at, path)
    return Contents(spec, index)


def _with_checksum(footer: bytes) -> bytes:
    """Return the footer with its checksum filled in."""
    start, stop = _FOOTER.size - 16, _FOOTER.size - 8
    checksum = struct.pack("<Q", xxhash.xxh3_64_intdigest(footer[:start]))
    return footer[:start] + checksum + footer[stop:]


def _check_head(head: bytes, path: Path) -> None:
    magic, version, block_bytes = _HEAD.unpack(head)
    if magic != MAGIC:
        raise CorruptStore("it is not a compressed model", path=str(path))
    if (version, block_bytes) != (_VERSION, BLOCK_BYTES):
        raise CorruptStore(
            f"it has version {version} and blocks of {block_bytes} bytes; this program reads "
            f"version {_VERSION} with blocks of {BLOCK_BYTES}",
            path=str(path),
        )


def _read_checked(fd: int, offset: int, length: int, checksum: bytes, path: Path) -> bytes:
    data = read_bytes(fd, length, offset, path)
    if xxhash.xxh3_128_digest(data) != checksum:
        raise CorruptStore("its spec or index is damaged", path=str(path))
    return data


def _parse_spec(text: bytes, path: Path) -> ModelSpec:
    try:
        entries = json.loads(text)
        return ModelSpec(tuple(TensorSpec(name, dtype, tuple(s)) for name, dtype, s in entries))
    except (ValueError, TypeError, RecursionError, ModelError) as error:
        raise CorruptStore(f"its spec cannot be read: {error}", path=str(path)) from error


def _check_index(index: Index, spec: ModelSpec, frames_end: int, path: Path) -> None:
    """Check that every frame is inside the file and no longer than its block."""
    # NumPy's integers do wrap. So nothing is added here: ``offset + length`` of a hostile index may
    # be small again, and a difference below zero would be huge; hence ``minimum`` below.
    offsets, lengths = index["offset"], index["length"].astype(np.uint64)
    longest = np.full(len(index), BLOCK_BYTES, np.uint64)
    if len(index):
        # The last block may be shorter than the others.
        start, stop = block_range(len(index) - 1, spec.nbytes)
        longest[-1] = stop - start
    is_good = (lengths > 0) & (lengths <= longest) & (offsets >= _HEAD.size)
    is_good &= (offsets <= frames_end) & (lengths <= frames_end - np.minimum(offsets, frames_end))
    if not is_good.all():
        block = int(np.flatnonzero(~is_good)[0])
        raise CorruptStore(
            f"its index places the frame of block {block} outside the frames",
            path=str(path),
            offset=block * BLOCK_BYTES,
        )
