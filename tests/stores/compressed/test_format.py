from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import CorruptStore
from streamlink.model.spec import ModelSpec
from streamlink.stores.compressed.format import (
    HEAD,
    Contents,
    encode_tail,
    new_index,
    read_contents,
)
from tests.support.models import float_spec, model_specs

SPEC = float_spec(3, 0, 4)
FRAMES = 20


def encode(spec: ModelSpec, length: int = 0) -> bytes:
    index = new_index(spec)
    index["offset"], index["length"] = len(HEAD), length or spec.nbytes
    return (
        HEAD
        + bytes(FRAMES + spec.nbytes)
        + encode_tail(spec, index, len(HEAD) + FRAMES + spec.nbytes)
    )


def read(path: Path, data: bytes) -> Contents:
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)
    try:
        return read_contents(fd, path)
    finally:
        os.close(fd)


@given(spec=model_specs())
def test_spec_and_index_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, spec: ModelSpec
) -> None:
    contents = read(tmp_path_factory.getbasetemp() / "slz", encode(spec))
    assert contents.spec == spec
    assert contents.index["length"].tolist() == ([spec.nbytes] if spec.nbytes else [])


def test_a_damaged_byte_outside_the_frames_is_noticed(tmp_path: Path) -> None:
    good = encode(SPEC)
    for at in [*range(len(HEAD)), *range(len(HEAD) + FRAMES + SPEC.nbytes, len(good))]:
        with pytest.raises(CorruptStore):
            read(tmp_path / "f", good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    good = encode(SPEC)
    for length in range(len(good)):
        with pytest.raises(CorruptStore):
            read(tmp_path / "f", good[:length])


def test_a_frame_longer_than_its_block_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptStore, match="outside the frames"):
        read(tmp_path / "f", encode(SPEC, length=SPEC.nbytes + 1))


def test_parts_that_contradict_each_other_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = len(HEAD) + FRAMES
    with pytest.raises(CorruptStore, match="do not end where its footer begins"):
        read(tmp_path / "f", HEAD + bytes(FRAMES) + encode_tail(SPEC, new_index(SPEC), end + 1))
    long = new_index(float_spec(1 << 20))
    with pytest.raises(CorruptStore, match="contradict each other"):
        read(tmp_path / "f", HEAD + bytes(FRAMES) + encode_tail(SPEC, long, end))
    monkeypatch.setattr(json, "dumps", lambda *_, **__: '[["w", "F32"]]')
    with pytest.raises(CorruptStore, match="spec cannot be read"):
        read(tmp_path / "f", HEAD + bytes(FRAMES) + encode_tail(SPEC, new_index(SPEC), end))


def test_another_version_is_told(tmp_path: Path) -> None:
    good = encode(SPEC)
    with pytest.raises(CorruptStore, match="it has version 2"):
        read(tmp_path / "f", good[:8] + b"\x02" + good[9:])


@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    with pytest.raises(CorruptStore):
        read(tmp_path_factory.getbasetemp() / "slz", data)
