from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamlink.errors import StoreError, StoreFull
from streamlink.model.digest import BLOCK_BYTES
from streamlink.model.interfaces import ModelStore
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.stores.compressed import CompressedStore
from streamlink.stores.compressed import sink as sink_module
from tests.support.disk import CRASH_SPEC, crash_at, disk_store, largest_file, names_in
from tests.support.models import (
    StoreContract,
    content,
    fill,
    float_spec,
    pattern_model,
    random_bytes,
    save,
)


class TestCompressedStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ModelStore:
        return CompressedStore(tmp_path / "made" / "model.slz")


class TestStoreOfRandomBytes(StoreContract):
    """With a saving no block can reach, every block is stored as it is."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> ModelStore:
        return CompressedStore(tmp_path / "model.slz", min_saving=1.0)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("call", "count", "after"),
    [
        ("ftruncate", 1, True),
        ("pwrite", 2, True),
        ("pwrite", 5, False),
        ("fsync", 1, False),
        ("replace", 1, False),
        ("replace", 1, True),
        ("fsync", 2, False),
    ],
)
def test_a_process_killed_at_any_step_leaves_one_whole_model(
    tmp_path: Path, call: str, count: int, after: bool
) -> None:
    path = tmp_path / "model.slz"
    store = disk_store(path)
    old = save(store, pattern_model(CRASH_SPEC))
    crash_at(path, call, count, after=after)
    is_new = (call, count) == ("fsync", 2) or (call == "replace" and after)
    source = store.open()
    assert content(source) == (content(pattern_model(CRASH_SPEC, seed=9)) if is_new else old)
    source.close()
    store.begin(CRASH_SPEC).discard()
    assert names_in(tmp_path) == {"model.slz"}


def test_a_pattern_shrinks_and_random_bytes_are_stored_as_they_are(tmp_path: Path) -> None:
    store = CompressedStore(tmp_path / "m.slz")
    spec = ModelSpec((TensorSpec("w", "U8", (40 * BLOCK_BYTES,)),))
    save(store, pattern_model(spec))
    assert store.open().stored_bytes < spec.nbytes // 50
    sink = store.begin(spec)
    fill(sink, random_bytes(spec.nbytes), [])
    sink.commit()
    assert store.open().stored_bytes == spec.nbytes


def test_blocks_that_shrink_again_are_compressed_again(tmp_path: Path) -> None:
    store = CompressedStore(tmp_path / "m.slz")
    data = random_bytes(20 * BLOCK_BYTES) + bytes(20 * BLOCK_BYTES)
    sink = store.begin(ModelSpec((TensorSpec("w", "U8", (len(data),)),)))
    fill(sink, data, range(0, len(data), 2 * BLOCK_BYTES))
    sink.commit()
    assert store.open().stored_bytes < 20.1 * BLOCK_BYTES
    assert content(store.open()) == data


def test_a_misleading_sample_is_checked_now_and_then(tmp_path: Path) -> None:
    """Only the places that are sampled are random."""
    store = CompressedStore(tmp_path / "m.slz")
    quarter = random_bytes(1 << 14) + bytes((1 << 18) - (1 << 14))
    data = random_bytes(BLOCK_BYTES) + quarter * 4 * 33
    sink = store.begin(ModelSpec((TensorSpec("w", "U8", (len(data),)),)))
    fill(sink, data, range(0, len(data), BLOCK_BYTES))
    sink.commit()
    assert store.open().stored_bytes < 20 * BLOCK_BYTES
    assert content(store.open()) == data


def test_a_disk_that_fills_up_leaves_the_old_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, spec = CompressedStore(tmp_path / "m.slz"), float_spec(BLOCK_BYTES)
    old = save(store, pattern_model(spec))
    sink = store.begin(spec)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", _no_space)
        with pytest.raises(StoreFull, match="no room while writing the model"):
            sink.write(0, memoryview(old))
    sink.discard()
    assert content(store.open()) == old
    assert names_in(tmp_path) == {"m.slz"}


def test_the_systems_limit_on_file_size_is_a_full_disk(tmp_path: Path) -> None:
    spec = float_spec(BLOCK_BYTES)
    sink = CompressedStore(tmp_path / "m.slz").begin(spec)
    with largest_file(1 << 20), pytest.raises(StoreFull, match="File too large"):
        sink.write(0, memoryview(random_bytes(spec.nbytes)))
    sink.discard()


def test_nothing_is_begun_below_the_reserve(tmp_path: Path) -> None:
    with pytest.raises(StoreFull, match=r"that must stay free .reserve_bytes."):
        CompressedStore(tmp_path / "m.slz", reserve_bytes=1 << 60).begin(float_spec(1))
    assert names_in(tmp_path) == set()


def test_an_absurd_model_costs_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreFull, match=r"needs [0-9.]+ MB"):
        CompressedStore(tmp_path / "m.slz").begin(float_spec(1 << 60))


def test_writing_stops_when_the_free_space_falls_below_the_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ModelSpec((TensorSpec("w", "U8", (33 << 20,)),))
    sink = CompressedStore(tmp_path / "m.slz").begin(spec)
    full = os.statvfs_result((4096, 4096, 10, 10, 10, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    with pytest.raises(StoreFull, match=r"only 0\.0 MB are free"):
        sink.write(0, memoryview(random_bytes(spec.nbytes)))
    sink.discard()
    assert names_in(tmp_path) == set()


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    store = CompressedStore(tmp_path / "m.slz")
    first = store.begin(float_spec(1))
    with pytest.raises(StoreError, match="another writer uses this store"):
        store.begin(float_spec(1))
    fill(first, b"1234", [])
    first.commit()
    store.begin(float_spec(1)).discard()
    assert content(store.open()) == b"1234"


def test_a_file_published_while_it_was_being_locked_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, original = CompressedStore(tmp_path / "m.slz"), os.open
    part, opened = tmp_path / "m.slz.part", [False]
    part.write_bytes(b"published")

    def publish_after_opening(path: Path, *args: int) -> int:
        fd = original(path, *args)
        if Path(path) == part and not opened[0]:
            opened[0] = True
            part.rename(tmp_path / "m.slz")
        return fd

    monkeypatch.setattr(os, "open", publish_after_opening)
    store.begin(float_spec(1)).discard()
    assert (tmp_path / "m.slz").read_bytes() == b"published"


def test_a_name_that_another_writer_publishes_while_it_is_looked_at_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, final, part = (
        CompressedStore(tmp_path / "m.slz"),
        tmp_path / "m.slz",
        tmp_path / "m.slz.part",
    )
    opens, looks = os.open, os.stat
    is_theirs = [False]

    def publish_after_opening(path: Path, *args: int) -> int:
        fd = opens(path, *args)
        if Path(path) == part and not final.exists():
            part.rename(final)
            part.write_bytes(b"another's")
            is_theirs[0] = True
        return fd

    def publish_after_a_look(path: Any, *args: Any, **named: Any) -> os.stat_result:
        found = looks(path, *args, **named)
        if path == part and is_theirs[0]:
            is_theirs[0] = False
            part.rename(final)
        return found

    monkeypatch.setattr(os, "open", publish_after_opening)
    monkeypatch.setattr(os, "stat", publish_after_a_look)
    store.begin(float_spec(1)).discard()
    assert final.read_bytes() == b"another's"


def test_a_finished_attempt_takes_nothing_more(tmp_path: Path) -> None:
    sink = CompressedStore(tmp_path / "m.slz").begin(float_spec(1))
    sink.discard()
    with pytest.raises(StoreError, match="already committed or discarded"):
        sink.write(0, memoryview(np.zeros(4, np.uint8).data))


def _no_space(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(("nbytes", "reserve"), [(1 << 20, 1 << 16), (100 << 30, 1 << 30)])
def test_as_much_stays_free_as_befits_the_model_and_the_error_says_how_much(
    tmp_path: Path, nbytes: int, reserve: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()
    monkeypatch.setattr(sink_module, "require_free", lambda _, needed, kept: asked.append(kept))
    CompressedStore(tmp_path / "m.slz").begin(float_spec(nbytes // 4)).discard()
    CompressedStore(tmp_path / "m.slz", reserve_bytes=7).begin(float_spec(nbytes // 4)).discard()
    assert asked == [reserve, 7]
