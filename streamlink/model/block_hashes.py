"""The block hashes of a model while it is being written, in whatever order its bytes arrive.

Bytes that arrive in order, or as whole blocks, are hashed as they pass. The hash of a block that
arrived in pieces out of order, or that was written again later, is *unknown*: at the end the sink
reads that block back and sets its hash.
"""

from __future__ import annotations

from collections.abc import Iterator

import xxhash

from streamlink.model.digest import BLOCK_BYTES, BLOCK_HASH_BYTES, block_count, block_hash_of

__all__ = ["BlockHashTracker", "block_range"]


def block_range(block: int, nbytes: int) -> tuple[int, int]:
    """Return the logical range of a block in a model of ``nbytes``."""
    return block * BLOCK_BYTES, min(nbytes, (block + 1) * BLOCK_BYTES)


class BlockHashTracker:
    """Observes the writes to a model of ``nbytes``. Needs 17 bytes for each block, no payload.

    It hashes one partly written block at a time: more streaming states would cost memory for each
    block that is open, and nearly all transfers write in order.
    """

    def __init__(self, nbytes: int) -> None:
        self._nbytes = nbytes
        self._hashes = bytearray(block_count(nbytes) * BLOCK_HASH_BYTES)
        # A bytearray of flags and not a set: 1 byte for each block, and ``find`` is one C call.
        self._is_known = bytearray(block_count(nbytes))
        self._hasher = xxhash.xxh3_128()
        self._next = -1  # the byte that the block in ``_hasher`` continues with; -1: no block

    @property
    def hashes(self) -> bytes:
        """All block hashes in order, joined; unknown ones are zero bytes."""
        return bytes(self._hashes)

    def take(self, offset: int, payload: memoryview) -> None:
        """Record that ``payload`` (flat) was written at ``offset``."""
        start, stop = offset, offset + payload.nbytes
        while start < stop:
            block = start // BLOCK_BYTES
            begin, end = block_range(block, self._nbytes)
            piece_stop = min(stop, end)
            piece = payload[start - offset : piece_stop - offset]
            if start == begin and piece_stop == end:
                self.set(block, block_hash_of(piece))
            else:
                self._take_part(block, start, piece)
            start = piece_stop

    def set(self, block: int, block_hash: bytes) -> None:
        """Set the hash of a block, which was read back or is known from elsewhere."""
        # Otherwise the streaming state could later overwrite this hash with one of older bytes.
        if self._hashed_block() == block:
            self._next = -1
        self._hashes[block * BLOCK_HASH_BYTES : (block + 1) * BLOCK_HASH_BYTES] = block_hash
        self._is_known[block] = 1

    def unknown(self) -> Iterator[int]:
        """Yield the blocks whose hash is unknown."""
        block = self._is_known.find(0)
        while block >= 0:
            yield block
            block = self._is_known.find(0, block + 1)

    def _take_part(self, block: int, start: int, piece: memoryview) -> None:
        begin, end = block_range(block, self._nbytes)
        # At once, although it may become known again below: a block that is written a second time
        # has no valid hash until all of it was hashed anew.
        self._is_known[block] = 0
        if start == begin:
            self._hasher.reset()
        elif start != self._next:
            if self._hashed_block() == block:
                self._next = -1  # bytes changed that the state has hashed already, or a gap is left
            return
        self._hasher.update(piece)
        self._next = start + piece.nbytes
        if self._next == end:
            self.set(block, self._hasher.digest())
            self._next = -1

    def _hashed_block(self) -> int:
        """Return the block that is being hashed; -1: none. ``_next`` is always inside it."""
        return self._next // BLOCK_BYTES if self._next >= 0 else -1
