"""Median and trimmed mean against fractions that are sorted in Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.aggregators import Aggregator, Median, TrimmedMean
from streamlink.errors import ModelError
from streamlink.link import UpdateKind
from streamlink.model.spec import DTYPES
from tests.support.means import FLOATS, INTEGERS, Array, random_bits, unaligned, values

VALUES, DIFFERENCES = UpdateKind.VALUES, UpdateKind.DIFFERENCES
DIGITS = {"F16": 11, "BF16": 8, "F32": 24, "F64": 53, "F8_E4M3": 4, "F8_E5M2": 3, "C64": 24}
ROBUST: list[Aggregator] = [Median(), TrimmedMean(beta=0.25), TrimmedMean(beta=0.34)]
robust = pytest.mark.parametrize("aggregator", ROBUST, ids=str)


def combined(
    aggregator: Aggregator,
    inputs: Sequence[Array],
    *,
    weights: Sequence[float] | None = None,
    kinds: Sequence[UpdateKind] | None = None,
    base: Array | None = None,
) -> Array:
    out = np.empty_like(inputs[0])
    aggregation = aggregator.begin(weights or [1.0] * len(inputs), kinds or [VALUES] * len(inputs))
    assert aggregation.combine(out.dtype, inputs, out, base) == bool(
        out.dtype.kind in "iub" or all(np.isfinite(each).all() for each in inputs)
    )
    return out


def kept(aggregator: Aggregator, column: Sequence[Fraction]) -> Fraction:
    """Return what one element must be, before it is rounded."""
    ordered, count = sorted(column), len(column)
    cut = (count - 1) // 2
    if isinstance(aggregator, TrimmedMean):
        cut = math.floor(Fraction(str(aggregator.beta)) * count)
    middle = ordered[cut : count - cut]
    return sum(middle, Fraction(0)) / len(middle)


def parts(array: Array) -> list[float]:
    """Return the numbers of an array; of a complex one both parts."""
    flat = array.view(np.float32) if array.dtype.kind == "c" else array
    return [float(each) for each in flat.tolist()]


@pytest.mark.product
@robust
@pytest.mark.parametrize("dtype", FLOATS)
@given(count=st.integers(1, 9), seed=st.integers(0, 999))
def test_each_element_is_that_of_sorted_fractions_rounded_once(
    aggregator: Aggregator, dtype: str, count: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(-15, 15, 40).astype(DTYPES[dtype]) for _ in range(count)]
    columns = zip(*map(parts, inputs), strict=True)
    for found, column in zip(parts(combined(aggregator, inputs)), columns, strict=True):
        exact = kept(aggregator, [Fraction(each) for each in column])
        assert abs(Fraction(found) - exact) <= abs(exact) * Fraction(1, 2 ** DIGITS[dtype])


@pytest.mark.product
@robust
@pytest.mark.parametrize("dtype", INTEGERS)
@given(count=st.integers(1, 9), seed=st.integers(0, 999))
def test_integers_are_exact_and_rounded_half_to_even(
    aggregator: Aggregator, dtype: str, count: int, seed: int
) -> None:
    inputs = [random_bits(dtype, 40, seed + number) for number in range(count)]
    columns = zip(*(each.tolist() for each in inputs), strict=True)
    expected = [round(kept(aggregator, [Fraction(n) for n in column])) for column in columns]
    assert combined(aggregator, inputs).tolist() == expected


@robust
@given(count=st.integers(1, 9), seed=st.integers(0, 999))
def test_a_boolean_is_true_where_the_middle_has_at_least_half(
    aggregator: Aggregator, count: int, seed: int
) -> None:
    inputs = [random_bits("BOOL", 40, seed + number) for number in range(count)]
    columns = zip(*(each.tolist() for each in inputs), strict=True)
    expected = [
        kept(aggregator, [Fraction(n) for n in column]) >= Fraction(1, 2) for column in columns
    ]
    assert combined(aggregator, inputs).tolist() == expected


@robust
@pytest.mark.parametrize("dtype", ["F16", "BF16", "F32", "F64"])
@given(data=st.data(), seed=st.integers(0, 999))
def test_differences_are_added_to_the_base_before_they_are_sorted(
    aggregator: Aggregator, dtype: str, data: st.DataObject, seed: int
) -> None:
    kinds = data.draw(st.lists(st.sampled_from(UpdateKind), min_size=1, max_size=6))
    rng = np.random.default_rng(seed)
    base, *inputs = (rng.integers(-15, 15, 40).astype(DTYPES[dtype]) for _ in range(len(kinds) + 1))
    found = combined(aggregator, inputs, kinds=kinds, base=base)
    for index, before in enumerate(parts(base)):
        column = [
            Fraction(float(each[index])) + (Fraction(before) if kind is DIFFERENCES else 0)
            for kind, each in zip(kinds, inputs, strict=True)
        ]
        exact = kept(aggregator, column)
        rounding = abs(exact) * Fraction(1, 2 ** DIGITS[dtype])
        assert abs(Fraction(float(found[index])) - exact) <= rounding


@pytest.mark.product
@robust
@pytest.mark.parametrize("dtype", DTYPES)
def test_differences_of_zero_change_nothing(aggregator: Aggregator, dtype: str) -> None:
    base, zero = random_bits("U8", 40, 1).astype(DTYPES[dtype]), np.zeros(40, DTYPES[dtype])
    inputs = [base, base] if base.dtype.kind in "iub" else [zero, zero]
    found = combined(aggregator, inputs, kinds=[DIFFERENCES] * 2, base=base)
    assert found.tobytes() == base.tobytes()


@pytest.mark.product
@robust
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_order_of_arrival_gives_the_same_bits(aggregator: Aggregator, dtype: str) -> None:
    pool = values(dtype, 0.0, 1, 1) if dtype == "BOOL" else values(dtype, 0.0, 1, 3)
    zeros = pool if pool.dtype.kind in "iub" else values(dtype, 0.0, -0.0, 3)
    inputs = [np.roll(np.tile(zeros, 7), shift) for shift in range(4)]
    found = {combined(aggregator, order).tobytes() for order in permutations(inputs)}
    assert len(found) == 1


@pytest.mark.product
@robust
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
@given(count=st.integers(4, 9), who=st.integers(0, 8), seed=st.integers(0, 999))
def test_a_poisoned_update_stays_within_the_range_of_the_others(
    aggregator: Aggregator, dtype: str, count: int, who: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    others = [rng.integers(0, 9, 40).astype(DTYPES[dtype]) for _ in range(count - 1)]
    with np.errstate(all="ignore"):
        most = 1e6 if dtype in ("F32", "F64", "C64", "BF16", "I32", "I64", "U32", "U64") else 40
        poisoned = (others[0].astype(np.complex64) * most).real.astype(DTYPES[dtype])
    inputs = [*others]
    inputs.insert(who % count, poisoned)
    found = combined(aggregator, inputs)
    columns = list(zip(*map(parts, others), strict=True))
    for each, column in zip(parts(found), columns, strict=True):
        assert min(column) <= each <= max(column)


@pytest.mark.product
@robust
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_reported_even_where_it_would_be_left_out(
    aggregator: Aggregator, dtype: str, bad: float
) -> None:
    inputs = [values(dtype, *range(number, number + 9)) for number in range(5)]
    poisoned = inputs[3].copy()
    poisoned[4] = bad if dtype != "F8_E4M3" else math.nan  # that one has no infinity
    inputs[3] = poisoned
    aggregation = aggregator.begin([1.0] * 5, [VALUES] * 5)
    out = np.empty_like(inputs[0])
    assert not aggregation.combine(dtype, inputs, out)
    if math.isnan(bad):
        assert np.isnan(out).tolist() == [index == 4 for index in range(9)]


@robust
def test_a_weight_decides_only_who_counts(aggregator: Aggregator) -> None:
    inputs = [values("F32", number, -number) for number in (1, 2, 3, 4, 100)]
    equal = combined(aggregator, inputs[:4])
    weighed = combined(aggregator, inputs, weights=[5.0, 0.1, 1.0, 2.0, 0.0])
    assert weighed.tobytes() == equal.tobytes()


@robust
def test_unaligned_inputs_are_as_good(aggregator: Aggregator) -> None:
    inputs = [random_bits("I32", 40, seed).astype(np.float32) for seed in range(4)]
    odd = [unaligned(each) for each in inputs]
    assert combined(aggregator, odd).tobytes() == combined(aggregator, inputs).tobytes()


def test_a_range_that_is_longer_than_its_scratch_memory_is_sorted_in_blocks() -> None:
    inputs = [np.random.default_rng(seed).standard_normal(50_001) for seed in range(7)]
    assert combined(Median(), inputs).tobytes() == np.median(inputs, axis=0).tobytes()


@pytest.mark.parametrize("count", [1, 2, 3, 8, 64, 200])
def test_the_memory_that_is_stated_holds_what_an_aggregation_has(count: int) -> None:
    aggregation = Median().begin([1.0] * count, [VALUES] * count)
    held = sum(each.nbytes for each in vars(aggregation).values() if isinstance(each, np.ndarray))
    assert held <= Median().scratch_bytes(count) < 16 << 20


def test_the_median_of_many_updates_is_found() -> None:
    inputs = [np.random.default_rng(seed).standard_normal(99) for seed in range(101)]
    assert combined(Median(), inputs).tobytes() == np.median(inputs, axis=0).tobytes()


@robust
def test_what_does_not_fit_is_refused(aggregator: Aggregator) -> None:
    one = values("F32", 1)
    with pytest.raises(ModelError, match="sum to 0"):
        aggregator.begin([0.0], [VALUES])
    with pytest.raises(ModelError, match="need the base"):
        aggregator.begin([1.0], [DIFFERENCES]).combine("F32", [one], one.copy())


@pytest.mark.parametrize("beta", [-0.1, 0.5, 1.0])
def test_a_trimmed_mean_leaves_something_over(beta: float) -> None:
    with pytest.raises(ValueError, match="beta"):
        TrimmedMean(beta=beta)
