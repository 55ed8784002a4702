"""Floating point numbers of every kind and dtype, for tests of what rounds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from streamlink.model.spec import BLOCK_ELEMENTS, DTYPES

Array = npt.NDArray[Any]


@st.composite
def any_floats(draw: st.DrawFn, dtype: str, most: int = 3 * BLOCK_ELEMENTS) -> Array:
    """Some elements: random numbers of one magnitude, and among them any bits at all."""
    count, seed = draw(st.integers(0, most)), draw(st.integers(0, 1 << 32))
    kind = DTYPES[dtype]
    rng = np.random.default_rng(seed)
    exponent = draw(st.sampled_from((-320, -50, -45, -40, -38, -30, -8, -5, -2, 0, 3, 4, 38, 300)))
    with np.errstate(all="ignore"):
        values = (rng.standard_normal(count) * 10.0**exponent).astype(kind)
        if draw(st.booleans()):
            values[rng.random(count) < 0.1] = 0
    if count:
        strange = np.frombuffer(draw(st.binary(max_size=64)).ljust(64, b"\1"), kind)[:4]
        spots = draw(st.lists(st.integers(0, count - 1), max_size=4))
        values[spots] = strange[: len(spots)]
    return values


def wide(values: Array) -> npt.NDArray[np.float64]:
    """Return values in float64, exactly."""
    with np.errstate(all="ignore"):
        return values.astype(np.float64)
