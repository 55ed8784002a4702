from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from streamlink.model.computed import GeneratedModel
from streamlink.model.interfaces import ModelSource
from streamlink.model.spec import TensorSpec
from tests.support.models import SourceContract, content, float_spec, pattern_model


class TestGeneratedModel(SourceContract):
    @pytest.fixture
    def source(self) -> ModelSource:
        return pattern_model(self.spec)


def test_only_the_elements_of_the_range_are_filled() -> None:
    asked: list[tuple[str, int, int]] = []

    def fill(tensor: TensorSpec, start: int, out: npt.NDArray[np.float32]) -> None:
        asked.append((tensor.name, start, len(out)))
        out[:] = np.arange(start, start + len(out))

    model = GeneratedModel(float_spec(1 << 40, 5), fill)
    (view,) = model.read((1 << 40) + 2, 8)
    expected = np.arange(1 << 38, (1 << 38) + 3, dtype=np.float32).tobytes()[2:10]
    assert view == expected
    assert asked == [("t0", 1 << 38, 3)]


def test_elements_cut_by_a_range_are_the_same() -> None:
    model = pattern_model(float_spec(10, 3))
    assert content(model, 3) == content(model)
