"""Arrays and weights to average, and the means of them."""

import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from streamlink.link import UpdateKind
from streamlink.model.spec import DTYPES
from streamlink.rounds.aggregate.mean import WeightedMean

__all__ = [
    "FLOATS",
    "INTEGERS",
    "SMALL_FLOATS",
    "WEIGHTS",
    "Array",
    "little_memory",
    "mean",
    "random_bits",
    "shifted",
    "unaligned",
    "values",
]

Array = npt.NDArray[Any]

WEIGHTS = st.one_of(
    st.integers(1, 1_000_000).map(float), st.floats(1e-3, 1e3), st.just(0.0), st.just(1.0)
)
INTEGERS = ["U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64"]
FLOATS = ["F16", "BF16", "F32", "F64", "F8_E4M3", "F8_E5M2", "C64"]
SMALL_FLOATS = ["F16", "BF16", "F8_E4M3", "F8_E5M2"]


def mean(weights: Sequence[float], *inputs: Array) -> Array:
    out = np.empty_like(inputs[0])
    WeightedMean(weights).combine(out.dtype, inputs, out)
    return out


def values(dtype: str, *items: complex) -> Array:
    array: Array = np.array(items).astype(DTYPES[dtype])
    return array


def random_bits(dtype: str, count: int, seed: int) -> Array:
    raw = np.random.default_rng(seed).bytes(count * DTYPES[dtype].itemsize)
    if dtype == "BOOL":
        return (np.frombuffer(raw, np.uint8) % 2).astype(np.bool_)
    return np.frombuffer(raw, DTYPES[dtype])


def unaligned(array: Array) -> Array:
    return np.frombuffer(b"x" + array.tobytes(), array.dtype, offset=1)


def shifted(
    weights: Sequence[float], kinds: Sequence[UpdateKind], base: Array, *inputs: Array
) -> Array:
    out = np.empty_like(base)
    WeightedMean(weights, kinds).combine(out.dtype, inputs, out, base)
    return out


@contextmanager
def little_memory() -> Iterator[None]:
    """Check that no array is made that is worth the name: scratch memory is used again."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 32 * 1024
    finally:
        tracemalloc.stop()
