"""The index of a directory of safetensors shards, and the sidecar file with the block hashes.

The index is JSON in the format of Hugging Face: it maps each tensor to the file that holds it. It
is the commit point: replacing it makes a new model visible. So it alone decides which files of the
directory are live; all other files of ours are leftovers.

The sidecar holds the model's block hashes. Layout, little-endian: magic (8 bytes), bytes of the
model (u64), the spec's digest (32), the block hashes (16 each), and the xxh3-128 of all that (16).
"""

from __future__ import annotations

import json
import os
import re
import secrets
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from streamlink.descriptors import patiently
from streamlink.errors import CorruptStore
from streamlink.model.beside import may_be_beside
from streamlink.model.digest import BLOCK_HASH_BYTES, block_count
from streamlink.model.spec import ModelSpec
from streamlink.stores.checked_json import parse_json
from streamlink.stores.files import read_bytes, remove, replace, write_all

__all__ = [
    "ADAPTER_NAME",
    "INDEX_NAME",
    "SINGLE_NAME",
    "ShardIndex",
    "generation_of",
    "new_generation",
    "next_index_name",
    "publish_index",
    "read_block_hashes",
    "remove_dead_files",
    "shard_name",
    "superseded_files",
    "write_block_hashes",
]

INDEX_NAME = "model.safetensors.index.json"
SINGLE_NAME = "model.safetensors"
ADAPTER_NAME = "adapter_model.safetensors"
"""How PEFT calls the one file of an adapter."""

_BESIDE = ".beside"
_DIGESTS, _CHECKSUM = "streamlink_digests", "streamlink_checksum"
_PLACED = "streamlink_placed"

# Only what matches this is ever removed, unless the old index names it. So it is strict: the exact
# forms that this package writes, and nothing that another tool would.
_OURS = re.compile(
    r"model-([0-9a-f]{8})"
    r"(-\d{5,}-of-\d{5,}\.safetensors(\.part)?|\.digests|\.partial|\.index\.json\.part"
    r"|\.beside(-\d{3,})?(\.part)?)"
)


_HASHES_MAGIC = b"SLDIGST1"
_HASHES_HEAD = struct.Struct("<8sQ32s")
_CHECKSUM_BYTES = 16


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """The content of an index.

    Attributes:
        weight_map: tensor → file name, in logical order.
        total_bytes: bytes of all tensors.
        digests: name of the sidecar with the block hashes, ``""`` for none.
        placed: names of the small files that a model brought here, and of an adapter's file: these
            are the store's to remove, and no others.
    """

    weight_map: Mapping[str, str]
    total_bytes: int = 0
    digests: str = ""
    placed: tuple[str, ...] = ()

    @property
    def files(self) -> set[str]:
        """Names of all files that belong to the model."""
        return {*self.weight_map.values(), *([self.digests] if self.digests else [])}

    @classmethod
    def read(cls, directory: Path) -> ShardIndex:
        """Read the directory's index.

        Raises:
            FileNotFoundError: there is none.
            CorruptStore: it is not an index, is damaged, or names files outside the directory.
                Damage is detected by a checksum, which an index of another tool does not have.
        """
        path = directory / INDEX_NAME
        parsed = parse_json(patiently(path.read_bytes), path)
        # JSON objects keep their order in Python, and that of the weight_map is the logical order.
        weight_map, metadata = parsed.get("weight_map"), parsed.get("metadata")
        if not isinstance(weight_map, dict):
            raise CorruptStore("it has no weight_map", path=str(path))
        facts = metadata if isinstance(metadata, dict) else {}
        digests = facts.get(_DIGESTS, "")
        names = {*map(_checked_type, weight_map.values()), _checked_type(digests)} - {""}
        for name in names:
            _require_plain_name(name, path)
        # Several signs, so that a bit that flips in one key cannot switch the check off.
        is_ours = not facts.keys().isdisjoint((_DIGESTS, _CHECKSUM, _PLACED))
        is_ours = is_ours or any(map(_OURS.fullmatch, names))
        if is_ours and facts.get(_CHECKSUM) != _checksum(weight_map, facts):
            raise CorruptStore(
                "the index is damaged: its checksum is wrong or missing", path=str(path)
            )
        return cls(weight_map, digests=digests, placed=_placed(facts, path))

    def write(self, directory: Path, generation: str) -> None:
        """Replace the directory's index, atomically and durably."""
        self.prepare(directory, generation)
        publish_index(directory, generation)

    def prepare(self, directory: Path, generation: str) -> None:
        """Write the next index to the disk under a temporary name, for ``publish_index``."""
        temporary = directory / next_index_name(generation)
        metadata: dict[str, Any] = {"total_size": self.total_bytes, _DIGESTS: self.digests}
        if self.placed:
            metadata[_PLACED] = list(self.placed)
        metadata[_CHECKSUM] = _checksum(self.weight_map, metadata)
        text = json.dumps({"metadata": metadata, "weight_map": dict(self.weight_map)}, indent=1)
        # O_TRUNC and not O_EXCL: a resumed attempt keeps its generation, and may find the file that
        # its interrupted commit has written.
        fd = patiently(os.open, temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            write_all(fd, text.encode(), 0)
            os.fsync(fd)
        finally:
            os.close(fd)


def next_index_name(generation: str) -> str:
    """Return the temporary name of an index that is not published yet."""
    return f"model-{generation}.index.json.part"


def publish_index(directory: Path, generation: str) -> None:
    """Replace the directory's index with the prepared one, atomically and durably."""
    replace(directory / next_index_name(generation), directory / INDEX_NAME)


def new_generation() -> str:
    """Return a random part for the names of one attempt's files.

    Random and not a counter: files of an earlier attempt may still be open for reading, and their
    names must not be used again.
    """
    # 32 bits suffice: shards are created with O_EXCL, so two equal names are an error and never a
    # mixed model.
    return secrets.token_hex(4)


def generation_of(name: str) -> str:
    """Return the part that the names of one attempt's files share; ``""``: it is not our file."""
    match = _OURS.fullmatch(name)
    return match[1] if match else ""


def shard_name(generation: str, number: int, count: int) -> str:
    """Return the file name of shard ``number`` (from 0) of ``count``."""
    return f"model-{generation}-{number + 1:05d}-of-{count:05d}.safetensors"


def remove_dead_files(
    directory: Path, superseded: Collection[str] = (), *, spared: str = ""
) -> None:
    """Remove our files that the present index does not name, and ``superseded`` files.

    Files of the generation ``spared`` stay. If the index is damaged, nothing is removed, because
    the shards may still be rescued.
    """
    try:
        alive = ShardIndex.read(directory).files
    except FileNotFoundError:
        alive = set()
    except CorruptStore:
        return
    living = {generation_of(name) for name in alive} - {""}
    for name in patiently(os.listdir, directory):
        ours = _OURS.fullmatch(name)
        # The present index has the last word: it may still name a file that is called superseded.
        is_spared = name in alive or (ours is not None and ours[1] == spared)
        # What the present model's commit has still to place is no leftover.
        is_spared = is_spared or (_BESIDE in name and generation_of(name) in living)
        if (name in superseded or ours) and not is_spared:
            remove(directory / name)


def superseded_files(directory: Path) -> set[str]:
    """Return the names of files that a new index supersedes.

    ``model.safetensors`` is one of them, because many tools prefer it to an index.
    """
    if not (directory / INDEX_NAME).exists():
        return {SINGLE_NAME}
    return ShardIndex.read(directory).files | {SINGLE_NAME}


def write_block_hashes(path: Path, spec: ModelSpec, hashes: bytes) -> None:
    """Write a new sidecar, durably."""
    head = _HASHES_HEAD.pack(_HASHES_MAGIC, spec.nbytes, spec.digest)
    data = head + hashes
    # As for the index: a resumed attempt may find the sidecar of its interrupted commit.
    fd = patiently(os.open, path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        write_all(fd, data + xxhash.xxh3_128_digest(data), 0)
        os.fsync(fd)
    finally:
        os.close(fd)


def read_block_hashes(path: Path, spec: ModelSpec) -> bytes:
    """Return all block hashes in order, joined.

    Raises:
        FileNotFoundError: there is no such sidecar.
        CorruptStore: it is damaged, or belongs to another model.
    """
    expected = _HASHES_HEAD.size + block_count(spec.nbytes) * BLOCK_HASH_BYTES + _CHECKSUM_BYTES
    fd = patiently(os.open, path, os.O_RDONLY)
    try:
        # Never more than expected, whatever size the file has: a wrong one is refused below.
        data = read_bytes(fd, min(expected, os.fstat(fd).st_size), 0, path)
    finally:
        os.close(fd)
    body, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    if len(data) != expected or xxhash.xxh3_128_digest(body) != checksum:
        raise CorruptStore("the block hashes are damaged or of another model", path=str(path))
    if body[: _HASHES_HEAD.size] != _HASHES_HEAD.pack(_HASHES_MAGIC, spec.nbytes, spec.digest):
        raise CorruptStore("these are the block hashes of another model", path=str(path))
    return body[_HASHES_HEAD.size :]


def _checksum(weight_map: Mapping[str, str], facts: Mapping[str, Any]) -> str:
    """Return the checksum of an index's content, which does not depend on white space."""
    # A list of pairs: the order of the tensors is part of what is protected.
    content = [list(weight_map.items()), facts.get("total_size"), facts.get(_DIGESTS)]
    if _PLACED in facts:
        content.append(facts[_PLACED])
    return xxhash.xxh3_128_hexdigest(json.dumps(content).encode())


def _placed(facts: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    names = facts.get(_PLACED, [])
    # These are removed when the next model comes, so the index must not be able to name others.
    if not isinstance(names, list) or not all(map(_may_be_placed, names)):
        raise CorruptStore("it names files that no model brings", path=str(path))
    return tuple(names)


def _may_be_placed(name: object) -> bool:
    return isinstance(name, str) and (name == ADAPTER_NAME or may_be_beside(name))


def _checked_type(name: object) -> str:
    return name if isinstance(name, str) else "/"  # refused by ``_require_plain_name``


def _require_plain_name(name: str, path: Path) -> None:
    # Path traversal: the index is untrusted, and must not make us open or remove files elsewhere.
    if "/" in name or "\\" in name or "\0" in name or name in (".", "..") or ".." in name:
        raise CorruptStore(f"it names {name!r}, which is not a plain file name", path=str(path))
