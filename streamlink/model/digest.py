"""A digest of a whole model that does not depend on how its bytes travelled or are stored.

The logical line is cut into fixed blocks of 1 MiB (the last may be shorter). A *hash* is the
xxh3-128 of one block; the *root* is the SHA-256 over a tag, the spec's digest, the number of bytes
and all hashes in order. Chunk sizes, encodings, interruptions and resumes leave it as it is, and a
store that keeps the hashes tells its digest without reading the model.

The digest of an *extent* is made in the same way, with the hashes of what of each block lies in it.
Before them the root's hash covers where it lies: of a *tail*, which ends with the model, its start
as 8 bytes; of one that ends before, a tag, its start and its stop. That of an extent over all of
the model is the model's.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

import xxhash

from streamlink.errors import ModelError
from streamlink.extent import Extent
from streamlink.model.interfaces import ModelSource, Progress, watch
from streamlink.model.spec import ModelSpec

__all__ = [
    "BLOCK_BYTES",
    "BLOCK_HASH_BYTES",
    "DigestBuilder",
    "HasBlockHashes",
    "block_count",
    "block_hash_of",
    "digest_of",
    "root_hash",
]

BLOCK_BYTES = 1 << 20
"""Logical bytes under one hash."""

BLOCK_HASH_BYTES = 16
"""Bytes of one hash."""

_TAG = b"streamlink model digest 1\0"
_EXTENT_TAG = (
    b"extent\0"  # no multiple of 8 bytes: never mistaken for the mark of a tail, or hashes
)

OnBlockHash = Callable[[int, bytes], None]


@runtime_checkable
class HasBlockHashes(Protocol):
    """A source that keeps the hashes of what it stores, and so knows its digest without reading."""

    def block_hash(self, block: int) -> bytes | None:
        """Return a block's hash, or ``None`` where this model was stored without hashes."""

    def digest(self) -> str:
        """Return the root in hexadecimal, from the hashes where there are any."""


class DigestBuilder:
    """Takes a model's bytes in logical order, in pieces of any size, in constant memory.

    Args:
        spec: the model.
        on_block_hash: called with (block number, block_hash) as each block is complete.
        extent: the digest is that of these bytes; None: of the whole model.

    Raises:
        ValueError: the extent is not inside the model.
    """

    def __init__(
        self,
        spec: ModelSpec,
        on_block_hash: OnBlockHash | None = None,
        *,
        extent: Extent | None = None,
    ) -> None:
        extent = extent or Extent(0, spec.nbytes)
        spec.check_range(extent.start, extent.nbytes)
        self._extent = extent
        self._root = _root_hasher(spec)
        if extent.stop < spec.nbytes:
            self._root.update(_EXTENT_TAG + struct.pack("<QQ", extent.start, extent.stop))
        elif extent.start:
            self._root.update(struct.pack("<Q", extent.start))
        self._block = xxhash.xxh3_128()
        self._offset = extent.start
        self._on_block_hash = on_block_hash

    @property
    def offset(self) -> int:
        """The byte of the model that ``update`` goes on at."""
        return self._offset

    def update(self, view: memoryview) -> None:
        """Take the next bytes (flat, C-contiguous).

        Raises:
            ModelError: these are more bytes than the extent has.
        """
        if self._offset + view.nbytes > self._extent.stop:
            raise ModelError(f"bytes behind {self._extent} of the model were given to its digest")
        start, length = 0, view.nbytes
        while start < length:
            stop = min(length, start + BLOCK_BYTES - self._offset % BLOCK_BYTES)
            self._take(view[start:stop])
            start = stop

    def digest(self) -> bytes:
        """Return the root (32 bytes).

        Raises:
            ModelError: bytes are still missing.
        """
        extent = self._extent
        if self._offset != extent.stop:
            done = self._offset - extent.start
            raise ModelError(
                f"a digest of {extent.nbytes} bytes was asked for after {done} of them"
            )
        return self._root.digest()

    def hexdigest(self) -> str:
        """Return the root as 64 hexadecimal digits; raises as ``digest`` does."""
        return self.digest().hex()

    def _take(self, piece: memoryview) -> None:
        """Take a piece that does not reach beyond the present block."""
        self._offset += piece.nbytes
        complete = self._offset % BLOCK_BYTES == 0 or self._offset == self._extent.stop
        if complete and (piece.nbytes == BLOCK_BYTES or not self._is_block_begun(piece)):
            self._finish(
                block_hash_of(piece)
            )  # the whole block at once: no state to feed and reset
            return
        self._block.update(piece)
        if complete:
            block_hash = self._block.digest()
            self._block.reset()
            self._finish(block_hash)

    def _is_block_begun(self, piece: memoryview) -> bool:
        """Tell whether bytes of the block came before this piece, which ends it."""
        before = self._offset - piece.nbytes
        return before % BLOCK_BYTES != 0

    def _finish(self, block_hash: bytes) -> None:
        self._root.update(block_hash)
        if self._on_block_hash is not None:
            self._on_block_hash((self._offset - 1) // BLOCK_BYTES, block_hash)


def block_count(nbytes: int) -> int:
    """Return how many blocks, hence hashes, a model of ``nbytes`` has."""
    return -(-nbytes // BLOCK_BYTES)


def block_hash_of(block: memoryview | bytes) -> bytes:
    """Return the hash (16 bytes, xxHash's canonical big-endian form) of one whole block."""
    return xxhash.xxh3_128_digest(block)


def root_hash(spec: ModelSpec, hashes: Iterable[bytes | memoryview]) -> str:
    """Return the root in hexadecimal. Several hashes may come joined in one item.

    Raises:
        ModelError: there are more or fewer hashes than the model has blocks.
    """
    hasher, taken = _root_hasher(spec), 0
    for block_hash in hashes:
        hasher.update(block_hash)
        taken += len(block_hash)
    if taken != block_count(spec.nbytes) * BLOCK_HASH_BYTES:
        raise ModelError(
            f"{taken / BLOCK_HASH_BYTES:g} hashes for a model of {block_count(spec.nbytes)} blocks"
        )
    return hasher.hexdigest()


def digest_of(
    source: ModelSource, piece: int = BLOCK_BYTES, progress: Progress | None = None
) -> str:
    """Read the whole source, ``piece`` bytes at a time, and return its root in hexadecimal.

    Raises:
        SourceChanged: somebody wrote to the source meanwhile, and it noticed.
    """
    check = watch(source)
    builder = DigestBuilder(source.spec)
    nbytes = source.spec.nbytes
    for offset in range(0, nbytes, piece):
        for view in source.read(offset, min(piece, nbytes - offset)):
            builder.update(view)
        if progress is not None:
            progress(builder.offset)
    check()
    return builder.hexdigest()


def _root_hasher(spec: ModelSpec) -> hashlib._Hash:
    return hashlib.sha256(_TAG + spec.digest + struct.pack("<Q", spec.nbytes))
