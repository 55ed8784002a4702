"""The journal of a model that is being received, which makes the transfer resumable.

A transfer may take hours. Beside its shards it keeps an append-only file. The head identifies the
model and its sender. Each record states a *mark* (a high-water mark: all bytes below it are durable
in the shards) and the hashes of the blocks below it. After a crash the transfer resumes at the last
complete record, and a byte that changed since is detected. A torn record at the end fails its
checksum and is ignored, as in any write-ahead log.

Layout, little-endian: magic (8 bytes), length of the description (u32), the description as JSON,
xxh3-128 of all that (16). Then records: mark (u64), the hashes of the blocks between the previous
mark and this one (16 each), xxh3-128 of the previous mark and all that (16).
"""

from __future__ import annotations

import json
import logging
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from streamlink.descriptors import patiently
from streamlink.errors import CorruptStore, ModelError, StoreError
from streamlink.model.digest import BLOCK_BYTES, BLOCK_HASH_BYTES, block_count
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.stores.checked_json import parse_json
from streamlink.stores.files import disk_errors, read_bytes, sync_data, sync_directory, write_all
from streamlink.stores.safetensors.index import ShardIndex

__all__ = ["Journal", "Partial", "find_partials", "partial_name"]

logger = logging.getLogger("streamlink.stores")

_MAGIC = b"SLPARTL1"
_LENGTH = struct.Struct("<I")
_MARK = struct.Struct("<Q")
_CHECKSUM_BYTES = 16
_NAME = re.compile(r"model-([0-9a-f]{8})\.partial")


@dataclass(frozen=True, slots=True)
class Partial:
    """A partial model, as its journal describes it.

    Attributes:
        generation: the common part of the names of its files.
        identity: the sender's name for the model's content; the same after a restart.
        spec: the tensors.
        shard_bytes: how the model is cut into shards (bytes).
        mark: all bytes below it are durable.
        hashes: of the blocks below ``mark``, joined.
        length: bytes of the journal up to the last complete record.
    """

    generation: str
    identity: str
    spec: ModelSpec
    shard_bytes: int
    mark: int
    hashes: bytes
    length: int


class Journal:
    """The open journal of one attempt."""

    def __init__(self, fd: int, mark: int, length: int) -> None:
        self._fds = [fd]
        self._mark = mark
        self._length = length

    @classmethod
    def create(
        cls, directory: Path, generation: str, identity: str, spec: ModelSpec, shard_bytes: int
    ) -> Journal:
        """Create the journal of a new attempt, durably."""
        # The whole spec: ``resume`` is given only its digest, and must know where shards begin.
        tensors = [(each.name, each.dtype, each.shape) for each in spec.tensors]
        about = {"identity": identity, "shard_bytes": shard_bytes, "tensors": tensors}
        text = json.dumps(about, separators=(",", ":")).encode()
        head = _MAGIC + _LENGTH.pack(len(text)) + text
        head += xxhash.xxh3_128_digest(head)
        path = directory / partial_name(generation)
        # O_EXCL: the name is random, so an existing file would be another attempt's.
        fd = patiently(os.open, path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        journal = cls(fd, 0, len(head))
        try:
            write_all(fd, head, 0)
            # First the content, then the name: a name that survives a power failure without its
            # content would be taken for a damaged journal.
            os.fsync(fd)
            sync_directory(directory)
        except BaseException:
            journal.close()
            raise
        return journal

    @classmethod
    def reopen(cls, directory: Path, partial: Partial) -> Journal:
        """Open the journal of an interrupted attempt, and truncate an incomplete record."""
        fd = patiently(os.open, directory / partial_name(partial.generation), os.O_RDWR)
        journal = cls(fd, partial.mark, partial.length)
        try:
            # The next record is written here. Without this, the end of a longer torn one would stay
            # behind it.
            os.ftruncate(fd, partial.length)
        except BaseException:
            journal.close()
            raise
        return journal

    def advance(self, mark: int, hashes: bytes) -> None:
        """Record that all bytes below ``mark`` are durable, with the hashes of the blocks since.

        The caller has synced the shards before: data first, then the record that vouches for it, as
        in a checkpoint. A record must never cover bytes that a crash can still lose.
        """
        record = _MARK.pack(mark) + hashes
        record += _checksum(self._mark, record)
        write_all(self._fds[0], record, self._length)
        sync_data(self._fds[0])
        self._mark = mark
        self._length += len(record)

    def close(self) -> None:
        """Close the file. Harmless when called twice."""
        while self._fds:
            os.close(self._fds.pop())


def partial_name(generation: str) -> str:
    """Return the name of an attempt's journal."""
    return f"model-{generation}.partial"


def find_partials(directory: Path) -> Iterator[Partial]:
    """Yield the partial models in ``directory``, without those that were committed.

    Damaged journals are skipped, with a line in the log.

    Raises:
        StoreError: a journal cannot be read; names it.
    """
    alive = _living(directory)
    for name in sorted(patiently(os.listdir, directory)):
        match = _NAME.fullmatch(name)
        if match and match[1] not in alive:
            try:
                yield _read(directory / name, match[1])
            except (CorruptStore, ModelError) as error:
                logger.info("%s: an interrupted transfer cannot be resumed: %s", directory, error)


def _living(directory: Path) -> set[str]:
    """Return the generations in the present index: a crash may leave a journal after the commit."""
    try:
        names = ShardIndex.read(directory).files
    except (FileNotFoundError, CorruptStore):
        return set()
    return {name.split("-")[1] for name in names if name.count("-") > 1}


def _read(path: Path, generation: str) -> Partial:
    if path.is_dir():
        raise StoreError(
            f"{path}: this is a directory, and the journal of a transfer should be here; remove it"
        )
    with disk_errors(path, "reading the journal of an interrupted transfer"):
        fd = patiently(os.open, path, os.O_RDONLY)
        try:
            # All at once: 16 bytes for each MiB of the model, 16 MiB for one of a TiB.
            data = read_bytes(fd, os.fstat(fd).st_size, 0, path)
        finally:
            os.close(fd)
    about, start = _head(data, path)
    try:
        spec = ModelSpec(tuple(TensorSpec(*tensor) for tensor in about["tensors"]))
        identity, shard_bytes = str(about["identity"]), int(about["shard_bytes"])
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptStore(f"its description is invalid: {error}", path=str(path)) from error
    mark, hashes, length = _records(data, start, spec.nbytes)
    return Partial(generation, identity, spec, shard_bytes, mark, hashes, length)


def _head(data: bytes, path: Path) -> tuple[dict[str, Any], int]:
    """Return the description and where the records begin."""
    begin = len(_MAGIC) + _LENGTH.size
    if len(data) < begin or not data.startswith(_MAGIC):
        raise CorruptStore("this is not the journal of a transfer", path=str(path))
    end = begin + _LENGTH.unpack_from(data, len(_MAGIC))[0]
    # A length that is damaged needs no check of its own: a slice beyond the end is short, and its
    # checksum wrong.
    if data[end : end + _CHECKSUM_BYTES] != xxhash.xxh3_128_digest(data[:end]):
        raise CorruptStore("its head is damaged", path=str(path))
    return parse_json(data[begin:end], path), end + _CHECKSUM_BYTES


def _records(data: bytes, start: int, nbytes: int) -> tuple[int, bytes, int]:
    """Return (mark, hashes, end) of the records from ``start`` up to the last complete one."""
    mark, hashes = 0, bytearray()
    while start + _MARK.size <= len(data):
        (following,) = _MARK.unpack_from(data, start)
        # Checked before the hashes are counted: how many follow depends on the mark alone.
        if not mark < following <= nbytes or (following % BLOCK_BYTES and following < nbytes):
            break
        end = start + _MARK.size + (block_count(following) - block_count(mark)) * BLOCK_HASH_BYTES
        record = data[start:end]
        if data[end : end + _CHECKSUM_BYTES] != _checksum(mark, record):
            break
        hashes += record[_MARK.size :]
        mark, start = following, end + _CHECKSUM_BYTES
    return mark, bytes(hashes), start


def _checksum(before: int, record: bytes) -> bytes:
    # Chained by the previous mark: a record is valid only behind the one that it was written after.
    return xxhash.xxh3_128_digest(_MARK.pack(before) + record)
