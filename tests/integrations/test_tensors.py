"""Tensors that are read where they are stored: what frameworks get in the place of arrays."""

from __future__ import annotations

import copy
import gc
from pathlib import Path

import numpy as np
import pytest
import torch

import streamlink
from streamlink.errors import ModelError
from streamlink.integrations.tensors import (
    NUMPY,
    TORCH,
    StoredItems,
    fresh,
    in_memory,
    origin,
    stored,
    whole,
)
from streamlink.model import ModelSource
from streamlink.objects import ObjectServer
from streamlink.stores import ArrayModel, open_model
from tests.support.collecting import CollectingSeconds, collecting_only_there, in_cycle


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    return {
        "b": np.arange(6, dtype=np.float32).reshape(2, 3),
        "a": np.arange(5, dtype=np.int64),
        "scalar": np.array(7.5),
        "empty": np.empty((0, 4), np.float16),
    }


@pytest.fixture
def source(arrays: dict[str, np.ndarray], tmp_path: Path) -> ModelSource:
    streamlink.copy_model(arrays, tmp_path / "model")
    return open_model(tmp_path / "model")


def test_a_stored_tensor_is_the_array_that_was_stored(
    arrays: dict[str, np.ndarray], source: ModelSource
) -> None:
    for name, tensor in stored(source, NUMPY).items():
        np.testing.assert_array_equal(tensor.materialize(), arrays[name], strict=True)


def test_a_stored_tensor_becomes_a_torch_tensor_where_torch_is_wanted(source: ModelSource) -> None:
    tensors = stored(source, TORCH)
    assert torch.equal(tensors["b"].materialize(), torch.arange(6.0).reshape(2, 3))
    assert tensors["empty"].materialize().shape == (0, 4)


def test_bf16_stays_bf16(tmp_path: Path) -> None:
    tensor = torch.linspace(-1, 1, 9, dtype=torch.bfloat16)
    streamlink.copy_model({"w": tensor}, tmp_path / "model")
    back = stored(open_model(tmp_path / "model"), TORCH)["w"].materialize()
    assert back.dtype == torch.bfloat16
    assert torch.equal(back, tensor)


def test_a_part_of_a_stored_tensor_is_read_alone(source: ModelSource) -> None:
    part = np.empty(2, np.int64)
    stored(source, NUMPY)["a"].read_into(2 * 8, part.view(np.uint8))
    assert part.tolist() == [2, 3]


def test_stored_tensors_and_arrays_are_one_model_under_new_names(
    arrays: dict[str, np.ndarray], source: ModelSource
) -> None:
    tensors = stored(source, NUMPY)
    model = whole({"T0": tensors["a"], "T1": np.ones(3, np.float32), "T2": tensors["b"]})
    made: dict[str, np.ndarray] = {}
    streamlink.copy_model(model, fresh(NUMPY, made))
    np.testing.assert_array_equal(made["T0"], arrays["a"], strict=True)
    np.testing.assert_array_equal(made["T1"], np.ones(3, np.float32), strict=True)
    np.testing.assert_array_equal(made["T2"], arrays["b"], strict=True)


def test_a_range_of_such_a_model_may_cut_elements(source: ModelSource) -> None:
    model = whole(stored(source, NUMPY))
    line = b"".join(bytes(view) for view in source.read(0, source.spec.nbytes))
    assert b"".join(bytes(view) for view in model.read(3, 30)) == line[3:33]


def test_a_whole_stored_model_is_passed_on_under_new_names_without_a_copy() -> None:
    source = ArrayModel({"a": np.arange(4.0), "b": np.ones(3)})
    tensors = stored(source, NUMPY)
    assert origin(tensors) is source
    model = whole({"T0": tensors["a"], "T1": tensors["b"]})
    assert list(model.spec.names) == ["T0", "T1"]
    [view] = model.read(8, 16)
    assert np.shares_memory(np.frombuffer(view), np.frombuffer(source.read(0, 32)[0]))


def test_parts_of_models_have_no_common_origin() -> None:
    one, other = (stored(ArrayModel({"a": np.ones(2), "b": np.ones(3)}), NUMPY) for _ in range(2))
    assert origin({"a": one["a"]}) is None
    assert origin({"b": one["b"], "a": one["a"]}) is None
    assert origin({"a": one["a"], "b": other["b"]}) is None
    assert origin({"a": one["a"], "b": np.ones(3)}) is None


def test_in_memory_reads_what_is_stored_and_keeps_the_rest(source: ModelSource) -> None:
    ones = np.ones(3)
    values = in_memory({"stored": stored(source, NUMPY)["a"], "array": ones})
    assert values["stored"].tolist() == [0, 1, 2, 3, 4]
    assert values["array"] is ones


def test_what_is_no_array_makes_no_model() -> None:
    with pytest.raises(ModelError):
        whole({"names": np.array(["a", "b"])})


def test_tensors_that_share_their_memory_are_all_sent() -> None:
    tied = torch.arange(6.0).reshape(2, 3)
    model = whole({"embedding": tied, "other": torch.ones(2), "head": tied})
    assert list(model.spec.names) == ["embedding", "other", "head"]
    made: dict[str, torch.Tensor] = {}
    streamlink.copy_model(model, fresh(TORCH, made))
    assert torch.equal(made["head"], tied)
    assert torch.equal(made["embedding"], tied)


def test_new_torch_tensors_are_made_and_filled() -> None:
    made: dict[str, torch.Tensor] = {}
    streamlink.copy_model({"w": torch.eye(3)}, fresh(TORCH, made))
    assert torch.equal(made["w"], torch.eye(3))


def test_a_copy_of_a_stored_tensor_reads_nothing(source: ModelSource) -> None:
    tensors = stored(source, NUMPY)
    assert copy.deepcopy(tensors)["a"] is tensors["a"]


def test_a_model_is_closed_when_its_last_tensor_is_gone() -> None:
    closed = []

    class Closing(ArrayModel):
        def close(self) -> None:
            closed.append(True)

    items = StoredItems(Closing({"a": np.ones(2), "b": np.ones(3)}), NUMPY)
    last = items.make_lazy_ref("b")
    assert items["a"].tolist() == [1, 1]
    del items
    gc.collect()
    assert not closed
    assert last.materialize().tolist() == [1, 1, 1]
    del last
    gc.collect()
    assert closed


def test_the_items_are_those_of_the_model() -> None:
    items = StoredItems(ArrayModel({"a": np.ones(2), "b": np.zeros(3)}), NUMPY)
    assert list(items) == ["a", "b"]
    assert len(items) == 2
    assert "c" not in items
    assert items.get("c") is None


def test_items_that_the_collector_finds_inside_the_shelf_change_nothing_there(
    arrays: dict[str, np.ndarray],
) -> None:
    server = ObjectServer()
    server.put(arrays, ttl=CollectingSeconds(60))
    with collecting_only_there():
        in_cycle(StoredItems(server.open(server.put(arrays, reads=1)), NUMPY))
        server.put(arrays)
    assert len(server) == 2
    server.close()
