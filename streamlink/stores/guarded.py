"""A source that detects every change: it hashes all blocks once and checks each block it returns.

For sources that cannot detect changes themselves: NumPy arrays have no version counters, and files
of other tools have no block hashes.
"""

from __future__ import annotations

from collections.abc import Callable

from streamlink.errors import SourceChanged
from streamlink.model.beside import Beside, HasBeside, SideLimits
from streamlink.model.block_hashes import block_range
from streamlink.model.digest import BLOCK_BYTES, BLOCK_HASH_BYTES, DigestBuilder, block_hash_of
from streamlink.model.interfaces import ModelSource, Payload, watch
from streamlink.model.payloads import BufferPool
from streamlink.stores.block_cache import BlockCache

__all__ = ["GuardedSource"]

_IDLE_BUFFER_BYTES = 8 << 20
_CACHED_BLOCKS = 2


class GuardedSource:
    """Hashes another source completely when it is made, and compares later reads with the hashes.

    Price: one more read of the model before the first byte is sent, a copy of each block, and 16
    bytes of memory for each MiB of the model. A read returns the copy that was compared, so a
    later write cannot change it (no time-of-check to time-of-use gap). A write *during* the first
    pass is not detected, unless ``source`` detects it: nobody may write until this object is made.

    Args:
        source: closed with this one.
        progress: called with the bytes of the first pass.

    Raises:
        SourceChanged: the source detected a change during the first pass.
    """

    def __init__(
        self, source: ModelSource, progress: Callable[[int], None] = lambda done: None
    ) -> None:
        self._source = source
        self._hashes = bytearray()
        self._digest = self._note(progress)
        self._pool = BufferPool(_IDLE_BUFFER_BYTES)
        self._blocks = BlockCache(source.spec, self._load, _CACHED_BLOCKS)
        self.spec = source.spec
        """The tensors, in logical order."""

    def read(self, offset: int, length: int) -> Payload:
        """Return ``[offset, offset + length)`` as it was in the first pass.

        Raises:
            SourceChanged: a block changed since; names the tensor and byte where it begins.
        """
        return self._blocks.read(offset, length)

    def block_hash(self, block: int) -> bytes:
        """Return a block's hash from the first pass."""
        return bytes(self._hashes[block * BLOCK_HASH_BYTES : (block + 1) * BLOCK_HASH_BYTES])

    def beside(self, limits: SideLimits) -> Beside:
        """Return what is beside the source; see ``HasBeside``."""
        source = self._source
        return source.beside(limits) if isinstance(source, HasBeside) else Beside()

    def digest(self) -> str:
        """Return the model's digest from the first pass."""
        return self._digest

    def identity(self) -> str:
        """Return a name for the content: its digest."""
        return self._digest

    def close(self) -> None:
        """Close the source and drop cached blocks."""
        self._blocks.clear()
        self._source.close()

    def _note(self, progress: Callable[[int], None]) -> str:
        # Before the first read: the source's own check, where it has one, covers the first pass,
        # which the hashes cannot.
        check, nbytes = watch(self._source), self._source.spec.nbytes
        builder = DigestBuilder(
            self._source.spec, lambda _, block_hash: self._hashes.extend(block_hash)
        )
        for offset in range(0, nbytes, BLOCK_BYTES):
            for view in self._source.read(offset, min(BLOCK_BYTES, nbytes - offset)):
                builder.update(view)
            progress(builder.offset)
        check()
        return builder.hexdigest()

    def _load(self, block: int) -> memoryview:
        start, stop = block_range(block, self.spec.nbytes)
        # Copied first, then compared. A view that was compared could still change before it is
        # sent.
        copy, filled = self._pool.take(stop - start), 0
        for view in self._source.read(start, stop - start):
            copy[filled : filled + view.nbytes] = view
            filled += view.nbytes
        if block_hash_of(copy) != self.block_hash(block):
            (first, inside), last = self.spec.locate(start), self.spec.locate(stop - 1)[0]
            names = [self.spec.tensors[index].name for index in (first, last)]
            others = f" (up to tensor {names[1]!r})" if last > first else ""
            raise SourceChanged(
                f"the block of {stop - start} bytes that begins here{others} changed since the "
                "transfer began",
                tensor=names[0],
                inside=inside,
            )
        return copy
