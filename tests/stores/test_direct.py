"""Direct I/O: whole pages go past the page cache, and all else goes through it."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from streamlink.errors import CorruptStore
from streamlink.model.digest import BLOCK_BYTES, digest_of
from streamlink.model.payloads import PAGE_BYTES, aligned
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.stores import SafetensorsStore
from streamlink.stores.direct import DirectFiles
from streamlink.stores.safetensors.header import read_header

ODD = ModelSpec((TensorSpec("a", "F32", (700_001,)), TensorSpec("b", "F64", (300_007,))))


def opened(path: Path, nbytes: int = 4 * PAGE_BYTES) -> DirectFiles:
    path.write_bytes(bytes(nbytes))
    files = DirectFiles()
    files.add(0, path, os.O_RDWR)
    return files


def test_whole_pages_are_written_and_read(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "file")) as files:
        page, back = aligned(PAGE_BYTES), aligned(PAGE_BYTES)
        page[:] = 7
        if not files.write(0, page.data, PAGE_BYTES):
            pytest.skip("this file system has no direct I/O")
        assert files.read_into(0, back.data, PAGE_BYTES, tmp_path)
        assert (back == 7).all()
    assert (tmp_path / "file").read_bytes()[PAGE_BYTES : 2 * PAGE_BYTES] == bytes([7]) * PAGE_BYTES


@pytest.mark.parametrize(
    ("memory", "place", "nbytes"), [(1, 0, PAGE_BYTES), (0, 8, PAGE_BYTES), (0, 0, 100)]
)
def test_what_is_no_whole_page_is_left_to_the_cache(
    memory: int, place: int, nbytes: int, tmp_path: Path
) -> None:
    with closing(opened(tmp_path / "file")) as files:
        view = aligned(2 * PAGE_BYTES)[memory : memory + nbytes].data
        assert not files.write(0, view, place)
        assert not files.read_into(0, view, place, tmp_path)


def test_a_file_that_is_gone_is_left_to_whoever_has_it_open(tmp_path: Path) -> None:
    with closing(DirectFiles()) as files:
        files.add(0, tmp_path / "gone", os.O_RDONLY)
        assert not files.read_into(0, aligned(PAGE_BYTES).data, 0, tmp_path)


@pytest.mark.parametrize("shard_bytes", [1 << 20, 1 << 40], ids=["shards", "one"])
@pytest.mark.parametrize("piece", [1 << 20, 70_001])
def test_a_model_is_the_same_that_way(shard_bytes: int, piece: int, tmp_path: Path) -> None:
    data = np.random.default_rng(1).integers(0, 256, ODD.nbytes, np.uint8)
    ways = [
        SafetensorsStore(tmp_path / f"{is_direct}", shard_bytes, is_direct=is_direct)
        for is_direct in (False, True)
    ]
    for store in ways:
        sink = store.begin(ODD)
        for start in range(0, ODD.nbytes, piece):
            room = aligned(min(piece, ODD.nbytes - start))
            room[:] = data[start : start + piece]
            sink.write(start, room.data)
        sink.commit()
        with closing(store.open()) as source:
            assert b"".join(source.read(0, ODD.nbytes)) == data.tobytes()
    assert len({digest_of(store.open()) for store in ways}) == 1


def test_the_data_begin_with_a_page(tmp_path: Path) -> None:
    store = SafetensorsStore(tmp_path, is_direct=True)
    store.begin(ModelSpec((TensorSpec("empty", "F32", (0,)),))).commit()
    (path,) = tmp_path.glob("*.safetensors")
    with path.open("rb") as file:
        header = read_header(file.fileno(), path)
    assert [offset % PAGE_BYTES for offset in header.offsets] == [0]


def test_a_block_is_read_into_memory_that_is_lent(tmp_path: Path) -> None:
    store = SafetensorsStore(tmp_path, shard_bytes=1 << 20, is_direct=True)
    model = np.arange(ODD.nbytes % BLOCK_BYTES + BLOCK_BYTES, dtype=np.uint8)
    spec = ModelSpec((TensorSpec("a", "U8", (model.size,)),))
    sink = store.begin(spec)
    sink.write(0, model.data)
    sink.commit()
    with closing(store.open()) as source:
        first, last = aligned(BLOCK_BYTES), aligned(model.size - BLOCK_BYTES)
        source.read_block(0, first.data)
        source.read_block(1, last.data)
        assert np.array_equal(np.concatenate([first, last]), model)
        with pytest.raises(ValueError, match=r"block 1 has \d+ bytes, not 1048576"):
            source.read_block(1, first.data)


def test_a_damaged_block_is_found_when_it_is_read_into_lent_memory(tmp_path: Path) -> None:
    store = SafetensorsStore(tmp_path, is_direct=True)
    spec = ModelSpec((TensorSpec("a", "U8", (BLOCK_BYTES,)),))
    sink = store.begin(spec)
    sink.write(0, memoryview(bytes(BLOCK_BYTES)))
    sink.commit()
    (shard,) = tmp_path.glob("*.safetensors")
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    with closing(store.open()) as source, pytest.raises(CorruptStore, match="digest differs"):
        source.read_block(0, aligned(BLOCK_BYTES).data)
