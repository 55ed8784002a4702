"""Whether memray's file is whole, without reading its records.

memray reads a file that was cut as far as it goes and reports no error, so figures of a profile
that lost its end look like figures. memray writes records while the process runs and compresses
them into one LZ4 frame when the process ends; the frame tells where it has to end.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

__all__ = ["fault_of", "is_compressed"]

_LZ4_MAGIC = 0x184D2204  # of the LZ4 frame format 1.6
_MEMRAY_MAGIC = b"memray\0"
_HAS_BLOCK_CHECKSUM, _HAS_SIZE, _HAS_CHECKSUM, _HAS_DICTIONARY = 0x10, 0x08, 0x04, 0x01
_STORED = 0x80000000  # a block that is not compressed


def fault_of(path: Path) -> str | None:
    """Return what is wrong with the container of a profile, or ``None``.

    A file that is not compressed may belong to a process that was killed; its records know that.

    Raises:
        OSError: it cannot be read.
    """
    size = path.stat().st_size
    if size == 0:
        return "the file is empty: its process died before memray wrote anything"
    with path.open("rb") as file:
        head = file.read(len(_MEMRAY_MAGIC))
        if head == _MEMRAY_MAGIC:
            return None
        if len(head) < 4 or int.from_bytes(head[:4], "little") != _LZ4_MAGIC:
            return "the file does not begin as memray's files do"
        file.seek(4)
        return _fault_of_frame(file, size)


def is_compressed(path: Path) -> bool:
    """Tell whether memray has compressed the file, which it does when it closes it.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return file.read(len(_MEMRAY_MAGIC)) != _MEMRAY_MAGIC


def _fault_of_frame(file: BinaryIO, size: int) -> str | None:
    """Walk over the blocks of an LZ4 frame, which begins after its magic number."""
    flags = file.read(2)
    if len(flags) < 2:
        return _cut(size)
    descriptor = (8 if flags[0] & _HAS_SIZE else 0) + (4 if flags[0] & _HAS_DICTIONARY else 0) + 1
    file.seek(descriptor, 1)
    after_block = 4 if flags[0] & _HAS_BLOCK_CHECKSUM else 0
    while True:
        word = file.read(4)
        if len(word) < 4:
            return _cut(size)
        nbytes = struct.unpack("<I", word)[0] & ~_STORED
        if nbytes == 0:
            break
        file.seek(nbytes + after_block, 1)
    end = file.tell() + (4 if flags[0] & _HAS_CHECKSUM else 0)
    if end > size:
        return _cut(size)
    return None if end == size else f"{size - end} bytes follow the end of its content"


def _cut(size: int) -> str:
    return f"the file was cut after {size} bytes: the end of its content is missing"
