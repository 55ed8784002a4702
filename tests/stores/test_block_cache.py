from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streamlink.errors import CorruptStore
from streamlink.model.digest import BLOCK_BYTES, block_hash_of
from streamlink.stores.block_cache import BlockCache, verify
from tests.support.models import float_spec, random_bytes

SPEC = float_spec(BLOCK_BYTES, 3)  # four blocks and twelve bytes
DATA = random_bytes(SPEC.nbytes)


class Blocks:
    """Loads blocks of ``DATA`` and counts the loads."""

    def __init__(self, capacity: int) -> None:
        self.loaded: list[int] = []
        self.reader = BlockCache(SPEC, self.load, capacity)

    def load(self, block: int) -> memoryview:
        self.loaded.append(block)
        return memoryview(bytearray(DATA[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES]))


def test_a_range_is_views_into_its_blocks() -> None:
    blocks = Blocks(8)
    views = blocks.reader.read(BLOCK_BYTES - 1, BLOCK_BYTES + 2)
    assert [view.nbytes for view in views] == [1, BLOCK_BYTES, 1]
    assert b"".join(views) == DATA[BLOCK_BYTES - 1 : 2 * BLOCK_BYTES + 1]
    assert all(view.readonly for view in views)


def test_a_kept_block_is_not_loaded_again() -> None:
    blocks = Blocks(2)
    for start in (0, 5, BLOCK_BYTES, 0, 2 * BLOCK_BYTES, 0, BLOCK_BYTES):
        blocks.reader.read(start, 4)
    assert blocks.loaded == [0, 1, 2, 1]
    blocks.reader.clear()
    blocks.reader.read(0, 4)
    assert blocks.loaded[-1] == 0


def test_readers_that_come_together_share_one_load() -> None:
    arrived, go = threading.Event(), threading.Event()
    loaded: list[int] = []

    def load(block: int) -> memoryview:
        loaded.append(block)
        arrived.set()
        assert go.wait(60)
        return memoryview(DATA[:BLOCK_BYTES])

    reader = BlockCache(SPEC, load, 2)
    with ThreadPoolExecutor(4) as pool:
        reads = [pool.submit(reader.read, 0, 4) for _ in range(4)]
        assert arrived.wait(60)
        go.set()
        assert all(b"".join(read.result(60)) == DATA[:4] for read in reads)
    assert loaded == [0]


def test_a_block_that_loads_holds_up_no_other() -> None:
    arrived, go = threading.Event(), threading.Event()

    def load(block: int) -> memoryview:
        if block == 0:
            arrived.set()
            assert go.wait(60)
        return memoryview(DATA[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES])

    reader = BlockCache(SPEC, load, 1)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(reader.read, 0, 4)
        assert arrived.wait(60)
        assert b"".join(reader.read(BLOCK_BYTES, 4)) == DATA[BLOCK_BYTES:][:4]
        go.set()
        assert b"".join(slow.result(60)) == DATA[:4]


def test_a_failed_load_is_told_to_all_and_tried_again() -> None:
    arrived, go = threading.Event(), threading.Event()
    outcomes: list[OSError | None] = [OSError("bad sector"), None]

    def load(_: int) -> memoryview:
        error = outcomes.pop(0)
        if error is not None:
            arrived.set()
            assert go.wait(60)
            raise error
        return memoryview(DATA[:BLOCK_BYTES])

    reader = BlockCache(SPEC, load, 2)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(reader.read, 0, 4)
        assert arrived.wait(60)
        go.set()
        with pytest.raises(OSError, match="bad sector"):
            first.result(60)
    assert b"".join(reader.read(0, 4)) == DATA[:4]


def test_a_block_that_fell_out_before_it_failed_harms_nobody() -> None:
    blocks = Blocks(1)

    def load(block: int) -> memoryview:
        if block == 0:
            reader.read(BLOCK_BYTES, 4)
            raise OSError("bad sector")
        return blocks.load(block)

    reader = BlockCache(SPEC, load, 1)
    with pytest.raises(OSError, match="bad sector"):
        reader.read(0, 4)
    reader.read(BLOCK_BYTES, 4)
    assert blocks.loaded == [1]


def test_a_wrong_block_is_named(tmp_path: Path) -> None:
    block = memoryview(DATA)[4 * BLOCK_BYTES :]
    verify(SPEC, 4, block, block_hash_of(block), tmp_path)
    with pytest.raises(
        CorruptStore, match="tensor 't1', its byte 0, logical byte 4194304"
    ) as caught:
        verify(SPEC, 4, block, bytes(16), tmp_path)
    assert (caught.value.tensor, caught.value.offset) == ("t1", 4 * BLOCK_BYTES)


def test_a_cache_keeps_at_least_one_block() -> None:
    with pytest.raises(ValueError, match="at least one block"):
        Blocks(0)
