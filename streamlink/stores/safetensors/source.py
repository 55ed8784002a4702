"""``SafetensorsSource``: reads a model from one safetensors file, or from shards with an index.

It reads with ``pread`` and never maps a file, so resident memory stays flat.
"""

from __future__ import annotations

import hashlib
import logging
import os
import weakref
from collections.abc import Iterable
from pathlib import Path

from streamlink.descriptors import patiently
from streamlink.errors import CorruptStore, SourceChanged, StoreError
from streamlink.model.beside import Beside, SideLimits
from streamlink.model.block_hashes import block_range
from streamlink.model.digest import BLOCK_HASH_BYTES, digest_of, root_hash
from streamlink.model.interfaces import Check, Payload
from streamlink.model.payloads import BufferPool
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.stores.block_cache import BlockCache, verify
from streamlink.stores.direct import DirectFiles
from streamlink.stores.files import FileIdentity, close_all, disk_errors, read_into
from streamlink.stores.safetensors.ambiguous import other_model, require_one_model
from streamlink.stores.safetensors.beside import Placing, read_beside, unfinished
from streamlink.stores.safetensors.header import ShardHeader, read_header
from streamlink.stores.safetensors.index import (
    ADAPTER_NAME,
    INDEX_NAME,
    SINGLE_NAME,
    ShardIndex,
    read_block_hashes,
)
from streamlink.stores.safetensors.layout import Layout

__all__ = ["SafetensorsSource"]

logger = logging.getLogger("streamlink.stores")

_IDLE_BUFFER_BYTES = 8 << 20
_MOST_READS = 5
"""How often the small files are read again: one commit renames them once."""


class SafetensorsSource:
    """Reads a model from safetensors files. The files stay open, so a commit can replace them.

    The logical order is that of the index, or of the header if there is no index. A directory
    written by ``SafetensorsStore`` has block hashes: blocks of 1 MiB are read completely and
    verified, also for a range that covers only part of a block.

    Files of other tools have no block hashes: a bit that flipped on the disk is not detected.
    ``streamlink export`` copies them into a store with hashes. A file that is modified while it is
    open is detected with and without hashes; see ``watch``.

    Args:
        path: a file, or a directory with ``model.safetensors`` or ``model.safetensors.index.json``.
        cache_blocks: number of verified blocks to cache for other readers. Price: 1 MiB each.
        is_direct: see ``SafetensorsStore``.

    Raises:
        CorruptStore: files, headers and index contradict each other.
        StoreError: there is no such model, a dtype is not supported, or two models are there.
    """

    def __init__(self, path: str | Path, cache_blocks: int = 8, *, is_direct: bool = False) -> None:
        self._path = Path(path)
        self._fds: list[int] = []
        self._identities: list[FileIdentity] = []
        # The list and not ``self``: a finalizer that referred to the source would keep it alive.
        self._closer = weakref.finalize(self, close_all, self._fds)
        self._direct = DirectFiles() if is_direct else None
        self._hashes: bytes | None = None
        self._metadata: dict[str, str] = {}
        self._index: ShardIndex | None = None
        try:
            with disk_errors(self._path, "opening the model"):
                self._open()
        except BaseException:
            self._closer()
            raise
        if self._direct is not None:
            for number, file in enumerate(self._files):
                self._direct.add(number, file, os.O_RDONLY)
        self._pool = BufferPool(_IDLE_BUFFER_BYTES)
        self._blocks = BlockCache(self._spec, self._load, cache_blocks)

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._spec

    def read(self, offset: int, length: int) -> Payload:
        """Read ``[offset, offset + length)``, verified if there are block hashes.

        Raises:
            CorruptStore: a block is damaged.
            SourceChanged: a block differs because its file was modified since it was opened.
            StoreError: the source is closed.
        """
        self._spec.check_range(offset, length)
        if self._hashes is not None:
            return self._blocks.read(offset, length)
        return (self._read_plain(offset, length).toreadonly(),) if length else ()

    def read_block(self, block: int, into: memoryview) -> None:
        """Read one block, as long as ``into``, past the cache: for readers that come once.

        Raises:
            CorruptStore: it is damaged.
            SourceChanged: it differs because its file was modified since it was opened.
            StoreError: the source is closed.
        """
        start, stop = block_range(block, self._spec.nbytes)
        if into.nbytes != stop - start:
            raise ValueError(f"block {block} has {stop - start} bytes, not {into.nbytes}")
        self._fill(into, start)
        if self._hashes is not None:
            self._verify(block, into)

    def block_hash(self, block: int) -> bytes | None:
        """Return a block's stored hash; None: the files have no block hashes."""
        if self._hashes is None:
            return None
        return self._hashes[block * BLOCK_HASH_BYTES : (block + 1) * BLOCK_HASH_BYTES]

    def digest(self) -> str:
        """Return the model's digest: from the block hashes, or else by reading everything."""
        if self._hashes is None:
            return digest_of(self)
        return root_hash(self._spec, [self._hashes])

    def identity(self) -> str:
        """Return a name for the content, found without reading it.

        It is the digest if that is stored; else a hash of names, inodes, sizes and times of the
        files.
        """
        if self._hashes is not None:
            return self.digest()
        # Without the device: its number may differ after the machine was restarted.
        about = [
            (file.name, identity.inode, identity.nbytes, identity.mtime_ns)
            for file, identity in zip(self._files, self._identities, strict=True)
        ]
        return "files " + hashlib.sha256(repr(about).encode()).hexdigest()

    def beside(self, limits: SideLimits) -> Beside:
        """Return the small files in the model's directory, and the metadata of its headers.

        Raises:
            TooManySideFiles: there are more than ``limits`` allow.
            SourceChanged: another model has replaced this one since it was opened.
        """
        if not self._path.is_dir():
            return Beside(metadata=self._metadata)
        with disk_errors(self._path, "reading the small files beside the model"):
            for _ in range(_MOST_READS):
                files = self._read_beside(limits)
                # After the files were read: then they are of the model that was opened.
                self._require_current()
                if files is not None:
                    return Beside(files, self._metadata)
        raise SourceChanged(
            "the small files beside the model changed each time they were read; try again when "
            "nothing writes to them",
            path=str(self._path),
        )

    def _read_beside(self, limits: SideLimits) -> dict[str, bytes] | None:
        """Return the small files; None: they were renamed meanwhile, so some may be missing."""
        placing = self._unfinished()
        try:
            brought = () if self._index is None else self._index.placed
            files = read_beside(self._path, placing, brought, limits)
        except FileNotFoundError:
            return None
        return files if self._unfinished() == placing else None

    def _unfinished(self) -> Placing | None:
        return None if self._index is None else unfinished(self._path)

    def _require_current(self) -> None:
        if self._index is None:
            self._check()
            # A commit removes ``model.safetensors``, which is no change to whoever reads it.
            is_current = not (self._path / INDEX_NAME).exists()
        else:
            is_current = ShardIndex.read(self._path) == self._index
        if not is_current:
            raise SourceChanged(
                "another model has replaced it since it was opened", path=str(self._path)
            )

    def watch(self) -> Check:
        """Return a check for changes since the files were opened.

        It raises ``SourceChanged`` if a file was modified or cut short, and, without block hashes,
        if another file took its name. With block hashes a store that was replaced is no change:
        each block is verified to belong to the model that was opened.
        """
        # The identities are from before the headers were read, so no change falls between opening
        # and watching.
        return self._check

    def close(self) -> None:
        """Close the files and drop cached blocks; call it when no thread reads."""
        self._closer()
        if self._direct is not None:
            self._direct.close()
        self._blocks.clear()

    def _open(self) -> None:
        if self._path.is_dir():
            require_one_model(self._path)
        if self._path.is_dir() and (self._path / INDEX_NAME).exists():
            self._open_indexed()
            return
        file = self._path
        if file.is_dir():
            names = (SINGLE_NAME, ADAPTER_NAME)
            found = (file / name for name in names if (file / name).exists())
            file = next(found, file / SINGLE_NAME)
        if not file.exists():
            raise StoreError(f"{self._path}: there is no safetensors model here")
        header = self._open_file(file)
        self._files = [file]
        self._set_layout(header.tensors, [(0, offset) for offset in header.offsets])

    def _open_indexed(self) -> None:
        """Open the files that the index names.

        A writer may replace the index between our read of it and the open of a shard, and then
        remove that shard. So a missing file is an error only if the index is still the same;
        otherwise it starts again with the new index.
        """
        while True:
            index = self._index = ShardIndex.read(self._path)
            self._metadata = {}
            try:
                self._open_shards(index)
                other = other_model(self._path, index)
                if self._is_only(index, other):
                    return
                close_all(self._fds)
                self._identities.clear()
            except FileNotFoundError as error:
                close_all(self._fds)
                self._identities.clear()
                if ShardIndex.read(self._path) == index:
                    raise CorruptStore(
                        "the index names this file, but it is gone", path=str(error.filename)
                    ) from error

    def _is_only(self, index: ShardIndex, other: str) -> bool:
        """Return whether this is the only model here; False: a commit has just replaced it."""
        if other and ShardIndex.read(self._path) == index:
            raise StoreError(
                f"{self._path}: {other} is not of the model that the index here names, and may be "
                "newer; to use it, name this file, or move it to a directory of its own; to use "
                "the model of the index, remove it"
            )
        return not other

    def _open_shards(self, index: ShardIndex) -> None:
        names = list(dict.fromkeys(index.weight_map.values()))
        self._files = [self._path / name for name in names]
        headers = [self._open_file(file) for file in self._files]
        found = {
            (tensor.name, names[shard]): (tensor, (shard, offset))
            for shard, header in enumerate(headers)
            for tensor, offset in zip(header.tensors, header.offsets, strict=True)
        }
        # Name and file together: a tensor that is in another shard than the index states is damage
        # too.
        if found.keys() != set(index.weight_map.items()):
            raise self._index_mismatch(index, found.keys())
        entries = [found[entry] for entry in index.weight_map.items()]
        self._set_layout([tensor for tensor, _ in entries], [place for _, place in entries])
        if index.digests:
            self._hashes = self._read_digests(index)

    def _read_digests(self, index: ShardIndex) -> bytes | None:
        try:
            return read_block_hashes(self._path / index.digests, self._spec)
        except FileNotFoundError:
            # A writer has replaced the model since. ``_open_indexed`` catches this, and starts
            # again.
            if ShardIndex.read(self._path) != index:
                raise
            # Somebody copied only shards and index: the model can be read, but not verified.
            logger.warning(
                "%s: the file with the block hashes, %s, is missing: reads are not verified",
                self._path,
                index.digests,
            )
            return None

    def _set_layout(self, tensors: Iterable[TensorSpec], places: list[tuple[int, int]]) -> None:
        self._spec = ModelSpec(tuple(tensors))
        self._layout = Layout(self._spec, places)

    def _open_file(self, file: Path) -> ShardHeader:
        # The order of these lines counts. In the list at once, the number is closed whatever fails
        # next; and the identity is noted before the header is read, so a later write differs from
        # it.
        fd = patiently(os.open, file, os.O_RDONLY)
        self._fds.append(fd)
        self._identities.append(FileIdentity.of(fd))
        header = read_header(fd, file)
        self._metadata = {**header.metadata, **self._metadata}
        return header

    def _index_mismatch(self, index: ShardIndex, found: Iterable[tuple[str, str]]) -> CorruptStore:
        named = set(index.weight_map.items())
        missing = sorted(named.difference(found))
        name, file = missing[0] if missing else sorted(set(found) - named)[0]
        where = "names it, but this file does not have it" if missing else "does not name it"
        return CorruptStore(f"the index {where}", path=str(self._path / file), tensor=name)

    def _load(self, block: int) -> memoryview:
        start, stop = block_range(block, self._spec.nbytes)
        data = self._read_plain(start, stop - start)
        self._verify(block, data)
        return data

    def _verify(self, block: int, data: memoryview) -> None:
        start, _ = block_range(block, self._spec.nbytes)
        block_hash = self.block_hash(block)
        assert block_hash is not None
        shards = [shard for shard, _, _ in self._layout.pieces(start, data.nbytes)]
        try:
            # With hashes no ``fstat`` is needed for each read: bytes that were changed do not
            # match.
            verify(self._spec, block, data, block_hash, self._files[shards[0]])
        except CorruptStore:
            # Which error it is: a file that somebody wrote to has changed, any other one is
            # damaged.
            for shard in shards:
                self._require_unchanged(shard, start)
            raise

    def _read_plain(self, offset: int, length: int) -> memoryview:
        view = self._pool.take(length)
        self._fill(view, offset)
        return view

    def _fill(self, view: memoryview, offset: int) -> None:
        if not self._fds:
            raise StoreError(f"{self._path}: this source is closed")
        filled = 0
        for shard, place, piece in self._layout.pieces(offset, view.nbytes):
            self._read_piece(view[filled : filled + piece], shard, place, offset + filled)
            filled += piece

    def _read_piece(self, view: memoryview, shard: int, place: int, offset: int) -> None:
        file = self._files[shard]
        with disk_errors(file, "reading"):
            try:
                if self._direct is None or not self._direct.read_into(shard, view, place, file):
                    read_into(self._fds[shard], view, place, file)
            except CorruptStore:
                self._require_unchanged(shard, offset)
                raise
            if self._hashes is None:  # checked after the read, or a change between would be missed
                self._require_unchanged(shard, offset)

    def _require_unchanged(self, shard: int, offset: int) -> None:
        index, inside = self._spec.locate(offset)
        self._identities[shard].require_same(
            self._fds[shard],
            self._files[shard],
            tensor=self._spec.tensors[index].name,
            inside=inside,
        )

    def _check(self) -> None:
        # Not strict: a closed source has no descriptors any more, and nothing left to compare.
        for fd, file, identity in zip(self._fds, self._files, self._identities, strict=False):
            identity.require_same(fd, file)
            if self._hashes is None:
                identity.require_there(file)
