"""The header of a safetensors file: eight bytes of length, then JSON with each tensor's position.

A header is untrusted input. Every contradiction between header and file is refused here, so that
the stores may compute with its offsets.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from streamlink.errors import CorruptStore, ModelError, StoreError, UnsupportedDtype
from streamlink.model.spec import TensorSpec
from streamlink.stores.checked_json import parse_json
from streamlink.stores.files import read_bytes

__all__ = [
    "LARGEST_ELEMENT_BYTES",
    "MAX_HEADER_BYTES",
    "ShardHeader",
    "encode_header",
    "read_header",
]

MAX_HEADER_BYTES = 100_000_000
"""Longest JSON accepted: the limit of the safetensors library."""

# The widest element. The data begins behind 8 bytes and the padded JSON, at a multiple of 8.
LARGEST_ELEMENT_BYTES = 8
_METADATA = "__metadata__"
NO_METADATA: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ShardHeader:
    """What a safetensors file holds.

    Attributes:
        tensors: in the order of the JSON.
        offsets: where each tensor's bytes begin in the file.
        metadata: free text of the tool that wrote it, such as ``{"format": "pt"}``.
    """

    tensors: tuple[TensorSpec, ...]
    offsets: tuple[int, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)


def read_header(fd: int, path: Path) -> ShardHeader:
    """Read and check the header of an open file.

    Raises:
        CorruptStore: it is not a safetensors file, or header and file contradict each other.
        StoreError: a tensor's dtype is not supported.
    """
    file_bytes = os.fstat(fd).st_size
    length = _header_length(fd, file_bytes, path)
    entries = parse_json(read_bytes(fd, length, 8, path), path)
    # Nothing here depends on it, so what is no text is left out and is no error.
    metadata = _texts(entries.pop(_METADATA, None))
    tensors, ranges = [], []
    for name, entry in entries.items():
        tensor, begin, end = _parse_entry(name, entry, path)
        tensors.append(tensor)
        ranges.append((begin, end))
    _check_cover(tensors, ranges, file_bytes - 8 - length, path)
    offsets = tuple(8 + length + begin for begin, _ in ranges)
    return ShardHeader(tuple(tensors), offsets, metadata)


def encode_header(
    tensors: Sequence[TensorSpec],
    metadata: Mapping[str, str] = NO_METADATA,
    alignment: int = LARGEST_ELEMENT_BYTES,
) -> tuple[bytes, tuple[int, ...]]:
    """Return (header, file offset of each tensor) of a file that holds ``tensors``.

    Tensors with wider elements come first in the file, so that every tensor is aligned to its
    elements; readers that map the file need that. The JSON keeps the given order. The data begin at
    a multiple of ``alignment`` (bytes).

    Raises:
        StoreError: a tensor has the one name that the format reserves.
    """
    begins = _place(tensors)
    entries = {
        tensor.name: {
            "dtype": tensor.dtype,
            "shape": tensor.shape,
            "data_offsets": (begin, begin + tensor.nbytes),
        }
        for tensor, begin in zip(tensors, begins, strict=True)
    }
    if _METADATA in entries:
        raise StoreError(f"safetensors reserves the name {_METADATA!r}; rename the tensor")
    facts = {_METADATA: dict(metadata)} if metadata else {}
    text = json.dumps({**facts, **entries}, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % alignment)
    start = 8 + len(text)
    return struct.pack("<Q", len(text)) + text, tuple(start + begin for begin in begins)


def _texts(metadata: Any) -> dict[str, str]:
    found = metadata if isinstance(metadata, dict) else {}
    return {key: value for key, value in found.items() if isinstance(value, str)}


def _header_length(fd: int, file_bytes: int, path: Path) -> int:
    if file_bytes < 8:
        raise CorruptStore(f"{file_bytes} bytes are too few for a safetensors file", path=str(path))
    (length,) = struct.unpack("<Q", read_bytes(fd, 8, 0, path))
    # Both limits are checked before memory is allocated: the eight bytes may hold any number.
    if length > MAX_HEADER_BYTES:
        raise CorruptStore(
            f"not a safetensors file, or its header of {length} bytes is above the limit of "
            f"{MAX_HEADER_BYTES}",
            path=str(path),
        )
    if length > file_bytes - 8:
        raise CorruptStore(
            f"not a safetensors file, or one that was cut short: its header says {length} bytes, "
            f"and the whole file has {file_bytes}",
            path=str(path),
        )
    return int(length)


def _parse_entry(name: str, entry: Any, path: Path) -> tuple[TensorSpec, int, int]:
    def corrupt(what: str) -> CorruptStore:
        return CorruptStore(what, path=str(path), tensor=name)

    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise corrupt("its entry does not have exactly dtype, shape and data_offsets")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not _is_counts(shape) or not _is_counts(offsets) or len(offsets) != 2:
        raise corrupt("its shape or data_offsets are not lists of integers of at least 0")
    try:
        tensor = TensorSpec(name, str(entry["dtype"]), tuple(shape))
    except UnsupportedDtype as error:
        raise StoreError(f"{path}: {error}") from error
    except ModelError as error:
        raise corrupt(str(error)) from error
    begin, end = offsets
    if end - begin != tensor.nbytes:
        raise corrupt(f"its data_offsets span {end - begin} bytes, its shape needs {tensor.nbytes}")
    return tensor, begin, end


def _is_counts(value: Any) -> bool:
    # ``type`` and not ``isinstance``: JSON's true is an int in Python.
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _check_cover(
    tensors: list[TensorSpec], ranges: list[tuple[int, int]], data_bytes: int, path: Path
) -> None:
    """Check that the tensors are adjacent and fill the file exactly.

    The format demands it: a gap could hide data, and an overlap could make two tensors share bytes.
    """
    position = 0
    # In the order of the data, because the JSON may name the tensors in any other order.
    for index in sorted(range(len(ranges)), key=ranges.__getitem__):
        begin, end = ranges[index]
        if begin != position:
            kind = "overlaps the one before it" if begin < position else "leaves a hole before it"
            raise CorruptStore(
                f"its data begins at {begin}, which {kind} (that ends at {position})",
                path=str(path),
                tensor=tensors[index].name,
            )
        position = end
    if position != data_bytes:
        kind = "was cut short" if data_bytes < position else "has bytes that belong to no tensor"
        raise CorruptStore(
            f"it has {data_bytes} bytes of data and its header says {position}: the file {kind}",
            path=str(path),
        )


def _place(tensors: Sequence[TensorSpec]) -> list[int]:
    begins, position = [0] * len(tensors), 0
    # Each width is a multiple of the next smaller one, so no padding is needed. The sort is stable:
    # tensors of one width stay in logical order, and are read as one run.
    for index in sorted(range(len(tensors)), key=lambda i: -tensors[i].itemsize):
        begins[index] = position
        position += tensors[index].nbytes
    return begins
