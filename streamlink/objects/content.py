"""``Content``: the bytes of one object, opened for its first reader and shared by all of them.

What is in memory is read where it is. Everything else is read through a small cache of blocks: the
first reader of a block reads the source, those that come soon after share the result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamlink.errors import UnknownObject
from streamlink.model.block_hashes import block_range
from streamlink.model.digest import BLOCK_BYTES, HasBlockHashes
from streamlink.model.interfaces import Check, ModelInPlace, ModelSource, Payload
from streamlink.model.payloads import join
from streamlink.model.spec import ModelSpec
from streamlink.stores.block_cache import BlockCache

__all__ = ["Content", "SharedSource", "shared"]


def _nothing() -> None:
    pass


class Content:
    """One object's model, as the server holds it. Any thread may use it.

    Args:
        spec: the tensors.
        open_source: called for the first of the readers at a time.
        closes: whether what it returns is closed after the last of them; else it is the caller's.
        shared_bytes: how far apart its readers may be and still share what is read.
        check: raises ``SourceChanged`` if the model was modified since it was put.
        release: called once, when nobody needs the model any more: removes it from the disk.
    """

    def __init__(
        self,
        spec: ModelSpec,
        open_source: Callable[[], ModelSource],
        *,
        closes: bool,
        shared_bytes: int,
        check: Check = _nothing,
        release: Callable[[], object] = _nothing,
    ) -> None:
        self.spec = spec
        self.check = check
        self._open, self._release = open_source, release
        self._closes, self._shared_bytes = closes, shared_bytes
        self._lock = threading.Lock()
        self._source: ModelSource | None = None
        self._readers = 0
        self._is_released = False

    @contextmanager
    def reading(self) -> Iterator[ModelSource]:
        """Give the model, which stays open within the block.

        Raises:
            UnknownObject: it was released.
            StoreError: it cannot be opened.
        """
        with self._lock:
            if self._is_released:
                raise UnknownObject("the object was released at the server")
            if self._source is None:
                self._source = shared(self._open(), self._shared_bytes, closes=self._closes)
            source = self._source
            self._readers += 1
        try:
            yield source
        finally:
            with self._lock:
                self._readers -= 1
                unused = None if self._readers else self._source
                if unused is not None:
                    self._source = None
            if isinstance(unused, SharedSource) or (unused is not None and self._closes):
                unused.close()

    def release(self) -> None:
        """Remove it. Whoever reads it still may go on: open files outlive their names."""
        with self._lock:
            is_first, self._is_released = not self._is_released, True
        if is_first:
            self._release()


def shared(source: ModelSource, nbytes: int, *, closes: bool) -> ModelSource:
    """Return ``source`` as its readers share it; they may be ``nbytes`` apart.

    Arrays and tensors are returned as they are: their bytes need no second place.

    Args:
        source: the model.
        nbytes: how much is kept of it.
        closes: whether closing what is returned closes ``source`` as well.
    """
    if isinstance(source, ModelInPlace):
        return source
    is_hashed = isinstance(source, HasBlockHashes) and source.block_hash(0) is not None
    kind = _SharedHashedSource if is_hashed else SharedSource
    # One more: a range may begin in one block and end in the next.
    return kind(source, nbytes // BLOCK_BYTES + 1, closes=closes)


class SharedSource:
    """Reads another source one block at a time, and each block once for all who read it soon.

    Args:
        source: the model.
        blocks: how many blocks of 1 MiB are kept (count).
        closes: whether ``close`` closes the source as well.
    """

    def __init__(self, source: ModelSource, blocks: int, *, closes: bool) -> None:
        self._source, self._closes = source, closes
        self._blocks = BlockCache(source.spec, self._load, blocks)

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._source.spec

    def read(self, offset: int, length: int) -> Payload:
        """Return that range; raises as the source does."""
        return self._blocks.read(offset, length)

    def close(self) -> None:
        """Drop what is kept, and close the source if that was asked for."""
        self._blocks.clear()
        if self._closes:
            self._source.close()

    def _load(self, block: int) -> memoryview:
        start, stop = block_range(block, self.spec.nbytes)
        return join(self._source.read(start, stop - start))


class _SharedHashedSource(SharedSource):
    """The same for a source that stores its hashes, and so knows its digest without reading."""

    def block_hash(self, block: int) -> bytes | None:
        assert isinstance(self._source, HasBlockHashes)
        return self._source.block_hash(block)

    def digest(self) -> str:
        assert isinstance(self._source, HasBlockHashes)
        return self._source.digest()
