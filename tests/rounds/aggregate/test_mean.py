import math
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamlink.errors import ModelError, UnsupportedDtype
from streamlink.link import UpdateKind
from streamlink.model.spec import DTYPES
from streamlink.rounds.aggregate import mean as module
from streamlink.rounds.aggregate.mean import WeightedMean, weighted_metrics

Array = npt.NDArray[Any]

WEIGHTS = st.one_of(
    st.integers(1, 1_000_000).map(float), st.floats(1e-3, 1e3), st.just(0.0), st.just(1.0)
)
INTEGERS = ["U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64"]
VALUES, DIFFERENCES = UpdateKind.VALUES, UpdateKind.DIFFERENCES
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


# --- how near to the exact mean -----------------------------------------------

ANY_WEIGHT = st.one_of(WEIGHTS, st.floats(1e-100, 1e100), st.sampled_from([1e-100, 1e100]))
ANY_F64 = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-5e-308, 5e-308),
    st.sampled_from([0.0, -0.0, 5e-324, 1.7e308, -1.7e308, 1.0, 1e16, -1e16, 2.0**-1022]),
)


def exactly(
    weights: Sequence[float], kinds: Sequence[UpdateKind], base: float, column: Sequence[float]
) -> tuple[Fraction, Fraction]:
    """Return the exact mean of an element, and the mean of the magnitudes that make it."""
    total, shift, size = Fraction(0), Fraction(0), Fraction(0)
    before = Fraction(base) if DIFFERENCES in kinds else Fraction(0)
    for weight, kind, value in zip(weights, kinds, column, strict=True):
        step = Fraction(value) - (0 if kind == DIFFERENCES else before)
        total += Fraction(weight)
        shift += Fraction(weight) * step
        size += Fraction(weight) * (abs(Fraction(value)) + abs(before))
    return before + shift / total, size / total


def ulp(exact: Fraction, digits: int, lowest: int) -> Fraction:
    """The distance of neighbours near ``exact``, where the smallest is ``2**lowest``."""
    if not exact:
        return Fraction(2) ** lowest
    exponent = abs(exact.numerator).bit_length() - exact.denominator.bit_length()
    exponent -= abs(exact) < Fraction(2) ** exponent
    return Fraction(2) ** max(exponent - digits + 1, lowest)


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[float], list[UpdateKind], float, list[list[float]]]:
    """Weights, kinds, and for each of a few elements its old value and what everybody sends."""
    count = draw(st.integers(1, 12))
    weights = draw(st.lists(ANY_WEIGHT, min_size=count, max_size=count).filter(any))
    is_mixed = draw(st.booleans())
    kinds = [draw(st.sampled_from(UpdateKind)) if is_mixed else VALUES for _ in weights]
    rows = draw(st.lists(st.lists(ANY_F64, min_size=count, max_size=count), min_size=1, max_size=4))
    for row in rows:  # so that much cancels
        if count > 1 and draw(st.booleans()):
            row[draw(st.integers(1, count - 1))] = -row[0]
    return weights, kinds, draw(ANY_F64), rows


def counted(weights: Sequence[float], kinds: Sequence[UpdateKind]) -> list[int]:
    return [number for number, weight in enumerate(weights) if weight]


@given(columns())
@example(([1.0, 1.0], [VALUES] * 2, 0.0, [[1.7e308, 1.7e308]]))
@example(([3.0, 1.0, 3.0], [VALUES] * 3, 0.0, [[1e16, 1.0, -1e16], [1e308, 5e-324, -1e308]]))
@example(([1e-100, 1e100], [VALUES] * 2, 0.0, [[1.7e308, 0.0], [1.7e308, 5e-324]]))
@example(([0.1, 0.7], [VALUES, DIFFERENCES], 1.7e308, [[1.7e308, -1.7e308]]))
def test_float64_means_are_as_near_as_is_promised(
    drawn: tuple[list[float], list[UpdateKind], float, list[list[float]]],
) -> None:
    weights, kinds, base, rows = drawn
    inputs = [np.array(column) for column in zip(*rows, strict=True)]
    found = shifted(weights, kinds, np.full(len(rows), base), *inputs).tolist()
    here = counted(weights, kinds)
    weights, kinds = [weights[n] for n in here], [kinds[n] for n in here]
    terms = len(weights) + 2 * (DIFFERENCES in kinds)
    for row, result in zip(rows, found, strict=True):
        exact, size = exactly(weights, kinds, base, [row[n] for n in here])
        if abs(exact) > Fraction(1.7976931348623157e308):
            assert abs(result) >= 1.797e308
            continue
        allowed = ulp(exact, 53, -1074) * 3 / 4 + terms**2 * size / 2**104
        assert abs(Fraction(result) - exact) <= allowed


@given(st.lists(ANY_WEIGHT, min_size=1, max_size=12).filter(any), st.data())
def test_float32_means_are_as_near_as_is_promised(
    weights: list[float], data: st.DataObject
) -> None:
    item = st.floats(width=32, allow_nan=False, allow_infinity=False)
    row = data.draw(st.lists(item, min_size=len(weights), max_size=len(weights)))
    base = data.draw(item)
    kinds = data.draw(st.sampled_from([[VALUES] * len(weights), [DIFFERENCES] * len(weights)]))
    result = shifted(weights, kinds, values("F32", base), *(values("F32", each) for each in row))
    here = counted(weights, kinds)
    exact, size = exactly(
        [weights[n] for n in here], [kinds[n] for n in here], base, [row[n] for n in here]
    )
    terms = len(here) + 6 * (DIFFERENCES in kinds)
    allowed = ulp(exact, 24, -149) / 2 + (2 * terms + 1) * size / 2**53
    if abs(exact) < Fraction(3.4028234e38):
        assert abs(Fraction(float(result[0])) - exact) <= allowed * (1 + Fraction(1, 2**40))


@given(st.floats(allow_nan=False, allow_infinity=False), st.lists(ANY_WEIGHT).filter(any))
def test_equal_float64_elements_keep_every_bit(value: float, weights: list[float]) -> None:
    array = values("F64", value, -value)
    assert mean(weights, *[array] * len(weights)).tobytes() == array.tobytes()


def test_many_float64_clients_that_cancel_are_summed_as_if_exactly() -> None:
    rng = np.random.default_rng(1)
    halves = [rng.standard_normal(300) * 10.0 ** rng.integers(-8, 8, 300) for _ in range(100)]
    small = rng.standard_normal(300)
    inputs = [*halves, small, *(-half for half in halves)]
    weights = rng.integers(1, 10_000, 100).astype(float).tolist()
    found = mean([*weights, 1.0, *weights], *inputs)
    exact = [float(Fraction(float(x)) / Fraction(2 * sum(weights) + 1)) for x in small]
    assert found.tolist() == exact


# --- the small formats ------------------------------------------------------


def nearest(dtype: str, exact: Fraction) -> int:
    """The bits of the finite number nearest to ``exact``, of two the one with even bits."""
    guess = np.array([float(exact)]).astype(DTYPES[dtype])
    bits_type = np.dtype(f"u{guess.itemsize}")
    bits = int(guess.view(bits_type)[0])
    near = [b for b in (bits - 1, bits, bits + 1) if b >= 0]
    held = np.array(near, bits_type).view(DTYPES[dtype]).astype(np.float64)
    pairs = [(b, Fraction(v)) for b, v in zip(near, held.tolist(), strict=True) if math.isfinite(v)]
    return min(pairs, key=lambda pair: (abs(pair[1] - exact), pair[0] % 2))[0]


@pytest.mark.parametrize("dtype", SMALL_FLOATS)
@given(st.integers(0, 2**15 - 1), st.integers(0, 2**15 - 1), st.integers(1, 2**30))
def test_small_formats_are_rounded_once(dtype: str, first: int, second: int, weight: int) -> None:
    itemsize = DTYPES[dtype].itemsize
    bits = np.array([first, second]) % (1 << (8 * itemsize - 1))
    pair = bits.astype(f"u{itemsize}").view(DTYPES[dtype])
    with np.errstate(invalid="ignore"):  # some of them are signalling NaNs
        a, b = pair.astype(np.float64).tolist()
    result = mean([weight, 1], pair[:1], pair[1:])
    if math.isfinite(a) and math.isfinite(b):
        in_float64 = Fraction((weight * a + b) / (weight + 1))
        assert result.view(f"u{itemsize}")[0] == nearest(dtype, in_float64)


def test_bfloat16_just_above_a_tie_goes_up() -> None:
    # 1 + 2^-8 is the tie; ml_dtypes' own cast drops the 2^-40 on the way through float32.
    one, step = values("BF16", 1.0), values("BF16", 1 + 2.0**-7)
    tie = mean([1, 1], one, step)
    above = mean([2.0**31 - 1, 2.0**31 + 1], one, step)
    assert (tie.tolist(), above.tolist()) == ([1.0], [1 + 2.0**-7])


@pytest.mark.parametrize("dtype", SMALL_FLOATS)
def test_zeros_keep_their_sign_and_the_largest_stay_finite(dtype: str) -> None:
    largest = {"F16": 65504.0, "BF16": 2.0**128 - 2.0**120, "F8_E4M3": 448.0, "F8_E5M2": 57344.0}
    array = values(dtype, -0.0, 0.0, largest[dtype], -largest[dtype])
    assert np.isfinite(array).all()
    assert mean([3, 5], array, array).tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", SMALL_FLOATS)
def test_just_above_half_of_the_smallest_number_is_the_smallest(dtype: str) -> None:
    smallest = np.ones(1, f"u{DTYPES[dtype].itemsize}").view(DTYPES[dtype])
    zero = np.zeros_like(smallest)
    above_half = mean([2.0**31 + 1, 2.0**31 - 1], smallest, zero)
    assert above_half.tobytes() == smallest.tobytes()
    assert mean([1, 1], smallest, zero).tobytes() == zero.tobytes()


@pytest.mark.parametrize("dtype", ["F16", "BF16", "F8_E5M2"])
def test_infinities_of_small_formats_stay_infinite(dtype: str) -> None:
    array = values(dtype, math.inf, -math.inf)
    assert mean([1, 2], array, array).tobytes() == array.tobytes()


# --- integers ---------------------------------------------------------------


def exact_mean(weights: Sequence[float], column: Sequence[int]) -> int:
    total = sum(Fraction(w) for w in weights)
    return round(sum(Fraction(w) * x for w, x in zip(weights, column, strict=True)) / total)


@pytest.mark.parametrize("dtype", INTEGERS)
@given(data=st.data(), weights=st.lists(WEIGHTS, min_size=1, max_size=4).filter(any))
def test_integers_are_averaged_exactly_half_to_even(
    dtype: str, data: st.DataObject, weights: list[float]
) -> None:
    limits = np.iinfo(DTYPES[dtype])
    item = st.one_of(
        st.integers(int(limits.min), int(limits.max)), st.sampled_from([limits.min, limits.max])
    ).map(int)
    columns = data.draw(st.lists(st.tuples(*[item] * len(weights)), min_size=1, max_size=5))
    inputs = [np.array(row, DTYPES[dtype]) for row in zip(*columns, strict=True)]
    assert mean(weights, *inputs).tolist() == [exact_mean(weights, c) for c in columns]


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
@example(2**63 - 1, 2**63 - 2)
@example(-(2**63), 2**63 - 1)
def test_weights_too_far_apart_for_64_bits_are_exact_too(first: int, second: int) -> None:
    weights = [1e-9 / 3, 1e9 / 3]
    result = mean(weights, np.array([first]), np.array([second]))
    assert result.tolist() == [exact_mean(weights, (first, second))]


def test_int64_extremes_lose_nothing() -> None:
    top = np.array([2**63 - 1, -(2**63), 2**53 + 1])
    assert mean([7, 2], top, top).tolist() == top.tolist()
    assert mean([1, 1], values("I32", 1, 3, -1), values("I32", 2, 4, -2)).tolist() == [2, 4, -2]


@pytest.mark.parametrize("weights", [(1, 1, 2), (1e9 / 3, 1e9 / 3, 2e9 / 3), (1, 1, 1e-30, 1e-30)])
def test_a_boolean_is_true_from_half_of_the_weight_on(weights: tuple[float, ...]) -> None:
    columns = list(product((False, True), repeat=len(weights)))
    inputs = [np.array(row) for row in zip(*columns, strict=True)]
    shares = [sum(Fraction(w) for w, true in zip(weights, c, strict=True) if true) for c in columns]
    half = sum(Fraction(w) for w in weights) / 2
    assert mean(weights, *inputs).tolist() == [share >= half for share in shares]


# --- differences ------------------------------------------------------------


def shifted(
    weights: Sequence[float], kinds: Sequence[UpdateKind], base: Array, *inputs: Array
) -> Array:
    out = np.empty_like(base)
    WeightedMean(weights, kinds).combine(out.dtype, inputs, out, base)
    return out


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


@contextmanager
def little_memory() -> Iterator[None]:
    """Check that no array is made that is worth the name: scratch memory is used again."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 32 * 1024
    finally:
        tracemalloc.stop()


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


# --- the same bits whatever the cut -----------------------------------------


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
