"""``CompressedStore``: one model in one file of zstd blocks, replaced atomically.

The file is written under another name and published by fsync and rename, so it is always one whole
model. After that it is only read.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path

import zstandard

from streamlink.descriptors import patiently
from streamlink.errors import CorruptStore, StoreError
from streamlink.model.block_hashes import block_range
from streamlink.model.digest import BLOCK_BYTES, root_hash
from streamlink.model.interfaces import Check, Payload
from streamlink.model.payloads import BufferPool
from streamlink.model.spec import ModelSpec
from streamlink.stores.block_cache import BlockCache, corrupt_block, verify
from streamlink.stores.compressed.format import MAGIC, read_contents
from streamlink.stores.compressed.sink import MIN_SAVING, CompressedSink, partial_path
from streamlink.stores.expiry import expire_file
from streamlink.stores.files import FileIdentity, close_all, disk_errors, read_bytes, read_into
from streamlink.stores.kind import StoreKind
from streamlink.stores.preflight import require_replaceable

__all__ = ["KIND", "CompressedSource", "CompressedStore"]

_IDLE_BUFFER_BYTES = 8 << 20
_RESERVED_SHARE, _LARGEST_RESERVE = 16, 1 << 30


class CompressedSource:
    """Reads a compressed model. Each block is decoded once for all readers, and verified.

    The file stays open, so a commit can replace it.

    Args:
        path: the file.
        cache_blocks: number of decoded blocks to cache for other readers. Price: 1 MiB each.

    Raises:
        CorruptStore: it is not such a file, is damaged, or was cut short.
        StoreError: it cannot be opened.
    """

    def __init__(self, path: str | Path, cache_blocks: int = 8) -> None:
        self._path = Path(path)
        self._fds: list[int] = []
        self._closer = weakref.finalize(self, close_all, self._fds)
        try:
            with disk_errors(self._path, "opening the model"):
                self._fds.append(patiently(os.open, self._path, os.O_RDONLY))
                # Noted before the first read: what is written later differs from it.
                self._identity = FileIdentity.of(self._fds[0])
                contents = read_contents(self._fds[0], self._path)
        except BaseException:
            self._closer()
            raise
        self._spec, self._index = contents.spec, contents.index
        self._pool = BufferPool(_IDLE_BUFFER_BYTES)
        self._decoders: list[zstandard.ZstdDecompressor] = []
        self._blocks = BlockCache(self._spec, self._load, cache_blocks)

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._spec

    @property
    def stored_bytes(self) -> int:
        """Bytes of the live frames, to compare with ``spec.nbytes``."""
        return int(self._index["length"].sum())

    def read(self, offset: int, length: int) -> Payload:
        """Return ``[offset, offset + length)`` as views into decoded blocks.

        Raises:
            CorruptStore: a block is damaged.
            SourceChanged: a block differs because the file was modified since it was opened.
            StoreError: the source is closed.
        """
        return self._blocks.read(offset, length)

    def block_hash(self, block: int) -> bytes:
        """Return a block's stored hash."""
        return bytes(self._index["hash"][block])

    def digest(self) -> str:
        """Return the model's digest, from the stored block hashes."""
        return root_hash(self._spec, [self._index["hash"].tobytes()])

    def identity(self) -> str:
        """Return a name for the content: its digest."""
        return self.digest()

    def watch(self) -> Check:
        """Return a check for changes since the file was opened.

        It raises ``SourceChanged`` if the file was modified or cut short. A store that was replaced
        is no change: each block is verified to belong to the model that was opened.
        """
        return self._check

    def close(self) -> None:
        """Close the file and drop cached blocks; call it when no thread reads."""
        self._closer()
        self._blocks.clear()

    def _load(self, block: int) -> memoryview:
        if not self._fds:
            raise StoreError(f"{self._path}: this source is closed")
        with disk_errors(self._path, "reading"):
            try:
                data = self._read_block(block)
                verify(self._spec, block, data, self.block_hash(block), self._path)
            except CorruptStore:
                # A block that does not match was damaged, or somebody wrote to the file: say which.
                index, inside = self._spec.locate(block * BLOCK_BYTES)
                self._require_unchanged(self._spec.tensors[index].name, inside)
                raise
        return data

    def _check(self) -> None:
        if self._fds:
            self._require_unchanged()

    def _require_unchanged(self, tensor: str = "", inside: int = -1) -> None:
        self._identity.require_same(self._fds[0], self._path, tensor=tensor, inside=inside)

    def _read_block(self, block: int) -> memoryview:
        offset, length = int(self._index["offset"][block]), int(self._index["length"][block])
        start, stop = block_range(block, self._spec.nbytes)
        if length == stop - start:
            # A raw block is as long as the block itself, which is how it is told from a zstd frame:
            # that one is stored only if it is shorter.
            view = self._pool.take(length)
            read_into(self._fds[0], view, offset, self._path)
            return view
        frame = read_bytes(self._fds[0], length, offset, self._path)
        try:
            return memoryview(self._decode(frame, stop - start))
        except zstandard.ZstdError as error:
            raise corrupt_block(self._spec, block, self._path, str(error)) from error

    def _decode(self, frame: bytes, expected: int) -> bytes:
        # Decompression bomb: a damaged frame could declare any size, so it is checked before memory
        # is allocated for it.
        if zstandard.frame_content_size(frame) != expected:
            raise zstandard.ZstdError("the frame declares another number of bytes")
        try:
            # A decoder is not thread-safe. ``list.pop`` and ``append`` are atomic in CPython, so
            # this pool needs no lock.
            decoder = self._decoders.pop()
        except IndexError:
            decoder = zstandard.ZstdDecompressor()
        try:
            block: bytes = decoder.decompress(frame)
            return block
        finally:
            self._decoders.append(decoder)


class CompressedStore:
    """Holds one model in one file, ``<name>.slz``.

    One writer at a time; a second writer is refused. Readers may read during a write.

    Args:
        path: the file; its directory is created by the first ``begin``.
        level: zstd's compression level. Higher is smaller, and slower to write.
        cache_blocks: see ``CompressedSource``.
        reserve_bytes: how many bytes must stay free on the disk. Writing stops with ``StoreFull``
            at that limit, because the compressed size is not known in advance. None: a sixteenth of
            the model, at most 1 GiB.
        min_saving: the share by which a block must shrink to be stored compressed. Below an eighth,
            as with random float32, decoding costs more time than reading the raw block.
    """

    def __init__(
        self,
        path: str | Path,
        level: int = 1,
        cache_blocks: int = 8,
        reserve_bytes: int | None = None,
        min_saving: float = MIN_SAVING,
    ) -> None:
        self._path = Path(path)
        self._level = level
        self._cache_blocks = cache_blocks
        self._reserve = reserve_bytes
        self._min_saving = min_saving

    def open(self) -> CompressedSource:
        """Return the last committed model; raises as ``CompressedSource`` does."""
        return CompressedSource(self._path, self._cache_blocks)

    def begin(self, spec: ModelSpec) -> CompressedSink:
        """Return a sink for the next model; the leftover of a crashed attempt is overwritten.

        Raises:
            StoreFull: less than ``reserve_bytes`` are free.
            StoreError: another writer uses the store.
        """
        reserve = self._reserve
        if reserve is None:
            reserve = min(spec.nbytes // _RESERVED_SHARE, _LARGEST_RESERVE)
        return CompressedSink(self._path, spec, self._level, reserve, self._min_saving)

    def check_writable(self) -> None:
        """Raise ``StoreError`` if a model cannot be stored here."""
        require_replaceable(self._path, partial_path(self._path), "no model can be stored here")

    def expire(self, seconds: float) -> None:
        """Remove the leftover of a crashed attempt if nobody changed it for ``seconds``.

        Raises:
            StoreError: it cannot be removed.
        """
        expire_file(partial_path(self._path), seconds)


KIND = StoreKind(
    name="zstd",
    title="compressed",
    suffix=".slz",
    recognizes=lambda head: head.startswith(MAGIC),
    open_source=CompressedSource,
    make_store=lambda path, reserve: CompressedStore(path, reserve_bytes=reserve),
    holds_model=Path.exists,
)
"""How ``registry`` opens such a store."""
