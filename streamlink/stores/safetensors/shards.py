"""The files of a model that is being written, shards and small files: their names and bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from streamlink.descriptors import patiently
from streamlink.errors import CorruptStore
from streamlink.model.block_hashes import block_range
from streamlink.model.digest import (
    BLOCK_BYTES,
    BLOCK_HASH_BYTES,
    block_count,
    block_hash_of,
)
from streamlink.model.payloads import PAGE_BYTES
from streamlink.model.spec import ModelSpec
from streamlink.stores.direct import DirectFiles
from streamlink.stores.files import Flusher, Steps, read_into, sync_data, write_all
from streamlink.stores.safetensors.beside import require_placeable
from streamlink.stores.safetensors.header import LARGEST_ELEMENT_BYTES
from streamlink.stores.safetensors.plan import planned

__all__ = ["ShardFiles"]

_PART = ".part"


class ShardFiles:
    """The shards of one attempt. Each file has its full size from the start.

    Args:
        directory: of the store.
        spec: the tensors.
        shard_bytes: see ``SafetensorsStore``.
        generation: makes the names those of this attempt.
        is_partial: they end in ``.part`` and have no headers until they are whole.
        fds: where their descriptors are kept; whoever made the list closes them, also where this
            object is gone.
        direct: writes whole blocks past the page cache; its owner closes it. None: nothing does.
    """

    def __init__(
        self,
        directory: Path,
        spec: ModelSpec,
        shard_bytes: int,
        generation: str,
        *,
        is_partial: bool,
        fds: list[int],
        direct: DirectFiles | None = None,
    ) -> None:
        self._directory, self._spec, self._fds = directory, spec, fds
        self._suffix = _PART if is_partial else ""
        self._flushers: list[Flusher] = []
        self._direct = direct
        alignment = LARGEST_ELEMENT_BYTES if direct is None else PAGE_BYTES
        self.plan = planned(directory, generation, spec, shard_bytes, alignment)
        require_placeable(directory, self.plan.placing)
        self._names, self._layout = self.plan.names, self.plan.layout

    # --- files --------------------------------------------------------------------------

    def create(self) -> None:
        """Create the shards with their full size, as sparse files."""
        for path, size in self._files():
            # O_EXCL: the name is random, so an existing file is another attempt's. O_RDWR and not
            # O_WRONLY: blocks are read back to be hashed. The mode is the usual one for files that
            # other tools read.
            self._fds.append(patiently(os.open, path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644))
            # The full size lets ranges arrive in any order. It reserves no blocks on the disk: a
            # file that fills up is noticed by the write, or before that by the reserve.
            os.ftruncate(self._fds[-1], size)
            if self._direct is not None:
                self._direct.add(len(self._fds) - 1, path, os.O_WRONLY)

    def reopen(self) -> None:
        """Open the shards of an attempt that was interrupted, also during its commit.

        Raises:
            CorruptStore: one is missing or has another size.
        """
        for (path, size), name in zip(self._files(), self._names, strict=True):
            final = self._directory / name
            # It had renamed some shards and not all. No index names them yet (``find_partials``
            # skips what is committed), so they can become partial files again.
            if final.exists():  # it was interrupted during its commit
                os.replace(final, path)
            if not path.exists() or path.stat().st_size != size:
                raise CorruptStore(
                    "this file of the interrupted transfer is missing or has the wrong size",
                    path=str(path),
                )
            self._fds.append(patiently(os.open, path, os.O_RDWR))

    def take_final_names(self) -> None:
        """Rename the files of a partial model to the names that the index has.

        The list of what is placed after the index comes with them.
        """
        for name in self._names if self._suffix else ():
            os.replace(self._directory / (name + self._suffix), self._directory / name)
        if self.plan.placing:
            self.plan.placing.write(self._directory)

    def all_names(self) -> set[str]:
        """Return every name that one of the files may have."""
        partial = (name + self._suffix for name in self._names)
        return {*self._names, *partial, self.plan.placing.name}

    # --- bytes --------------------------------------------------------------------------

    def begin_flushing(self, reserve: int) -> None:
        """From now on, have written ranges sent to the disk soon, and ``reserve`` bytes kept."""
        self._flushers = [Flusher(fd, self._directory, reserve) for fd in self._fds]

    def write_headers(self) -> None:
        """Write what makes a shard a safetensors file."""
        for fd, header in zip(self._fds, self.plan.headers, strict=True):
            write_all(fd, header, 0)

    def write(self, offset: int, payload: memoryview) -> None:
        """Write a range of the model; one system call for each run of tensors."""
        taken = 0
        for shard, place, length in self._layout.pieces(offset, payload.nbytes):
            piece = payload[taken : taken + length]
            if self._direct is None or not self._direct.write(shard, piece, place):
                write_all(self._fds[shard], piece, place)
            self._flushers[shard].wrote(place, length)
            taken += length

    def read_back(self, block: int, buffer: memoryview) -> memoryview:
        """Return a block as it is in the files, in ``buffer``."""
        return self._read_range(*block_range(block, self._spec.nbytes), buffer)

    def hashes_of_tensors(self, hashes: bytes) -> bytes:
        """Return the block hashes of the tensors alone; ``hashes`` are those of all."""
        nbytes = self.plan.model.nbytes
        if nbytes == self._spec.nbytes:
            return hashes
        whole = nbytes - nbytes % BLOCK_BYTES
        hashes = hashes[: block_count(whole) * BLOCK_HASH_BYTES]
        if whole == nbytes:
            return hashes
        last = self._read_range(whole, nbytes, memoryview(bytearray(nbytes - whole)))
        return hashes + block_hash_of(last)

    def _read_range(self, start: int, stop: int, buffer: memoryview) -> memoryview:
        view, filled = buffer[: stop - start], 0
        for shard, place, length in self._layout.pieces(start, stop - start):
            path = self._directory / (self._names[shard] + self._suffix)
            read_into(self._fds[shard], view[filled : filled + length], place, path)
            filled += length
        return view

    def sync(self, offset: int, nbytes: int) -> None:
        """Make a range of the model durable."""
        for shard in {shard for shard, _, _ in self._layout.pieces(offset, nbytes)}:
            sync_data(self._fds[shard])

    def sync_all(self, steps: Steps) -> None:
        """Make all files durable, headers included; each is a step."""
        for fd in self._fds:
            sync_data(fd)
            steps.done()

    def _files(self) -> Iterator[tuple[Path, int]]:
        for name, size in zip(self._names, self.plan.sizes, strict=True):
            yield self._directory / (name + self._suffix), size
