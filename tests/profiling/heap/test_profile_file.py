"""A profile that was cut is noticed, wherever it was."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.profiling.heap.profile_file import fault_of

BLOCKS = st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=5)


def frame(blocks: list[bytes], *, flags: int = 0x40) -> bytes:
    """An LZ4 frame whose blocks are stored; ``flags`` as in the format: 4 is a checksum at the end,
    8 a size at the beginning, 16 a checksum after each block."""
    head = struct.pack("<IBB", 0x184D2204, flags, 0x40) + bytes(8 if flags & 8 else 0) + b"\0"
    each = bytes(4 if flags & 16 else 0)
    body = b"".join(struct.pack("<I", len(block) | 1 << 31) + block + each for block in blocks)
    return head + body + bytes(4) + bytes(4 if flags & 4 else 0)


def fault(folder: Path, content: bytes) -> str | None:
    path = folder / "profile.bin"
    path.write_bytes(content)
    return fault_of(path)


@given(BLOCKS, st.sampled_from([0x40, 0x44, 0x48, 0x50, 0x5C]))
def test_a_whole_file_has_no_fault(
    tmp_path_factory: pytest.TempPathFactory, blocks: list[bytes], flags: int
) -> None:
    assert fault(tmp_path_factory.getbasetemp(), frame(blocks, flags=flags)) is None


@given(BLOCKS, st.data())
def test_a_file_that_was_cut_anywhere_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, blocks: list[bytes], data: st.DataObject
) -> None:
    whole = frame(blocks)
    size = data.draw(st.integers(4, len(whole) - 1))
    assert f"cut after {size} bytes" in str(fault(tmp_path_factory.getbasetemp(), whole[:size]))


def test_an_empty_file_and_one_of_another_kind_are_named(tmp_path: Path) -> None:
    assert "is empty" in str(fault(tmp_path, b""))
    assert "does not begin" in str(fault(tmp_path, b"PK\3\4 something else"))


def test_bytes_after_the_end_are_noticed(tmp_path: Path) -> None:
    assert "3 bytes follow" in str(fault(tmp_path, frame([b"a"]) + b"xyz"))


def test_a_file_that_memray_did_not_compress_yet_is_for_its_reader(tmp_path: Path) -> None:
    assert fault(tmp_path, b"memray\0" + bytes(100)) is None
