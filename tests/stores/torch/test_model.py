"""Tensors as a model: any range of any tensors, staged or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import StoreError
from streamlink.model.copy import copy_model
from streamlink.model.interfaces import Lending, ModelInPlace, ModelSink, ModelSource
from streamlink.stores.memory import ArrayModel
from streamlink.stores.torch.model import TorchModel, _needs_staging
from streamlink.stores.torch.staging import StagedTensors
from streamlink.stores.torch.tensors import _INTEGERS, _NAMES
from tests.support.models import (
    LendingContract,
    SourceContract,
    StoreContract,
    content,
    fill,
    pattern_model,
    random_bytes,
)
from tests.support.torch_tensors import (
    DTYPES,
    WAYS,
    Tensor,
    both_ways,
    bytes_of,
    model_of,
    named,
    some,
    staged,
)


@both_ways
class TestTorchModel(SourceContract):
    @pytest.fixture
    def source(self, way: Callable[[Tensor], bool]) -> ModelSource:
        empty = {t.name: torch.empty(t.shape, dtype=DTYPES[t.dtype]) for t in self.spec.tensors}
        model = TorchModel(empty, staging_bytes=100_000, _is_staged=way)
        copy_model(pattern_model(self.spec), model)
        return model


class TorchStore:
    """Tensors that take turns: what a store needs beside ``TorchModel`` to be judged as one."""

    def __init__(self, way: Callable[[Tensor], bool]) -> None:
        self._way = way
        self._model: TorchModel | None = None

    def open(self) -> TorchModel:
        if self._model is None:
            raise StoreError("nothing yet")
        return self._model

    def begin(self, spec: Any) -> ModelSink:
        empty = {t.name: torch.empty(t.shape, dtype=DTYPES[t.dtype]) for t in spec.tensors}
        store, model = self, TorchModel(empty, staging_bytes=100_000, _is_staged=self._way)

        class Sink:
            spec = model.spec
            discard = staticmethod(model.discard)
            is_prepared = False

            def write(self, offset: int, payload: memoryview) -> None:
                if self.is_prepared:
                    raise StoreError("it is prepared and accepts no more bytes")
                model.write(offset, payload)

            def prepare(self, progress: Any = None) -> None:
                model.prepare(progress)
                self.is_prepared = True

            def commit(self, progress: Any = None) -> None:
                model.commit(progress)
                store._model = model

        return Sink()


@both_ways
class TestAsSink(StoreContract):
    @pytest.fixture
    def store(self, way: Callable[[Tensor], bool]) -> Any:
        return TorchStore(way)


class TestThatLends(LendingContract):
    @pytest.fixture
    def sink(self) -> Lending:
        return model_of({t.name: torch.empty(t.shape) for t in self.spec.tensors})

    def arrived(self, sink: Lending) -> bytes:
        assert isinstance(sink, TorchModel)
        return content(sink)


def test_tensors_that_are_staged_are_not_lent_and_not_torn_by_it() -> None:
    model = model_of({"w": torch.zeros(4, 6).T, "v": torch.zeros(8)})
    assert model.lend(0, 8) is None
    assert not model.is_torn
    assert model.lend(4 * 24, 8) is not None
    assert model.is_torn


def test_lending_tells_autograd_before_a_byte_is_there() -> None:
    weight = torch.ones(8, requires_grad=True)
    loss = (weight**2).sum()
    TorchModel({"w": weight}).lend(0, 8)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_it_is_a_model_in_place() -> None:
    assert isinstance(model_of({}), ModelInPlace)


@given(tensors=named, way=st.sampled_from(WAYS), data=st.data())
def test_any_range_of_any_tensors_is_their_bytes(
    tensors: dict[str, Tensor], way: Callable[[Tensor], bool], data: st.DataObject
) -> None:
    model = model_of(tensors, way)
    expected = b"".join(map(bytes_of, tensors.values()))
    assert model.spec.nbytes == len(expected)
    start = data.draw(st.integers(0, len(expected)))
    length = data.draw(st.integers(0, len(expected) - start))
    held = model.read(start, length)
    assert content(model, 7) == expected
    assert b"".join(held) == expected[start : start + length]


@given(
    tensors=named,
    way=st.sampled_from(WAYS),
    cuts=st.lists(st.integers(0, 500)),
    seed=st.none() | st.integers(0, 9),
)
def test_any_pieces_in_any_order_fill_any_tensors(
    tensors: dict[str, Tensor],
    way: Callable[[Tensor], bool],
    cuts: list[int],
    seed: int | None,
) -> None:
    model = model_of(tensors, way)
    new = random_bytes(model.spec.nbytes, 77)
    fill(model, new, [cut for cut in cuts if cut < len(new)], seed)
    model.commit()
    assert b"".join(map(bytes_of, tensors.values())) == new
    assert content(model) == new


@both_ways
def test_what_lies_between_a_slices_elements_is_not_touched(
    way: Callable[[Tensor], bool],
) -> None:
    base = torch.zeros(8, 8, dtype=torch.int32)
    model = model_of({"w": base[1:7:2, ::3].t()}, way)
    fill(model, b"\xff" * model.spec.nbytes, [5, 6, 17])
    expected = torch.zeros_like(base)
    expected[1:7:2, ::3] = -1
    assert torch.equal(base, expected)


@both_ways
def test_channels_last_travels_in_the_order_of_its_dimensions(
    way: Callable[[Tensor], bool],
) -> None:
    images = torch.arange(120, dtype=torch.float32).view(2, 3, 4, 5)
    last = images.to(memory_format=torch.channels_last)
    assert content(model_of({"w": last}, way), 11) == bytes_of(images)
    fill(model_of({"w": last}, way), bytes_of(images + 1), [3, 50])
    assert torch.equal(last, images + 1)


def test_a_tensor_is_read_without_a_copy() -> None:
    tensor = torch.zeros(10)
    (view,) = model_of({"w": tensor}).read(4, 8)
    tensor[1] = 1.0
    assert bytes(view[:4]) == np.float32(1).tobytes()


def test_a_staged_view_stays_as_it_was_read() -> None:
    tensor = torch.zeros(10)
    (view,) = model_of({"w": tensor}, staged).read(4, 8)
    tensor[1] = 1.0
    assert bytes(view) == bytes(8)


def test_only_contiguous_tensors_in_host_memory_are_not_staged() -> None:
    tensor = torch.arange(6).view(2, 3)
    model = TorchModel({"a": tensor, "b": torch.zeros(2), "c": tensor.clone().t()})
    assert [type(part) for part in model._parts] == [ArrayModel, StagedTensors]
    assert _needs_staging(torch.zeros(2, device="meta"))


def test_a_run_of_tensors_without_bytes_is_passed_over() -> None:
    model = model_of({"a": torch.ones(2), "none": torch.zeros(0, 2), "b": torch.ones(2)}, some)
    assert len(model._parts) == 3
    assert b"".join(model.read(2, 12)) == bytes_of(torch.ones(4))[2:14]


def test_every_dtype_has_its_name_and_its_integers() -> None:
    model = model_of({name: torch.zeros(2, dtype=dtype) for name, dtype in DTYPES.items()})
    assert [tensor.dtype for tensor in model.spec.tensors] == list(DTYPES)
    assert all(dtype.itemsize in _INTEGERS for dtype in _NAMES)
