"""A difference is exact up to one rounding, and the same bits however it is read."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import SpecMismatch
from streamlink.model.difference import DifferenceSource, subtract
from streamlink.model.interfaces import ModelSource
from streamlink.model.spec import DTYPES, ModelSpec
from streamlink.stores.memory import ArrayModel
from tests.support.models import (
    SourceContract,
    arrays_of,
    content,
    float_spec,
    model_specs,
    pattern_model,
    random_bytes,
)

Array = npt.NDArray[Any]
FLOATS = ["F16", "BF16", "F32", "F64", "F8_E4M3", "F8_E5M2"]


def elements(dtype: str, data: bytes) -> Array:
    """Return any bytes as elements, a few more than a block of them."""
    values: Array = np.frombuffer(data, DTYPES[dtype])
    return np.concatenate([values, np.zeros(5, DTYPES[dtype])])


def difference(new: Array, base: Array) -> Array:
    out = np.empty_like(new)
    subtract(new, base, out)
    return out


def every_value(dtype: str) -> Array:
    """Return all finite values of a small type, ascending, as float64."""
    bits = np.dtype(f"u{DTYPES[dtype].itemsize}")
    with np.errstate(all="ignore"):
        values = np.arange(1 << 8 * bits.itemsize).astype(bits).view(DTYPES[dtype]).astype("f8")
    return np.unique(values[np.isfinite(values)])


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F8_E4M3", "F8_E5M2"])
def test_the_nearest_value_there_is_comes_out(dtype: str) -> None:
    values = every_value(dtype)
    new, base = np.random.default_rng(1).choice(values, (2, 2000))
    base[:1000] = new[:1000] * base[:1000] / values[-1]  # of a size that makes rounding likely
    sides = new.astype(DTYPES[dtype]), base.astype(DTYPES[dtype])
    for one, other, found in zip(*sides, difference(*sides), strict=True):
        exact = Fraction(float(one)) - Fraction(float(other))
        if abs(exact) > values[-1]:
            continue
        at = np.searchsorted(values, float(exact))
        gaps = {abs(Fraction(value) - exact) for value in values[max(at - 2, 0) : at + 2]}
        assert abs(Fraction(float(found)) - exact) == min(gaps)


def test_what_lies_in_the_middle_goes_to_the_even_one() -> None:
    new = np.array([1 + 2**-7, 1 + 2**-6], ml_dtypes.bfloat16)
    found = difference(new, np.full(2, 2**-8, ml_dtypes.bfloat16))
    assert found.tolist() == [1.0, 1 + 2**-6]


@given(st.sampled_from([*FLOATS, "C64"]), st.integers(0, 999))
def test_equal_models_differ_by_zero_or_nan(dtype: str, seed: int) -> None:
    values = elements(dtype, random_bytes(800, seed))
    found = difference(values, values)
    with np.errstate(all="ignore"):
        is_finite = np.isfinite(values.astype(np.complex128))
    assert not found[is_finite].astype(np.complex128).any()


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_and_infinity_propagate(dtype: str) -> None:
    new = np.array([math.nan, 1.0, math.inf, math.inf], DTYPES[dtype])
    base = np.array([1.0, math.nan, 2.0, math.inf], DTYPES[dtype])
    found = difference(new, base).astype(np.float64)
    infinite = math.nan if dtype == "F8_E4M3" else math.inf  # it has no infinity
    np.testing.assert_array_equal(found, [math.nan, math.nan, infinite, math.nan])


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_nan_is_the_same_nan(dtype: str) -> None:
    negative = -np.array([math.nan], DTYPES[dtype])
    expected = np.array([math.nan], DTYPES[dtype]).tobytes()
    assert difference(negative, np.zeros_like(negative)).tobytes() == expected


@given(st.sampled_from(["F32", "F64"]), st.integers(0, 999))
def test_wide_types_are_as_the_processor_subtracts(dtype: str, seed: int) -> None:
    new, base = (elements(dtype, random_bytes(800, seed + n)) for n in (0, 1000))
    with np.errstate(all="ignore"):
        widened = new.astype(np.float64) - base.astype(np.float64)
        np.testing.assert_array_equal(difference(new, base), widened.astype(new.dtype))


def test_complex_numbers_are_their_two_parts() -> None:
    new, base = np.array([3 + 5j, 1 - 1j], "c8"), np.array([1 + 1j, math.inf + 0j], "c8")
    found = difference(new, base)
    assert (found.real.tolist(), found.imag.tolist()) == ([2.0, -math.inf], [4.0, -1.0])


def test_more_than_a_block_is_subtracted_throughout() -> None:
    new = np.arange(100_001, dtype=np.float32)
    assert (difference(new, np.ones_like(new)) == new - 1).all()


@given(model_specs(), st.integers(1, 40))
def test_any_pieces_give_the_whole_models_difference(spec: ModelSpec, piece: int) -> None:
    both = pattern_model(spec, seed=7), pattern_model(spec)
    new, base = (arrays_of(spec, content(source)) for source in both)
    expected = b""
    for name, array in new.items():
        is_value = array.dtype.kind in "iub"
        whole = array.reshape(-1), base[name].reshape(-1)
        expected += (whole[0] if is_value else difference(*whole)).tobytes()
    assert content(DifferenceSource(*both), piece) == expected


class TestDifferenceSource(SourceContract):
    @pytest.fixture
    def source(self) -> ModelSource:
        return DifferenceSource(pattern_model(self.spec, seed=3), pattern_model(self.spec))

    @pytest.fixture
    def expected(self, source: ModelSource) -> bytes:
        return content(source, self.spec.nbytes)


def test_models_of_other_tensors_are_refused() -> None:
    with pytest.raises(
        SpecMismatch, match=r"the base model has another model: tensor 't0' differs in shape"
    ):
        DifferenceSource(pattern_model(float_spec(3)), pattern_model(float_spec(4)))


def test_integers_are_not_even_copied() -> None:
    arrays = {"step": np.arange(4), "flag": np.array([2, 3], "u1")}
    model = ArrayModel(arrays)
    views = DifferenceSource(model, ArrayModel({n: a * 0 for n, a in arrays.items()})).read(0, 34)
    arrays["step"][0] = 77
    assert b"".join(views)[:8] == (77).to_bytes(8, "little")


def test_closing_closes_both() -> None:
    closed: list[str] = []
    new, base = pattern_model(float_spec(1)), pattern_model(float_spec(1))
    new.close = lambda: closed.append("new")  # type: ignore[method-assign]
    base.close = lambda: closed.append("base")  # type: ignore[method-assign]
    DifferenceSource(new, base).close()
    assert closed == ["new", "base"]
