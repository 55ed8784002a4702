from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from streamlink.copying import copy_model
from streamlink.errors import ModelError, StoreError, TornModel, UnsupportedDtype
from streamlink.model.interfaces import Lending, ModelSink, ModelSource, ModelStore
from streamlink.model.spec import ModelSpec
from streamlink.stores.memory import ArrayModel, MemoryStore, empty_arrays
from tests.support.models import (
    LendingContract,
    SourceContract,
    StoreContract,
    arrays_of,
    content,
    fill,
    float_spec,
    model_specs,
    pattern_model,
    random_bytes,
)

Array = npt.NDArray[Any]


class TestArrayModel(SourceContract):
    @pytest.fixture
    def source(self) -> ModelSource:
        return ArrayModel(arrays_of(self.spec, content(pattern_model(self.spec))))


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> ModelStore:
        return MemoryStore()


class TestArraysThatLend(LendingContract):
    @pytest.fixture
    def sink(self) -> Lending:
        return ArrayModel(empty_arrays(self.spec))

    def arrived(self, sink: Lending) -> bytes:
        assert isinstance(sink, ArrayModel)
        return content(sink)


class TestMemoryStoreThatLends(LendingContract):
    @pytest.fixture
    def sink(self) -> Lending:
        self.store = MemoryStore()
        return self.store.begin(self.spec)

    def arrived(self, sink: Lending) -> bytes:
        return content(self.store.open())


def test_strided_arrays_are_not_lent_and_read_only_ones_say_so() -> None:
    strided, read_only = np.zeros((4, 6), np.float32).T, np.zeros(3)
    read_only.flags.writeable = False
    assert ArrayModel({"w": strided}).lend(0, 8) is None
    model = ArrayModel({"w": read_only})
    with pytest.raises(ModelError, match="read-only"):
        model.lend(0, 8)
    assert not model.is_torn


@given(spec=model_specs(), cuts=st.lists(st.integers(0, 200)), seed=st.none() | st.integers(0, 9))
def test_any_spec_and_pieces_fill_the_arrays(
    spec: ModelSpec, cuts: list[int], seed: int | None
) -> None:
    data = random_bytes(spec.nbytes)
    model = ArrayModel(empty_arrays(spec))
    fill(model, data, [cut for cut in cuts if cut < len(data)], seed)
    model.commit()
    assert content(model, 7) == data


def test_an_array_is_read_without_a_copy() -> None:
    array = np.zeros(10, np.float32)
    (view,) = ArrayModel({"w": array}).read(4, 8)
    array[1] = 1.0
    assert bytes(view[:4]) == np.float32(1).tobytes()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype="f4").reshape(4, 6).T,
        np.arange(24, dtype="i8")[::3],
        np.arange(24).astype(ml_dtypes.bfloat16).reshape(2, 3, 4).transpose(2, 0, 1),
        np.arange(24, dtype="c8")[::-1],
    ],
)
def test_strided_arrays_are_read_and_filled_in_c_order(array: Array) -> None:
    model = ArrayModel({"w": array.copy().T.copy().T})
    expected = np.ascontiguousarray(array).tobytes()
    assert content(ArrayModel({"w": array}), 5) == expected
    new = random_bytes(len(expected))
    fill(model, new, range(0, len(new), 5), seed=1)
    model.commit()
    assert content(model, 11) == new


def test_arrays_are_torn_between_first_write_and_commit() -> None:
    model = ArrayModel({"w": np.zeros(2, np.float32)})
    model.write(0, memoryview(b"1234"))
    assert model.is_torn
    with pytest.raises(TornModel, match="receive the model again"):
        model.read(0, 4)
    model.write(4, memoryview(b"5678"))
    model.commit()
    assert content(model) == b"12345678"


def test_a_discarded_transfer_leaves_the_arrays_torn() -> None:
    model = ArrayModel({"w": np.zeros(2, np.float32)})
    model.write(0, memoryview(b"1234"))
    model.discard()
    assert model.is_torn
    with pytest.raises(StoreError, match="0 of 8 bytes"):
        model.commit()


def test_a_read_only_array_is_refused_before_others_are_touched() -> None:
    first, second = np.zeros(1, np.float32), np.zeros(1, np.float32)
    second.flags.writeable = False
    model = ArrayModel({"a": first, "b": second})
    with pytest.raises(ModelError, match="tensor 'b' is a read-only array"):
        model.write(0, memoryview(b"1234"))
    assert not model.is_torn
    assert first[0] == 0


def test_what_is_no_array_is_refused_by_name() -> None:
    with pytest.raises(ModelError, match="tensor 'w' is a list"):
        ArrayModel({"w": [1.0]})  # type: ignore[dict-item]
    with pytest.raises(UnsupportedDtype, match="tensor 'w': dtype object"):
        ArrayModel({"w": np.array([None])})


def test_the_array_model_is_source_and_sink() -> None:
    model = ArrayModel({})
    assert isinstance(model, ModelSource)
    assert isinstance(model, ModelSink)
    assert isinstance(MemoryStore().begin(float_spec(1)), ModelSink)


def test_many_small_tensors_come_as_one_payload_of_views() -> None:
    model = ArrayModel({f"t{n}": np.full(4, n % 256, np.uint8) for n in range(1000)})
    payload = model.read(2, 3996)
    assert len(payload) == 1000
    assert [view.nbytes for view in payload[:2]] == [2, 4]


@pytest.mark.parametrize("wrong", [torch.nn.Linear(2, 2), {"w": torch.zeros(2)}, {"w": [1.0]}, 7])
def test_a_store_of_what_is_no_array_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(ModelError, match=r"holds NumPy arrays, .*copy_model\(module, store\)"):
        MemoryStore(wrong)


def test_a_module_goes_through_a_memory_store_as_the_error_says() -> None:
    module, other, store = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2), MemoryStore()
    copy_model(module, store)
    copy_model(store, other)
    assert all(
        torch.equal(one, same)
        for one, same in zip(module.parameters(), other.parameters(), strict=True)
    )
