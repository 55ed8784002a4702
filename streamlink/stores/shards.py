"""The sink of a safetensors directory: shards under new names, published by renaming the index.

Until that rename the old model is untouched; after it the old shards are removed. A process killed
at any point leaves either the old model or the new one, and files that the next attempt removes.
"""

from __future__ import annotations

import os
import weakref
from contextlib import suppress
from pathlib import Path

from streamlink.errors import StoreError
from streamlink.model.digest import leaf_of
from streamlink.model.interfaces import Progress
from streamlink.model.leaves import LeafTracker, block_range
from streamlink.model.ranges import RangeSet, require_complete
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.stores.files import (
    Flusher,
    Steps,
    close_all,
    disk_errors,
    lock,
    read_into,
    require_free,
    sync_directory,
    write_all,
)
from streamlink.stores.header import encode_header
from streamlink.stores.index import (
    INDEX_NAME,
    SINGLE_NAME,
    ShardIndex,
    new_generation,
    remove_dead_files,
    shard_name,
)
from streamlink.stores.layout import Layout, split_into_shards
from streamlink.stores.sidecar import write_leaves

__all__ = ["ShardSink"]


class ShardSink:
    """Takes a model's bytes in any order. Made by ``SafetensorsStore.begin``.

    Bytes are hashed as they come in order; a block that came in other ways is read back by
    ``commit``.
    """

    def __init__(self, directory: Path, spec: ModelSpec, shard_bytes: int, reserve: int) -> None:
        self._directory = directory
        self._spec = spec
        self._written = RangeSet()
        self._generation = new_generation()
        self._fds: list[int] = []
        self._lock: list[int] = []
        self._closer = weakref.finalize(self, _close_both, self._fds, self._lock)
        self._is_open = True
        self._has_made_directory = False
        try:
            with disk_errors(directory, "beginning a new model"):
                self._begin(shard_bytes, reserve)
        except BaseException:
            self.discard()
            raise

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._spec

    def write(self, offset: int, payload: memoryview) -> None:
        """Write ``payload`` into its shards; one system call for each run of tensors.

        Raises:
            StoreFull: the disk has no room.
            StoreError: the sink was committed or discarded.
        """
        self._spec.check_range(offset, payload.nbytes)
        self._require_open()
        taken = 0
        with disk_errors(self._directory, "writing the model"):
            for shard, place, length in self._layout.pieces(offset, payload.nbytes):
                write_all(self._fds[shard], payload[taken : taken + length], place)
                self._flushers[shard].wrote(place, length)
                taken += length
        self._leaves.take(offset, payload)
        self._written.add(offset, offset + taken)

    def commit(self, progress: Progress | None = None) -> None:
        """Bring everything to the disk, replace the index, remove the old shards.

        Raises:
            StoreFull: the disk has no room. StoreError: part of the model was never written, or the
            disk failed. The old model stands.
        """
        self._require_open()
        require_complete(self._written, self._spec)
        steps = Steps(progress)
        with disk_errors(self._directory, "committing the model"):
            self._hash_unknown(steps)
            for fd in self._fds:
                os.fdatasync(fd)
                steps.tell()
            self._publish()
        self._close()
        steps.tell()

    def discard(self) -> None:
        """Remove what this attempt wrote. The model that the index names is never touched."""
        if self._is_open and self._lock:
            with disk_errors(self._directory, "discarding an attempt"):
                remove_dead_files(self._directory)
        self._close()
        if self._has_made_directory:
            with suppress(OSError):  # not empty: it holds a model by now
                self._directory.rmdir()

    def _begin(self, shard_bytes: int, reserve: int) -> None:
        self._has_made_directory = not self._directory.exists()
        self._directory.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        remove_dead_files(self._directory)
        require_free(self._directory, self._spec.nbytes, reserve)
        self._leaves = LeafTracker(self._spec.nbytes)  # after: an absurd spec must cost nothing
        shards = split_into_shards(self._spec.tensors, shard_bytes)
        self._names = [
            shard_name(self._generation, number, len(shards)) for number in range(len(shards))
        ]
        places: list[tuple[int, int]] = []
        for number, tensors in enumerate(shards):
            places.extend((number, offset) for offset in self._create(number, tensors))
        self._weight_map = {
            tensor.name: name
            for name, tensors in zip(self._names, shards, strict=True)
            for tensor in tensors
        }
        self._layout = Layout(self._spec, places)
        self._flushers = [Flusher(fd, self._directory, reserve) for fd in self._fds]

    def _take_lock(self) -> None:
        fd = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            lock(fd, self._directory)
        except BaseException:
            os.close(fd)
            raise
        self._lock.append(fd)

    def _create(self, number: int, tensors: list[TensorSpec]) -> tuple[int, ...]:
        """Make a shard of its full size, with its header; return each tensor's offset in it."""
        header, offsets = encode_header(tensors)
        path = self._directory / self._names[number]
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        self._fds.append(fd)
        os.ftruncate(fd, len(header) + sum(tensor.nbytes for tensor in tensors))
        write_all(fd, header, 0)
        return offsets

    def _hash_unknown(self, steps: Steps) -> None:
        """Read back the blocks that did not come in order, to know their leaves."""
        buffer = bytearray(min(self._spec.nbytes, block_range(0, self._spec.nbytes)[1]))
        for block in self._leaves.unknown():
            start, stop = block_range(block, self._spec.nbytes)
            view = memoryview(buffer)[: stop - start]
            filled = 0
            for shard, place, length in self._layout.pieces(start, stop - start):
                path = self._directory / self._names[shard]
                read_into(self._fds[shard], view[filled : filled + length], place, path)
                filled += length
            self._leaves.set(block, leaf_of(view))
            steps.tell()

    def _publish(self) -> None:
        digests = f"model-{self._generation}.digests"
        write_leaves(self._directory / digests, self._spec, self._leaves.leaves)
        # The names of shards and digests must be durable before an index that relies on them.
        sync_directory(self._directory)
        superseded = _files_of_present_model(self._directory)
        index = ShardIndex(self._weight_map, self._spec.nbytes, digests)
        index.write(self._directory, self._generation)
        remove_dead_files(self._directory, superseded)

    def _require_open(self) -> None:
        if not self._is_open:
            raise StoreError(f"{self._directory}: this attempt was committed or discarded already")

    def _close(self) -> None:
        self._is_open = False
        self._closer()


def _files_of_present_model(directory: Path) -> set[str]:
    """Return the names that a new index makes superfluous.

    A single file is among them, because many tools prefer it to an index.
    """
    if not (directory / INDEX_NAME).exists():
        return {SINGLE_NAME}
    return ShardIndex.read(directory).files | {SINGLE_NAME}


def _close_both(shards: list[int], lock_of_writer: list[int]) -> None:
    close_all(shards)
    close_all(lock_of_writer)
