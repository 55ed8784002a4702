from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from streamlink.errors import StoreError, StoreFull
from streamlink.model.interfaces import ModelStore
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.stores.safetensors import SafetensorsSource, SafetensorsStore
from streamlink.stores.safetensors.index import INDEX_NAME, ShardIndex
from tests.support.disk import CRASH_SPEC, crash_at, disk_store, largest_file, names_in
from tests.support.few_files import run_with_few_files
from tests.support.models import (
    StoreContract,
    content,
    fill,
    float_spec,
    pattern_model,
    save,
)


class TestSafetensorsStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ModelStore:
        return SafetensorsStore(tmp_path / "model", shard_bytes=1 << 20)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("call", "count", "after"),
    [
        ("ftruncate", 1, False),
        ("pwrite", 5, False),
        ("pwrite", 20, True),
        ("fdatasync", 2, False),
        ("fsync", 1, False),
        ("fsync", 2, True),
        ("replace", 1, False),
        ("replace", 1, True),
        ("unlink", 1, False),
        ("unlink", 2, True),
    ],
)
def test_a_process_killed_at_any_step_leaves_one_whole_model(
    tmp_path: Path, call: str, count: int, after: bool
) -> None:
    store = disk_store(tmp_path)
    old = save(store, pattern_model(CRASH_SPEC))
    crash_at(tmp_path, call, count, after=after)
    is_new = call == "unlink" or (call == "replace" and after)
    source = store.open()
    assert content(source) == (content(pattern_model(CRASH_SPEC, seed=9)) if is_new else old)
    source.close()
    store.begin(CRASH_SPEC).discard()
    assert names_in(tmp_path) == {INDEX_NAME, *ShardIndex.read(tmp_path).files}


def test_everything_is_durable_before_the_index_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    for name in ("fdatasync", "fsync", "replace", "unlink"):
        original = getattr(os, name)

        def noted(*args: Any, name: str = name, original: Any = original) -> Any:
            target = os.readlink(f"/proc/self/fd/{args[0]}") if "sync" in name else args[-1]
            order.append(f"{name} {Path(target).suffix or 'directory'}")
            return original(*args)

        monkeypatch.setattr(os, name, noted)
    save(SafetensorsStore(tmp_path), pattern_model(float_spec(3)))
    assert order == [
        "fdatasync .safetensors",
        "fsync .digests",
        "fsync directory",
        "fsync .part",
        "replace .json",
        "fsync directory",
    ]


def test_the_model_of_another_tool_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    (tmp_path / "config.json").touch()
    assert SafetensorsSource(tmp_path).spec.tensors == ()
    save(SafetensorsStore(tmp_path), pattern_model(float_spec(3)))
    assert names_in(tmp_path) == {
        "config.json",
        INDEX_NAME,
        *ShardIndex.read(tmp_path).files,
    }


def test_a_full_disk_is_told_when_beginning(tmp_path: Path) -> None:
    with pytest.raises(StoreFull, match=r"needs [0-9.]+ MB"):
        SafetensorsStore(tmp_path).begin(float_spec(1 << 50))
    assert names_in(tmp_path) == set()


def test_a_disk_that_fills_up_leaves_the_old_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, spec = SafetensorsStore(tmp_path), float_spec(1000)
    old = save(store, pattern_model(spec))
    names = names_in(tmp_path)
    sink = store.begin(spec)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", _no_space)
        with pytest.raises(StoreFull, match="no room while writing the model"):
            sink.write(0, memoryview(old))
    sink.discard()
    assert content(store.open()) == old
    assert names_in(tmp_path) == names


def test_a_commit_that_fails_leaves_the_old_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, spec = SafetensorsStore(tmp_path), float_spec(1000)
    old = save(store, pattern_model(spec))
    sink = store.begin(spec)
    fill(sink, old[::-1], [])
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", _no_space)
        with pytest.raises(StoreFull, match="while committing"):
            sink.commit()
    sink.discard()
    assert content(store.open()) == old


def test_the_systems_limit_on_file_size_is_a_full_disk(tmp_path: Path) -> None:
    with largest_file(1 << 20), pytest.raises(StoreFull, match="File too large"):
        SafetensorsStore(tmp_path).begin(float_spec(1 << 20))
    assert names_in(tmp_path) == set()


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    store = SafetensorsStore(tmp_path)
    first = store.begin(float_spec(1))
    with pytest.raises(StoreError, match="another writer uses this store"):
        store.begin(float_spec(1))
    fill(first, b"1234", [])
    first.commit()
    store.begin(float_spec(1)).discard()
    assert content(store.open()) == b"1234"


def test_a_finished_attempt_takes_nothing_more(tmp_path: Path) -> None:
    sink = SafetensorsStore(tmp_path).begin(float_spec(1))
    sink.discard()
    with pytest.raises(StoreError, match="already committed or discarded"):
        sink.write(0, memoryview(b"1234"))
    with pytest.raises(StoreError, match="already committed or discarded"):
        sink.commit()


def _no_space(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_discarded_attempt_takes_the_directory_it_made_with_it(tmp_path: Path) -> None:
    spec = ModelSpec((TensorSpec("w", "U8", (8,)),))
    SafetensorsStore(tmp_path / "new").begin(spec).discard()
    assert not (tmp_path / "new").exists()


def test_a_discarded_attempt_leaves_a_directory_that_was_there(tmp_path: Path) -> None:
    spec = ModelSpec((TensorSpec("w", "U8", (8,)),))
    SafetensorsStore(tmp_path).begin(spec).discard()
    assert tmp_path.exists()


@pytest.mark.processes
def test_an_attempt_is_discarded_where_no_descriptor_is_free(tmp_path: Path) -> None:
    said = run_with_few_files(
        f"""
import os
import numpy as np
import streamlink

store = streamlink.stores.SafetensorsStore({str(tmp_path)!r})
streamlink.copy_model({{"w": np.arange(10.0)}}, store)
before = sorted(os.listdir({str(tmp_path)!r}))
sink = store.begin(store.open().spec)
sink.write(0, memoryview(bytes(80)))
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    sink.discard()
os.close(held.pop())
print(before == sorted(os.listdir({str(tmp_path)!r})))
""",
        soft=64,
    )
    assert said == "True\n"
