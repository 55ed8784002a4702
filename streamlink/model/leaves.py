"""Leaf digests of a model while it is being written, in whatever order its bytes come.

Bytes that come in order, or as whole blocks, are hashed as they pass. A block that came in pieces
out of order, or was touched again later, is *unknown*: its sink reads it back and tells its leaf at
the end.
"""

from __future__ import annotations

from collections.abc import Iterator

import xxhash

from streamlink.model.digest import BLOCK_BYTES, LEAF_BYTES, block_count, leaf_of

__all__ = ["LeafTracker", "block_range"]


def block_range(block: int, nbytes: int) -> tuple[int, int]:
    """Return the logical range of a block in a model of ``nbytes``."""
    return block * BLOCK_BYTES, min(nbytes, (block + 1) * BLOCK_BYTES)


class LeafTracker:
    """Follows the writes to a model of ``nbytes``. Holds 17 bytes per block, and no payload."""

    def __init__(self, nbytes: int) -> None:
        self._nbytes = nbytes
        self._leaves = bytearray(block_count(nbytes) * LEAF_BYTES)
        self._is_known = bytearray(block_count(nbytes))
        self._hasher = xxhash.xxh3_128()
        self._next = -1  # where the block in ``_hasher`` goes on; -1: none is begun

    @property
    def leaves(self) -> bytes:
        """All leaves in order, joined; those of unknown blocks are zero bytes."""
        return bytes(self._leaves)

    def take(self, offset: int, payload: memoryview) -> None:
        """Note that ``payload`` (flat) was written at ``offset``."""
        start, stop = offset, offset + payload.nbytes
        while start < stop:
            block = start // BLOCK_BYTES
            begin, end = block_range(block, self._nbytes)
            piece_stop = min(stop, end)
            piece = payload[start - offset : piece_stop - offset]
            if start == begin and piece_stop == end:
                self.set(block, leaf_of(piece))
            else:
                self._take_part(block, start, piece)
            start = piece_stop

    def set(self, block: int, leaf: bytes) -> None:
        """Tell a block's leaf."""
        if self._hashed_block() == block:
            self._next = -1
        self._leaves[block * LEAF_BYTES : (block + 1) * LEAF_BYTES] = leaf
        self._is_known[block] = 1

    def unknown(self) -> Iterator[int]:
        """Yield the blocks whose leaf still has to be told."""
        block = self._is_known.find(0)
        while block >= 0:
            yield block
            block = self._is_known.find(0, block + 1)

    def _take_part(self, block: int, start: int, piece: memoryview) -> None:
        begin, end = block_range(block, self._nbytes)
        self._is_known[block] = 0
        if start == begin:
            self._hasher.reset()
        elif start != self._next:
            if self._hashed_block() == block:
                self._next = -1  # something behind the present place changed
            return
        self._hasher.update(piece)
        self._next = start + piece.nbytes
        if self._next == end:
            self.set(block, self._hasher.digest())
            self._next = -1

    def _hashed_block(self) -> int:
        """Return the block that is in the hasher; ``_next`` is always inside it."""
        return self._next // BLOCK_BYTES if self._next >= 0 else -1
