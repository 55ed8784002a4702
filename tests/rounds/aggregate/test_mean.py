"""The weighted mean: what it is, the same bits however it is cut, and what it refuses."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import ModelError, UnsupportedDtype
from streamlink.link import UpdateKind
from streamlink.model.spec import DTYPES
from streamlink.rounds.aggregate import mean as module
from streamlink.rounds.aggregate.mean import WeightedMean, weighted_metrics
from tests.support.means import (
    FLOATS,
    SMALL_FLOATS,
    WEIGHTS,
    Array,
    little_memory,
    mean,
    random_bits,
    shifted,
    unaligned,
    values,
)

VALUES, DIFFERENCES = UpdateKind.VALUES, UpdateKind.DIFFERENCES


# --- what the mean is -------------------------------------------------------


def test_equal_weights_give_the_mean_computed_by_hand() -> None:
    assert mean([1, 1], values("F32", 1, 2), values("F32", 3, 5)).tolist() == [2.0, 3.5]


def test_unequal_weights_count_in_proportion() -> None:
    assert mean([1, 3], values("F32", 0, 4), values("F32", 4, 0)).tolist() == [3.0, 1.0]


def test_one_contributor_gets_its_own_bits_back() -> None:
    array = values("F32", 0.1, -0.0, 1e-45, 3.4e38)
    assert mean([1.0], array).tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", ["F16", "F32"])
@given(st.lists(WEIGHTS, min_size=1, max_size=5).filter(any), st.integers(0, 999))
def test_floats_are_the_float64_mean_in_order_rounded_once(
    dtype: str, weights: list[float], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    inputs = [rng.standard_normal(50).astype(DTYPES[dtype]) for _ in weights]
    total, total_weight = np.zeros(50), 0.0
    for weight, array in zip(weights, inputs, strict=True):
        total = total + weight * array.astype(np.float64)
        total_weight = total_weight + weight
    expected = (total / total_weight).astype(DTYPES[dtype])
    assert mean(weights, *inputs).tobytes() == expected.tobytes()


@pytest.mark.parametrize("total", [0.5, 2.0, 8.0, 2.0**-300, 2.0**300])
def test_a_total_that_is_a_power_of_two_divides_to_the_same_bits(total: float) -> None:
    first, second = random_bits("F32", 500, 1), random_bits("F32", 500, 2)
    with np.errstate(all="ignore"):
        expected = first.astype(np.float64) * (total / 4) + second.astype(np.float64) * (
            total * 3 / 4
        )
        rounded = (expected / total).astype(np.float32)
    rounded[np.isnan(rounded)] = np.nan
    assert mean([total / 4, total * 3 / 4], first, second).tobytes() == rounded.tobytes()


def test_ones_stay_ones_though_their_weights_cannot_be_added_exactly() -> None:
    assert mean([0.1] * 10, *[values("F64", 1.0)] * 10).tolist() == [1.0]


def test_float64_and_complex64_are_averaged_too() -> None:
    assert mean([1, 1], values("F64", 1e300), values("F64", 3e300)).tolist() == [2e300]
    assert mean([1, 3], values("C64", 4 + 8j), values("C64", 0j)).tolist() == [1 + 2j]


def test_a_complex_infinity_stays_in_its_own_part() -> None:
    result = mean([2, 2], values("C64", complex(math.inf, 1)), values("C64", 3j))
    assert (result.real[0], result.imag[0]) == (math.inf, 2.0)


@pytest.mark.parametrize("dtype", ["F32", "F64", "F16", "BF16"])
def test_nan_and_infinity_propagate(dtype: str) -> None:
    inputs = values(dtype, math.nan, math.inf, -math.inf), values(dtype, 1, 1, math.inf)
    assert str(mean([1, 1], *inputs).astype(float).tolist()) == "[nan, inf, nan]"
    assert str(mean([1, 3], *inputs).astype(float).tolist()) == "[nan, inf, nan]"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", [VALUES, DIFFERENCES])
def test_what_has_weight_zero_leaves_no_trace(dtype: str, kind: UpdateKind) -> None:
    bad, *good = (random_bits(dtype, 3000, seed).copy() for seed in range(3))
    bad[:2] = values(dtype, math.nan, math.inf)
    base = random_bits(dtype, 3000, 9)
    with_it = shifted([2, 0, 0.7], [VALUES, kind, kind], base, good[0], bad, good[1])
    assert with_it.tobytes() == shifted([2, 0.7], [VALUES, kind], base, *good).tobytes()
    assert mean([0, 3], bad, good[0]).tobytes() == mean([1], good[0]).tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_mean_says_whether_it_is_finite(dtype: str) -> None:
    fine, bad = values(dtype, *range(5)), values(dtype, *range(5))
    bad[3] = values(dtype, math.nan)[0]
    out, reducer = np.empty_like(fine), WeightedMean([1, 2])
    assert reducer.combine(dtype, [fine, fine], out)
    assert not reducer.combine(dtype, [fine, bad], out)


@pytest.mark.parametrize("dtype", ["F32", "F64", *SMALL_FLOATS])
def test_every_nan_comes_out_as_the_default_one(dtype: str) -> None:
    nans = -values(dtype, math.nan)
    assert mean([1, 1], nans, nans).tobytes() == np.array(math.nan, DTYPES[dtype]).tobytes()


# --- the same bits whatever the cut -----------------------------------------


@pytest.mark.product
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_any_cut_into_calls_gives_the_same_bits(dtype: str, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 300))
    weights = data.draw(st.lists(WEIGHTS, min_size=1, max_size=3).filter(any))
    cuts = data.draw(st.lists(st.integers(0, count), max_size=5).map(sorted))
    inputs = [random_bits(dtype, count, seed) for seed in range(len(weights))]
    pieces = [
        mean(weights, *(array[start:stop] for array in inputs)).tobytes()
        for start, stop in zip([0, *cuts], [*cuts, count], strict=True)
    ]
    assert b"".join(pieces) == mean(weights, *inputs).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_block_boundaries_inside_a_call_leave_no_trace(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = [random_bits(dtype, 70_001, seed) for seed in range(3)]
    whole = mean([3.0, 0.7, 1.0], *inputs)
    monkeypatch.setattr(module, "_FLOAT_BLOCK", 1000)
    monkeypatch.setattr(module, "_INTEGER_BLOCK", 500)
    assert mean([3.0, 0.7, 1.0], *inputs).tobytes() == whole.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_unaligned_read_only_inputs_give_the_same_bits(dtype: str) -> None:
    inputs = [random_bits(dtype, 1000, seed) for seed in range(2)]
    shifted = [unaligned(array) for array in inputs]
    out = np.frombuffer(bytearray(1000 * inputs[0].itemsize + 3), inputs[0].dtype, 1000, 3)
    WeightedMean([1, 2]).combine(dtype, shifted, out)
    assert out.tobytes() == mean([1, 2], *inputs).tobytes()


@pytest.mark.parametrize("dtype", ["F32", "I64", "BF16", "C64"])
def test_the_result_may_replace_an_input(dtype: str) -> None:
    inputs = [random_bits(dtype, 40_000, seed).copy() for seed in range(2)]
    expected = mean([1, 2], *inputs).tobytes()
    WeightedMean([1, 2]).combine(dtype, inputs, inputs[1])
    assert inputs[1].tobytes() == expected


# --- scratch and refusals ---------------------------------------------------


def test_scratch_memory_is_stated_and_used_again() -> None:
    reducer = WeightedMean([1, 2])
    out = np.empty(100_000, np.float32)
    with little_memory():
        reducer.combine("F32", [out, out], out)
    assert reducer.scratch_bytes == 2 * 32768 * 8 + 32768


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([], "the 0 weights sum to 0"),
        ([0.0, 0.0], "the 2 weights sum to 0"),
        ([1.0, -1.0], r"weight 1 is -1\.0"),
        ([math.nan], "weight 0 is nan"),
        ([math.inf], "weight 0 is inf"),
        ([1.0, 1e-310], r"weight 1 is 1e-310; a weight is 0, .* or between 1e-100 and 1e\+100"),
        ([1e101], r"weight 0 is 1e\+101"),
    ],
)
def test_impossible_weights_are_refused_in_words(weights: list[float], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        WeightedMean(weights)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda r, a: r.combine("F32", [a], a), "1 inputs for 2 weights"),
        (lambda r, a: r.combine("F32", [a, a[1:]], a), r"input 1 has shape \(3,\), expected \(4"),
        (lambda r, a: r.combine("F64", [a, a], a), "input 0 has dtype float32, expected float64"),
        (lambda r, a: r.combine("F32", [a, a], a.reshape(2, 2)), "has shape"),
        (lambda r, a: r.combine("F32", [a, a], unaligned(a)), "out is read-only"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_in_words(
    call: Callable[[WeightedMean, Array], None], words: str
) -> None:
    with pytest.raises(ModelError, match=words):
        call(WeightedMean([1, 1]), np.zeros(4, np.float32))


@pytest.mark.parametrize("dtype", ["F128", np.dtype(object), np.dtype(">f4")])
def test_a_dtype_that_cannot_travel_is_refused(dtype: str | np.dtype[Any]) -> None:
    array = np.zeros(1, np.float32)
    with pytest.raises(UnsupportedDtype):
        WeightedMean([1]).combine(dtype, [array], array)


# --- metrics ---------------------------------------------------------------


def test_metrics_are_averaged_over_those_who_gave_them() -> None:
    reports = [(1.0, {"loss": 2.0, "n": 1.0}), (3.0, {"loss": 6.0})]
    assert weighted_metrics(reports) == {"loss": 5.0, "n": 1.0}
    huge = [(1e100, {"loss": 1.7e308}), (1e100, {"loss": 1.7e308}), (1e-100, {"loss": 0.0})]
    assert weighted_metrics(huge) == {"loss": 1.7e308}
    assert weighted_metrics([(0.0, {"loss": 1.0})]) == {}
    assert weighted_metrics([]) == {}
