"""A cache of verified blocks of a stored model.

The clients of a round read the same model at nearly the same position. The first reader of a block
loads, decodes and verifies it; the others wait for that load and share its result: *single flight*.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from streamlink.errors import CorruptStore
from streamlink.model.block_hashes import block_range
from streamlink.model.digest import BLOCK_BYTES, block_hash_of
from streamlink.model.interfaces import Payload
from streamlink.model.spec import ModelSpec

__all__ = ["BlockCache", "verify"]

Load = Callable[[int], memoryview]


class BlockCache:
    """Reads ranges as views into cached blocks. Any number of threads may use it.

    Args:
        spec: the model.
        load: returns a block, read and verified; called without a lock held.
        capacity: number of blocks to keep, least recently used out. Price: 1 MiB each, plus the
            blocks that readers still hold.
    """

    def __init__(self, spec: ModelSpec, load: Load, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"the cache must hold at least one block, not {capacity}")
        self._spec = spec
        self._load = load
        self._capacity = capacity
        self._blocks: OrderedDict[int, _Block] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, offset: int, length: int) -> Payload:
        """Return ``[offset, offset + length)``, one view for each block in it."""
        self._spec.check_range(offset, length)
        views, stop = [], offset + length
        while offset < stop:
            block, start = divmod(offset, BLOCK_BYTES)
            piece_stop = min(BLOCK_BYTES, stop - block * BLOCK_BYTES)
            views.append(self._get(block)[start:piece_stop])
            offset = block * BLOCK_BYTES + piece_stop
        return tuple(views)

    def clear(self) -> None:
        """Drop all cached blocks."""
        with self._lock:
            self._blocks.clear()

    def _get(self, number: int) -> memoryview:
        with self._lock:
            block = self._blocks.get(number)
            is_ours = block is None
            if block is None:
                block = self._blocks[number] = _Block()
                # Before anybody else can see the block, so that whoever finds it also finds it
                # locked. It cannot wait here: the lock is new.
                block.lock.acquire()
                # The evicted block may still be loading: its readers hold a reference to it.
                if len(self._blocks) > self._capacity:
                    self._blocks.popitem(last=False)
            else:
                self._blocks.move_to_end(number)
        return self._fill(number, block) if is_ours else block.wait()

    def _fill(self, number: int, block: _Block) -> memoryview:
        try:
            # Without the cache's lock: readers of other blocks go on while this one is decoded.
            block.view = self._load(number).toreadonly()
            return block.view
        except BaseException as error:
            block.error = error
            with self._lock:
                if self._blocks.get(number) is block:
                    del self._blocks[number]  # an error is not cached: the next reader retries
            raise
        finally:
            block.lock.release()


class _Block:
    """One block, or a future of one: ``lock`` is held until it is loaded.

    A plain lock suffices: an ``Event`` would add a condition variable to each block.
    """

    __slots__ = ("error", "lock", "view")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.view: memoryview | None = None
        self.error: BaseException | None = None

    def wait(self) -> memoryview:
        if self.view is None:
            # A turnstile: each waiter passes through and lets the next one in.
            with self.lock:
                pass
        if self.view is None:
            assert self.error is not None
            raise self.error
        return self.view


def verify(spec: ModelSpec, block: int, data: memoryview, block_hash: bytes, path: Path) -> None:
    """Check a block against its hash.

    Raises:
        CorruptStore: they differ; the error names the block's first tensor and the offset in it.
    """
    if block_hash_of(data) != block_hash:
        raise corrupt_block(spec, block, path, "its digest differs")


def corrupt_block(spec: ModelSpec, block: int, path: Path, why: str) -> CorruptStore:
    """Return the error for a damaged block; it names the first and the last tensor in the block."""
    start, stop = block_range(block, spec.nbytes)
    (first, inside), last = spec.locate(start), spec.locate(stop - 1)[0]
    others = f" (up to tensor {spec.tensors[last].name!r})" if last > first else ""
    return CorruptStore(
        f"the block of {stop - start} bytes that begins here{others} is not what was stored: {why}",
        path=str(path),
        tensor=spec.tensors[first].name,
        inside=inside,
        offset=start,
    )
