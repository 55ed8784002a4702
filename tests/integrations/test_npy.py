"""Arrays in NumPy's file format, viewed without a copy."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from streamlink.errors import UnsupportedDtype
from streamlink.integrations.npy import npy_view


def npy(array: Any) -> bytes:
    file = BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(7.5),
        np.empty((0, 4), np.float16),
        np.arange(5).astype(ml_dtypes.bfloat16),
    ],
)
def test_a_view_is_the_array_that_was_saved_and_copies_nothing(array: Any) -> None:
    data = npy(array)
    view = npy_view(data, array.dtype.name)
    np.testing.assert_array_equal(view, array, strict=True)
    assert not view.size or np.shares_memory(view, np.frombuffer(data, np.uint8))


def test_what_needs_another_header_is_refused() -> None:
    with pytest.warns(UserWarning, match=r"format 3\.0"):
        data = npy(np.zeros(2, [("\u4e2d", "f4")]))
    with pytest.raises(UnsupportedDtype, match="with fields"):
        npy_view(data, "void")
