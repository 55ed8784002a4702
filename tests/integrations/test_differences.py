"""A mean of differences, added to a model."""

from __future__ import annotations

import numpy as np
import pytest

from streamlink import copy_model
from streamlink.errors import ModelError
from streamlink.integrations.differences import with_differences
from streamlink.stores import ArrayModel, MemoryStore

MODEL = ArrayModel({"w": np.arange(6, dtype=np.float32), "b": np.ones(3, np.float64)})


def test_tensors_without_differences_stay_and_others_keep_their_dtype() -> None:
    mean = ArrayModel({"w": np.full(6, 2, np.float64)})
    store = MemoryStore()
    copy_model(with_differences(MODEL, mean), store)
    assert store.arrays["w"].dtype == np.float32
    assert store.arrays["w"].tolist() == [2, 3, 4, 5, 6, 7]
    assert store.arrays["b"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("strange", [{"v": np.ones(6)}, {"w": np.ones((2, 3))}])
def test_differences_of_what_the_model_does_not_have_are_refused(
    strange: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]],
) -> None:
    with pytest.raises(ModelError, match=f"they are of {next(iter(strange))}"):
        with_differences(MODEL, ArrayModel(strange))
