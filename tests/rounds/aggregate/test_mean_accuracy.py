"""How near the mean is to the exact one, dtype by dtype."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamlink.link import UpdateKind
from streamlink.model.spec import DTYPES
from tests.support.means import INTEGERS, SMALL_FLOATS, WEIGHTS, mean, shifted, values

VALUES, DIFFERENCES = UpdateKind.VALUES, UpdateKind.DIFFERENCES


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
