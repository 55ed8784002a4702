"""The digest of a model: a hash list, as BitTorrent uses it, over blocks of 1 MiB.

The logical bytes are cut into blocks of 1 MiB; the last may be shorter. Each *block hash* is the
xxh3-128 of one block. The digest, the *root hash* of the list, is the SHA-256 over a tag, the
spec's digest, the number of bytes and all block hashes in order. It does not depend on chunk sizes,
encodings, interruptions or the kind of store, and a store that keeps the block hashes knows its
digest without reading the model.

The digest of an *extent* is computed in the same way, over the hashes of those parts of the blocks
that lie in the extent. The root hash then also covers the position: for a *tail*, which ends where
the model ends, its start as 8 bytes; for any other extent a tag, its start and its stop. The digest
of an extent over the whole model is the digest of the model.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

import xxhash

from streamlink.blocks import BLOCK_BYTES, BLOCK_HASH_BYTES, block_hash_of
from streamlink.errors import ModelError
from streamlink.extent import Extent
from streamlink.model.interfaces import ModelSource, Payload, Progress, watch
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

# Domain separation: nothing else that is hashed here begins with these bytes. The number is the
# version of the construction.
_TAG = b"streamlink model digest 1\0"
# Seven bytes: an input with this tag can never have the length of one with a tail's start (8 bytes)
# or without a position, because all that follows is a multiple of 8 bytes.
_EXTENT_TAG = b"extent\0"

OnBlockHash = Callable[[int, bytes], None]


@runtime_checkable
class HasBlockHashes(Protocol):
    """A source that stores its block hashes, and so knows its digest without reading the model."""

    def block_hash(self, block: int) -> bytes | None:
        """Return a block's hash; None: this model was stored without block hashes."""

    def digest(self) -> str:
        """Return the digest in hexadecimal, from the block hashes if they are stored."""


class DigestBuilder:
    """Computes a digest from bytes in logical order, in pieces of any size, in constant memory.

    Args:
        spec: the model.
        on_block_hash: called with (block number, block hash) when a block is complete.
        extent: compute the digest of these bytes; None: of the whole model.

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
        # A whole model adds no position, so an extent over all of it has the model's digest.
        if extent.stop < spec.nbytes:
            self._root.update(_EXTENT_TAG + struct.pack("<QQ", extent.start, extent.stop))
        elif extent.start:
            self._root.update(struct.pack("<Q", extent.start))
        self._block = xxhash.xxh3_128()
        self._offset = extent.start
        self._on_block_hash = on_block_hash
        self._collected: list[bytes] | None = None

    @property
    def offset(self) -> int:
        """The model's byte that the next ``update`` begins with."""
        return self._offset

    def update(self, view: memoryview) -> None:
        """Take the next bytes (flat, C-contiguous).

        Raises:
            ModelError: the extent has fewer bytes.
        """
        if self._offset + view.nbytes > self._extent.stop:
            raise ModelError(
                f"{view.nbytes} bytes from byte {self._offset} on reach beyond {self._extent}, the "
                "part of the model that the digest covers"
            )
        start, length = 0, view.nbytes
        while start < length:
            # Blocks are counted from the model's start, not from the extent's: the hashes of the
            # whole blocks in an extent are then those that a store has.
            stop = min(length, start + BLOCK_BYTES - self._offset % BLOCK_BYTES)
            self._take(view[start:stop])
            start = stop

    def update_all(self, payload: Payload) -> bytes:
        """Take the next bytes; returns their block hashes, joined; empty: not whole blocks.

        Raises:
            ModelError: the extent has fewer bytes.
        """
        if not self._is_between_blocks(self._offset):
            for view in payload:
                self.update(view)
            return b""
        collected = self._collected = []
        try:
            for view in payload:
                self.update(view)
        finally:
            self._collected = None
        return b"".join(collected) if self._is_between_blocks(self._offset) else b""

    def update_hashed(self, nbytes: int, hashes: bytes) -> bool:
        """Take the next ``nbytes`` by the hashes of their parts of blocks, joined.

        Returns:
            False: they are not whole blocks, so nothing was taken, and ``update`` is needed.
        """
        end = self._offset + nbytes
        is_whole = self._is_between_blocks(self._offset) and self._is_between_blocks(end)
        if not is_whole or not hashes:
            return False
        for at in range(0, len(hashes), BLOCK_HASH_BYTES):
            self._offset = min(end, self._offset + BLOCK_BYTES - self._offset % BLOCK_BYTES)
            self._finish(hashes[at : at + BLOCK_HASH_BYTES])
        return True

    def digest(self) -> bytes:
        """Return the digest (32 bytes).

        Raises:
            ModelError: bytes are still missing.
        """
        extent = self._extent
        if self._offset != extent.stop:
            done = self._offset - extent.start
            raise ModelError(
                f"the digest of {extent.nbytes} bytes was requested after only {done} of them"
            )
        return self._root.digest()

    def hexdigest(self) -> str:
        """Return the digest as 64 hexadecimal digits; raises as ``digest`` does."""
        return self.digest().hex()

    def _take(self, piece: memoryview) -> None:
        """Hash a piece that lies in one block."""
        self._offset += piece.nbytes
        complete = self._offset % BLOCK_BYTES == 0 or self._offset == self._extent.stop
        if complete and (piece.nbytes == BLOCK_BYTES or not self._is_block_begun(piece)):
            self._finish(block_hash_of(piece))  # one-shot: cheaper than the streaming state
            return
        self._block.update(piece)
        if complete:
            block_hash = self._block.digest()
            self._block.reset()
            self._finish(block_hash)

    def _is_block_begun(self, piece: memoryview) -> bool:
        """Tell whether earlier pieces held bytes of the block that this piece completes."""
        before = self._offset - piece.nbytes
        return before % BLOCK_BYTES != 0

    def _is_between_blocks(self, offset: int) -> bool:
        """Tell whether no block has bytes on both sides of ``offset`` that are in the extent."""
        extent = self._extent
        is_inside = extent.start < offset < extent.stop
        return offset % BLOCK_BYTES == 0 if is_inside else offset in (extent.start, extent.stop)

    def _finish(self, block_hash: bytes) -> None:
        self._root.update(block_hash)
        if self._collected is not None:
            self._collected.append(block_hash)
        if self._on_block_hash is not None:
            # ``_offset`` is already behind the block; its last byte is in it, even if the block is
            # short.
            self._on_block_hash((self._offset - 1) // BLOCK_BYTES, block_hash)


def block_count(nbytes: int) -> int:
    """Return how many blocks a model of ``nbytes`` has."""
    return -(-nbytes // BLOCK_BYTES)


def root_hash(spec: ModelSpec, hashes: Iterable[bytes | memoryview]) -> str:
    """Return the digest in hexadecimal. One item may hold several block hashes, joined.

    Raises:
        ModelError: the number of hashes is not the model's number of blocks.
    """
    hasher, taken = _root_hasher(spec), 0
    for block_hash in hashes:
        hasher.update(block_hash)
        taken += len(block_hash)
    if taken != block_count(spec.nbytes) * BLOCK_HASH_BYTES:
        raise ModelError(
            f"{taken / BLOCK_HASH_BYTES:g} block hashes for a model of "
            f"{block_count(spec.nbytes)} blocks"
        )
    return hasher.hexdigest()


def digest_of(
    source: ModelSource, piece: int = BLOCK_BYTES, progress: Progress | None = None
) -> str:
    """Read the whole source, ``piece`` bytes at a time, and return its digest in hexadecimal.

    Raises:
        SourceChanged: the source detected that it was modified meanwhile.
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
