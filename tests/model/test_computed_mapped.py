from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from streamlink.errors import ModelError
from streamlink.model.computed import MappedSource, map_model
from streamlink.model.interfaces import ModelSource
from streamlink.model.spec import TensorSpec
from streamlink.stores.memory import ArrayModel
from tests.support.models import SourceContract, arrays_of, content, pattern_model

Array = npt.NDArray[Any]


def invert(_tensor: TensorSpec, _start: int, values: Array) -> Array:
    if values.dtype == np.bool_:
        return ~values
    return (values.view(np.uint8) ^ 255).view(values.dtype)


class TestMappedSource(SourceContract):
    @pytest.fixture
    def source(self) -> ModelSource:
        return MappedSource(pattern_model(self.spec), invert)

    @pytest.fixture
    def expected(self) -> bytes:
        data = content(pattern_model(self.spec))
        return bytes(b ^ 1 for b in data[:3]) + bytes(b ^ 255 for b in data[3:])


def test_the_function_is_told_tensor_and_position() -> None:
    asked: list[tuple[str, int, int]] = []

    def note(tensor: TensorSpec, start: int, values: Array) -> Array:
        asked.append((tensor.name, start, len(values)))
        return values

    model = map_model(ArrayModel({"a": np.zeros(3, "f4"), "b": np.zeros(4, "f8")}), note)
    assert len(model.read(5, 10)) == 2
    assert asked == [("a", 1, 2), ("b", 0, 1)]
    assert model.read(7, 0) == ()


def test_values_cannot_be_changed_in_place() -> None:
    def spoil(_tensor: TensorSpec, _start: int, values: Array) -> Array:
        values += 1
        return values

    with pytest.raises(ValueError, match="read-only"):
        map_model(ArrayModel({"a": np.zeros(3, "f4")}), spoil).read(0, 12)


@pytest.mark.parametrize("wrong", [np.zeros(2, "f4"), np.zeros(3, "f8")])
def test_a_result_of_another_dtype_or_length_is_refused(wrong: Array) -> None:
    model = map_model(ArrayModel({"a": np.zeros(3, "f4")}), lambda _t, _s, _v: wrong)
    with pytest.raises(ModelError, match=r"tensor 'a' \(F32\) to shape .* it must keep both"):
        model.read(0, 12)


def test_maps_of_maps_are_maps() -> None:
    spec = TestMappedSource.spec
    data = content(pattern_model(spec))
    model = map_model(map_model(ArrayModel(arrays_of(spec, data)), invert), invert)
    assert content(model, 1001) == data


@pytest.mark.parametrize("block", [1, 4, 256])
def test_the_function_gets_whole_blocks_whatever_is_read(block: int) -> None:
    arrays = {"a": np.arange(11, dtype="f4"), "b": np.arange(5, dtype="f8")}

    def first_of_block(tensor: TensorSpec, start: int, values: Array) -> Array:
        assert start % block == 0
        size = len(arrays[tensor.name])
        assert (start + len(values)) % block == 0 or start + len(values) == size
        return np.repeat(values[::block], block)[: len(values)]

    model = MappedSource(ArrayModel(arrays), first_of_block, block=block)
    whole = content(model)
    for start in range(model.spec.nbytes):
        for stop in range(start, model.spec.nbytes + 1, 7):
            assert b"".join(model.read(start, stop - start)) == whole[start:stop]
