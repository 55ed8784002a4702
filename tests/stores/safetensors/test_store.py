from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from streamlink.errors import CorruptStore, StoreError
from streamlink.model.digest import BLOCK_BYTES, digest_of
from streamlink.model.interfaces import ModelSource
from streamlink.model.spec import ModelSpec
from streamlink.stores.memory import ArrayModel
from streamlink.stores.safetensors import SafetensorsSource, SafetensorsStore
from streamlink.stores.safetensors.index import INDEX_NAME, ShardIndex
from tests.support.disk import flip, peak_of
from tests.support.models import (
    SourceContract,
    arrays_of,
    content,
    fill,
    float_spec,
    model_specs,
    pattern_model,
    random_bytes,
    save,
)


class TestStoredSource(SourceContract):
    @pytest.fixture
    def source(self, tmp_path: Path) -> ModelSource:
        store = SafetensorsStore(tmp_path, shard_bytes=1 << 20)
        save(store, pattern_model(self.spec))
        return store.open()


class TestForeignSource(SourceContract):
    """The same model in shards and an index that another tool might have written."""

    @pytest.fixture
    def source(self, tmp_path: Path) -> ModelSource:
        arrays = arrays_of(self.spec, content(pattern_model(self.spec)))
        weight_map = {}
        for number, (name, array) in enumerate(arrays.items()):
            file = f"model-{number}.safetensors"
            (tmp_path / file).write_bytes(safetensors.numpy.save({name: array}))
            weight_map[name] = file
        (tmp_path / INDEX_NAME).write_text(json.dumps({"weight_map": weight_map}))
        return SafetensorsSource(tmp_path)

    def test_it_has_no_hashes_but_a_digest(self, source: SafetensorsSource) -> None:
        assert source.block_hash(0) is None
        assert source.digest() == digest_of(pattern_model(self.spec))


@given(
    spec=model_specs(),
    limit=st.integers(1, 300),
    cuts=st.lists(st.integers(0, 300)),
    seed=st.none() | st.integers(0, 9),
)
def test_any_spec_shards_and_pieces_round_trip(
    tmp_path_factory: pytest.TempPathFactory,
    spec: ModelSpec,
    limit: int,
    cuts: list[int],
    seed: int | None,
) -> None:
    data = random_bytes(spec.nbytes)
    store = SafetensorsStore(tmp_path_factory.getbasetemp() / "any", shard_bytes=limit)
    sink = store.begin(spec)
    fill(sink, data, [cut for cut in cuts if cut < len(data)], seed)
    sink.commit()
    source = store.open()
    assert (source.spec, content(source, 13)) == (spec, data)
    source.close()


LOADABLE = TestStoredSource.spec.tensors[:3]


def test_the_safetensors_library_loads_our_files(tmp_path: Path) -> None:
    spec = ModelSpec(LOADABLE)
    data = save(SafetensorsStore(tmp_path), pattern_model(spec))
    loaded: dict[str, Any] = {}
    for file in tmp_path.glob("*.safetensors"):
        loaded |= safetensors.numpy.load_file(file)
        with safe_open(file, "np") as opened:
            assert set(opened.keys()) == {tensor.name for tensor in LOADABLE}
    assert content(ArrayModel({name: loaded[name] for name in spec.names})) == data


def test_a_single_file_of_the_library_is_read_with_its_directory(tmp_path: Path) -> None:
    arrays = {"w": np.arange(6, dtype="f4").reshape(2, 3), "n": np.array(7)}
    safetensors.numpy.save_file(arrays, tmp_path / "model.safetensors")
    for path in (tmp_path, tmp_path / "model.safetensors"):
        source = SafetensorsSource(path)
        ordered = {tensor.name: arrays[tensor.name] for tensor in source.spec.tensors}
        assert content(source, 5) == content(ArrayModel(ordered))
        source.close()


def test_a_changed_byte_is_named(tmp_path: Path) -> None:
    store = SafetensorsStore(tmp_path)
    save(store, pattern_model(float_spec(BLOCK_BYTES // 4, BLOCK_BYTES // 4)))
    (shard,) = tmp_path.glob("*.safetensors")
    flip(shard, shard.stat().st_size - 1)
    source = store.open()
    source.read(0, BLOCK_BYTES)
    with pytest.raises(CorruptStore, match="not what was stored") as caught:
        source.read(BLOCK_BYTES + 5, 1)
    assert (caught.value.path, caught.value.tensor) == (str(shard), "t1")
    assert caught.value.offset == BLOCK_BYTES


def test_a_shard_cut_short_is_refused(tmp_path: Path) -> None:
    store = SafetensorsStore(tmp_path)
    save(store, pattern_model(float_spec(100)))
    (shard,) = tmp_path.glob("*.safetensors")
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(CorruptStore, match="cut short"):
        store.open()


def test_a_shard_that_is_gone_is_named(tmp_path: Path) -> None:
    store = SafetensorsStore(tmp_path)
    save(store, pattern_model(float_spec(100)))
    (shard,) = tmp_path.glob("*.safetensors")
    shard.unlink()
    with pytest.raises(CorruptStore, match=f"{shard.name}: the index names this file"):
        store.open()


def test_without_its_digests_a_model_is_read_unverified(tmp_path: Path) -> None:
    store = SafetensorsStore(tmp_path)
    data = save(store, pattern_model(float_spec(100)))
    for digests in tmp_path.glob("*.digests"):
        digests.unlink()
    source = store.open()
    assert source.block_hash(0) is None
    assert content(source) == data
    source.close()


def test_digests_removed_by_a_writer_make_opening_start_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SafetensorsStore(tmp_path)
    data = save(store, pattern_model(float_spec(100)))
    present = ShardIndex.read(tmp_path)
    stale = ShardIndex(present.weight_map, digests="model-00000000.digests")
    answers = [stale, present, present, present]
    monkeypatch.setattr(ShardIndex, "read", lambda _: answers.pop(0))
    source = store.open()
    assert source.block_hash(0) is not None
    assert content(source) == data
    source.close()


def test_an_index_that_misplaces_a_tensor_is_refused(tmp_path: Path) -> None:
    save(SafetensorsStore(tmp_path, shard_bytes=8), pattern_model(float_spec(2, 2)))
    index = ShardIndex.read(tmp_path)
    swapped = dict(zip(index.weight_map, reversed(list(index.weight_map.values())), strict=True))
    ShardIndex(swapped).write(tmp_path, "00000000")
    with pytest.raises(CorruptStore, match="'t0': the index names it, but this file does not"):
        SafetensorsSource(tmp_path)
    ShardIndex({**dict(list(index.weight_map.items())[:1]), "x": ""}).write(tmp_path, "00000000")
    with pytest.raises(StoreError):
        SafetensorsSource(tmp_path)


def test_a_tensor_the_index_forgot_is_refused(tmp_path: Path) -> None:
    save(SafetensorsStore(tmp_path), pattern_model(float_spec(2, 2)))
    index = ShardIndex.read(tmp_path)
    ShardIndex({"t0": index.weight_map["t0"]}).write(tmp_path, "00000000")
    with pytest.raises(CorruptStore, match="'t1': the index does not name it"):
        SafetensorsSource(tmp_path)


def test_opening_starts_again_when_a_writer_replaces_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SafetensorsStore(tmp_path)
    save(store, pattern_model(float_spec(100)))
    stale = ShardIndex.read(tmp_path)
    data = save(store, pattern_model(float_spec(100), seed=5))
    answers = [stale, ShardIndex.read(tmp_path), ShardIndex.read(tmp_path)]
    monkeypatch.setattr(ShardIndex, "read", lambda _: answers.pop(0))
    source = store.open()
    assert content(source) == data
    source.close()


def test_a_closed_source_says_so(tmp_path: Path) -> None:
    store = SafetensorsStore(tmp_path)
    save(store, pattern_model(float_spec(100)))
    source = store.open()
    source.close()
    with pytest.raises(StoreError, match="this source is closed"):
        source.read(0, 4)


def test_reading_and_writing_hold_a_few_blocks(tmp_path: Path) -> None:
    store = SafetensorsStore(tmp_path, shard_bytes=10 << 20)
    spec = float_spec(24 << 20 >> 2, 24 << 20 >> 2)
    source = pattern_model(spec)
    sink = store.begin(spec)
    view = source.read(0, BLOCK_BYTES)[0]

    def write_and_read() -> None:
        for offset in range(0, spec.nbytes, BLOCK_BYTES):
            sink.write(offset, view)
        sink.commit()
        assert store.open().digest() == digest_of(store.open())

    assert peak_of(write_and_read) < 20 << 20
