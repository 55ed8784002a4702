"""Means of differences from a base, which are added to it once."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import ModelError
from streamlink.link import UpdateKind
from streamlink.model.spec import DTYPES
from streamlink.rounds.aggregate.mean import WeightedMean
from tests.support.means import (
    FLOATS,
    INTEGERS,
    WEIGHTS,
    little_memory,
    mean,
    random_bits,
    shifted,
    values,
)

VALUES, DIFFERENCES = UpdateKind.VALUES, UpdateKind.DIFFERENCES


@st.composite
def weighed_kinds(draw: st.DrawFn) -> tuple[list[float], list[UpdateKind]]:
    """Weights, and kinds; one at least that counts is differences."""
    weights = draw(st.lists(WEIGHTS, min_size=1, max_size=4).filter(any))
    kinds = draw(
        st.lists(st.sampled_from(UpdateKind), min_size=len(weights), max_size=len(weights))
    )
    kinds[draw(st.sampled_from([n for n, weight in enumerate(weights) if weight]))] = DIFFERENCES
    return weights, kinds


def test_differences_are_added_to_the_base_by_hand() -> None:
    base, first, second = values("F32", 10, -10), values("F32", 1, 1), values("F32", 14, -6)
    assert shifted([1], [DIFFERENCES], base, first).tolist() == [11.0, -9.0]
    assert shifted([1, 2], [DIFFERENCES, VALUES], base, first, second).tolist() == [13.0, -7.0]


@pytest.mark.parametrize("dtype", ["F16", "BF16", "F32", "F64"])
@given(weighed_kinds(), st.integers(0, 999))
def test_differences_are_exact_up_to_float64_and_one_rounding(
    dtype: str, given: tuple[list[float], list[UpdateKind]], seed: int
) -> None:
    weights, kinds = given
    rng = np.random.default_rng(seed)
    base, *inputs = (rng.standard_normal(20).astype(DTYPES[dtype]) for _ in range(len(weights) + 1))
    result = shifted(weights, kinds, base, *inputs).astype(np.float64)
    total = sum(map(Fraction, weights), Fraction(0))
    digits = {"F16": 11, "BF16": 8, "F32": 24, "F64": 53}[dtype]
    for index, found in enumerate(result.tolist()):
        before, sent = Fraction(float(base[index])), [Fraction(float(x[index])) for x in inputs]
        steps = [
            Fraction(weight) * (value if kind is DIFFERENCES else value - before)
            for weight, kind, value in zip(weights, kinds, sent, strict=True)
        ]
        exact = before + sum(steps, Fraction(0)) / total
        in_float64 = 20 * (abs(before) + sum(map(abs, sent))) * Fraction(1, 2**53)
        smallest = Fraction(1, 2**24) if dtype == "F16" else Fraction(0)
        rounding = max(abs(exact) / 2**digits, smallest / 2)
        assert abs(Fraction(found) - exact) <= in_float64 + rounding


@pytest.mark.parametrize("dtype", ["F16", "F32"])
@given(weighed_kinds(), st.integers(0, 999))
def test_differences_are_the_float64_formula_in_order(
    dtype: str, given: tuple[list[float], list[UpdateKind]], seed: int
) -> None:
    weights, kinds = given
    rng = np.random.default_rng(seed)
    base, *inputs = (rng.standard_normal(20).astype(DTYPES[dtype]) for _ in range(len(weights) + 1))
    before, total, shift = base.astype(np.float64), 0.0, np.zeros(20)
    for weight, kind, array in zip(weights, kinds, inputs, strict=True):
        wide = array.astype(np.float64)
        shift = shift + weight * (wide if kind is DIFFERENCES else wide - before)
        total = total + weight
    expected = (before + shift / total).astype(DTYPES[dtype])
    assert shifted(weights, kinds, base, *inputs).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
@given(st.lists(WEIGHTS, min_size=1, max_size=4).filter(any), st.integers(0, 99))
def test_differences_of_zero_give_the_base_bit_for_bit(
    dtype: str, weights: list[float], seed: int
) -> None:
    base = random_bits(dtype, 500, seed).copy()
    with np.errstate(all="ignore"):
        base[np.isnan(base)] = 0
    base[:2] = values(dtype, -0.0, 0.0)
    zero = np.zeros_like(base)
    zeros = [-zero if number % 2 else zero for number in range(len(weights))]
    assert shifted(weights, [DIFFERENCES] * len(weights), base, *zeros).tobytes() == base.tobytes()


@pytest.mark.parametrize("dtype", [*INTEGERS, "BOOL"])
def test_integers_are_values_whatever_is_said_of_them(dtype: str) -> None:
    base, *inputs = (random_bits(dtype, 100, seed) for seed in range(3))
    result = shifted([3, 1], [DIFFERENCES, VALUES], base, *inputs)
    assert result.tobytes() == mean([3, 1], *inputs).tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
def test_values_alone_are_the_plain_mean_even_with_a_base(dtype: str) -> None:
    base, *inputs = (random_bits(dtype, 1000, seed) for seed in range(3))
    result = shifted([3, 0.7], [VALUES, VALUES], base, *inputs)
    assert result.tobytes() == mean([3, 0.7], *inputs).tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
@given(st.lists(st.integers(0, 300), max_size=5).map(sorted))
def test_differences_may_be_cut_anywhere(dtype: str, cuts: list[int]) -> None:
    arrays = [random_bits(dtype, 300, seed) for seed in range(3)]
    kinds = [DIFFERENCES, VALUES]
    pieces = [
        shifted([3, 0.7], kinds, *(array[start:stop] for array in arrays)).tobytes()
        for start, stop in zip([0, *cuts], [*cuts, 300], strict=True)
    ]
    assert b"".join(pieces) == shifted([3, 0.7], kinds, *arrays).tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("replaced", [0, 1, 2])
def test_a_result_of_differences_may_replace_what_it_is_made_of(dtype: str, replaced: int) -> None:
    arrays = [random_bits(dtype, 40_000, seed).copy() for seed in range(3)]
    kinds = [VALUES, DIFFERENCES]
    expected = shifted([3, 0.7], kinds, *arrays).tobytes()
    base, *inputs = arrays
    WeightedMean([3, 0.7], kinds).combine(dtype, inputs, arrays[replaced], base)
    assert arrays[replaced].tobytes() == expected


def test_differences_need_no_more_scratch() -> None:
    plain, other = WeightedMean([1, 2]), WeightedMean([1, 2], [DIFFERENCES, VALUES])
    array = np.empty(100_000, np.float32)
    with little_memory():
        other.combine("F32", [array, array], array, array)
    assert other.scratch_bytes == plain.scratch_bytes


def test_the_base_is_asked_for_only_where_it_counts() -> None:
    reducer = WeightedMean([1, 2], [VALUES, DIFFERENCES])
    assert [name for name in DTYPES if reducer.needs_base(name)] == sorted(
        FLOATS, key=list(DTYPES).index
    )
    assert not WeightedMean([1, 2], [VALUES, VALUES]).needs_base("F32")
    assert not WeightedMean([1, 2]).needs_base("F32")


def test_differences_without_their_base_are_refused() -> None:
    array = np.zeros(3, np.float32)
    with pytest.raises(ModelError, match="differences of dtype float32 need the base"):
        WeightedMean([1], [DIFFERENCES]).combine("F32", [array], array)
    with pytest.raises(ModelError, match=r"base has shape \(2,\), expected \(3,\)"):
        WeightedMean([1], [DIFFERENCES]).combine("F32", [array], array, array[:2])
    with pytest.raises(ModelError, match="1 kinds of update for 2 weights"):
        WeightedMean([1, 2], [DIFFERENCES])
