"""Server optimizers against the formulas of their papers, over whole arrays in plain NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlink.errors import ModelError
from streamlink.link import UpdateKind
from streamlink.model.spec import DTYPES
from streamlink.rounds.aggregate.aggregator import Aggregator
from streamlink.rounds.aggregate.aggregators import Mean
from streamlink.rounds.aggregate.optimizers import FedAdam, FedAvgM
from streamlink.rounds.aggregate.validate import state_dtype
from tests.support.means import FLOATS, INTEGERS, Array, little_memory, unaligned, values

VALUES, DIFFERENCES = UpdateKind.VALUES, UpdateKind.DIFFERENCES
OPTIMIZERS: list[Aggregator] = [
    FedAvgM(eta=0.5, beta=0.8),
    FedAdam(eta=0.3, beta1=0.7, beta2=0.9, tau=0.01),
]
every_optimizer = pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda each: each.name)
EXACT = np.longdouble
Exact = npt.NDArray[Any]


def beginning(optimizer: Aggregator, dtype: str, count: int) -> list[Array]:
    kept = state_dtype(dtype)
    assert kept is not None
    firsts = [
        complex(value, value) if kept.kind == "c" else value for value in optimizer.slots.values()
    ]
    return [np.full(count, first, kept) for first in firsts]


def stepped(
    optimizer: Aggregator,
    inputs: Sequence[Array],
    base: Array,
    state: Sequence[Array],
    *,
    weights: Sequence[float] | None = None,
    kinds: Sequence[UpdateKind] | None = None,
) -> Array:
    out = np.empty_like(base)
    count = len(inputs)
    aggregation = optimizer.begin(weights or [1.0] * count, kinds or [VALUES] * count)
    aggregation.combine(base.dtype, inputs, out, base, state)
    return out


def parts(array: Array) -> Exact:
    """Return the numbers of an array as wide as they get; of complex ones both parts."""
    flat = array.view(np.float32) if array.dtype.kind == "c" else array
    return flat.astype(np.float64).astype(EXACT)


def by_the_paper(
    optimizer: Aggregator,
    inputs: Sequence[Array],
    base: Array,
    state: Sequence[Array],
    weights: Sequence[float],
    kinds: Sequence[UpdateKind],
) -> tuple[Exact, list[Exact]]:
    before, slots = parts(base), [parts(each) for each in state]
    moved = [
        weight * (parts(each) - (0 if kind is DIFFERENCES else before))
        for weight, kind, each in zip(map(EXACT, weights), kinds, inputs, strict=True)
        if weight
    ]
    shift = sum(moved, start=EXACT(0)) / sum(map(EXACT, weights))
    if isinstance(optimizer, FedAvgM):
        momentum = EXACT(optimizer.beta) * slots[0] + shift
        return before + EXACT(optimizer.eta) * momentum, [momentum]
    assert isinstance(optimizer, FedAdam)
    momentum = EXACT(optimizer.beta1) * slots[0] + EXACT(1 - optimizer.beta1) * shift
    second = EXACT(optimizer.beta2) * slots[1] + EXACT(1 - optimizer.beta2) * shift**2
    step = EXACT(optimizer.eta) * momentum / (np.sqrt(second) + EXACT(optimizer.tau))
    return before + step, [momentum, second]


def assert_near(found: Array, exact: Exact, steps_in: npt.DTypeLike) -> None:
    """Check that every element is the next one of its dtype, or as good as.

    ``steps_in`` is what a step is computed in. What is left of numbers around 10 that cancel each
    other has its error, and so has a step of three roundings more.
    """
    numbers = parts(found)
    narrow = found.dtype if found.dtype.kind != "c" else np.dtype(np.float32)
    rounded = exact.astype(np.float64).astype(narrow).astype(np.float64)
    spacing = np.abs(rounded) * 2.0 ** -_DIGITS[narrow.name] * 2 + _LEAST[narrow.name]
    rounding = 64 * float(np.finfo(steps_in).eps)
    assert (np.abs(numbers - exact) <= spacing + rounding * (1 + np.abs(exact) / 16)).all()


_DIGITS = {
    "float16": 11, "bfloat16": 8, "float32": 24, "float64": 50, "float8_e4m3fn": 4, "float8_e5m2": 3
}  # fmt: skip
_LEAST = {
    "float16": 2**-24, "bfloat16": 0, "float32": 0, "float64": 0,
    "float8_e4m3fn": 2**-9, "float8_e5m2": 2**-16,
}  # fmt: skip


@every_optimizer
@pytest.mark.parametrize("dtype", FLOATS)
@settings(max_examples=20)
@given(data=st.data(), seed=st.integers(0, 999))
def test_rounds_follow_the_formulas_with_any_weights_and_kinds(
    optimizer: Aggregator, dtype: str, data: st.DataObject, seed: int
) -> None:
    kinds = data.draw(st.lists(st.sampled_from(UpdateKind), min_size=1, max_size=5))
    weights = [data.draw(st.sampled_from([0.0, 0.3, 1.0, 7.0])) for _ in kinds]
    weights[0] = weights[0] or 1.0
    rng = np.random.default_rng(seed)
    base = rng.integers(-9, 9, 40).astype(DTYPES[dtype])
    state = beginning(optimizer, dtype, 40)
    is_wide = isinstance(optimizer, FedAvgM) or dtype == "F64"
    steps_in = np.float64 if is_wide else np.float32
    for _ in range(3):
        inputs = [(rng.integers(-9, 9, 40) / 4).astype(DTYPES[dtype]) for _ in kinds]
        exact, slots = by_the_paper(optimizer, inputs, base, state, weights, kinds)
        base = stepped(optimizer, inputs, base, state, weights=weights, kinds=kinds)
        assert_near(base, exact, steps_in)
        for kept, slot in zip(state, slots, strict=True):
            assert_near(kept, slot, steps_in)


@every_optimizer
@pytest.mark.parametrize("dtype", FLOATS)
@settings(max_examples=10)
@given(cuts=st.lists(st.integers(0, 300), max_size=5).map(sorted), seed=st.integers(0, 99))
def test_any_cut_gives_the_same_model_and_the_same_state(
    optimizer: Aggregator, dtype: str, cuts: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    base, *inputs = (rng.integers(-9, 9, 300).astype(DTYPES[dtype]) for _ in range(4))
    whole, cut = beginning(optimizer, dtype, 300), beginning(optimizer, dtype, 300)
    expected = stepped(optimizer, inputs, base, whole).tobytes()
    pieces = []
    for start, stop in zip([0, *cuts], [*cuts, 300], strict=True):
        here = [each[start:stop] for each in inputs]
        state = [each[start:stop] for each in cut]
        pieces.append(stepped(optimizer, here, base[start:stop], state).tobytes())
    assert b"".join(pieces) == expected
    assert [each.tobytes() for each in cut] == [each.tobytes() for each in whole]


@every_optimizer
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_model_that_nobody_changes_stays_as_it_is(optimizer: Aggregator, dtype: str) -> None:
    base = values(dtype, 0.0, -0.0, 1, -3, 0.25)
    state = beginning(optimizer, dtype, base.size)
    found = stepped(optimizer, [base] * 3, base, state, weights=[0.1, 0.2, 0.3])
    assert found.tobytes() == base.tobytes()


@every_optimizer
@pytest.mark.parametrize("dtype", [*INTEGERS, "BOOL"])
def test_integers_have_the_weighted_mean(optimizer: Aggregator, dtype: str) -> None:
    inputs = [values(dtype, 1, 0, 1), values(dtype, 0, 1, 1), values(dtype, 0, 0, 1)]
    out, expected = np.empty_like(inputs[0]), np.empty_like(inputs[0])
    weights, kinds = [3.0, 2.0, 0.5], [VALUES, DIFFERENCES, VALUES]
    aggregation = optimizer.begin(weights, kinds)
    assert not aggregation.needs_base(dtype)
    assert aggregation.combine(dtype, inputs, out)
    assert Mean().begin(weights, kinds).combine(dtype, inputs, expected)
    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
def test_momentum_of_nothing_is_the_mean(dtype: str) -> None:
    rng = np.random.default_rng(1)
    base, *inputs = (rng.integers(-9, 9, 99).astype(DTYPES[dtype]) for _ in range(3))
    optimizer, expected = FedAvgM(eta=1.0, beta=0.0), np.empty_like(base)
    found = stepped(optimizer, inputs, base, beginning(optimizer, dtype, 99), weights=[1.0, 3.0])
    Mean().begin([1.0, 3.0], [VALUES] * 2).combine(dtype, inputs, expected)
    assert found.tobytes() == expected.tobytes()


@every_optimizer
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_reported_and_ignored_at_weight_zero(
    optimizer: Aggregator, dtype: str, bad: float
) -> None:
    good = values(dtype, 1, 2, 3)
    poisoned = good.copy()
    poisoned[1] = bad if dtype != "F8_E4M3" else math.nan  # that one has no infinity
    out = np.empty_like(good)
    for weights, is_finite in (([1.0, 1.0], False), ([1.0, 0.0], True)):
        state = beginning(optimizer, dtype, 3)
        aggregation = optimizer.begin(weights, [VALUES] * 2)
        assert aggregation.combine(dtype, [good, poisoned], out, good, state) == is_finite
        assert np.isfinite(out).tolist() == [True, is_finite, True]
        assert np.isfinite(state[0]).tolist() == [True, is_finite, True]


@every_optimizer
@pytest.mark.parametrize("dtype", FLOATS)
def test_unaligned_inputs_are_as_good(optimizer: Aggregator, dtype: str) -> None:
    rng = np.random.default_rng(1)
    base, *inputs = (rng.integers(-9, 9, 40).astype(DTYPES[dtype]) for _ in range(3))
    aligned = stepped(optimizer, inputs, base, beginning(optimizer, dtype, 40))
    odd = [unaligned(each) for each in inputs]
    found = stepped(optimizer, odd, unaligned(base), beginning(optimizer, dtype, 40))
    assert found.tobytes() == aligned.tobytes()


@every_optimizer
def test_the_memory_that_is_stated_holds_and_no_call_adds_to_it(optimizer: Aggregator) -> None:
    count = 100_000
    base, *inputs = (np.full(count, value, np.float32) for value in (0.0, 1.0, 2.0))
    state, out = beginning(optimizer, "F32", count), np.empty_like(base)
    aggregation = optimizer.begin([1.0, 2.0], [VALUES] * 2)
    held = sum(each.nbytes for each in vars(aggregation).values() if isinstance(each, np.ndarray))
    assert held < optimizer.scratch_bytes(2) < 4 << 20
    with little_memory():
        aggregation.combine("F32", inputs, out, base, state)


def _stepped_with(*, base: Array | None, state: list[Array]) -> None:
    one = values("F32", 1.0, 2.0)
    FedAdam().begin([1.0], [VALUES]).combine("F32", [one], one.copy(), base, state)


def test_a_base_or_a_state_that_does_not_fit_is_refused() -> None:
    base, good = values("F32", 1, 2), beginning(FedAdam(), "F32", 2)
    fixed = good[0].copy()
    fixed.flags.writeable = False
    with pytest.raises(ModelError, match="needs the base"):
        _stepped_with(base=None, state=good)
    with pytest.raises(ModelError, match="1 arrays of state for 2 slots"):
        _stepped_with(base=base, state=good[:1])
    with pytest.raises(ModelError, match=r"state 1 has shape \(3,\)"):
        _stepped_with(base=base, state=[good[0], beginning(FedAdam(), "F32", 3)[0]])
    with pytest.raises(ModelError, match=r"state 0 has shape .* of float64"):
        _stepped_with(base=base, state=[good[0].astype(np.float64), good[1]])
    with pytest.raises(ModelError, match="state 0 is read-only"):
        _stepped_with(base=base, state=[fixed, good[1]])


@pytest.mark.parametrize(
    "wrong", [{"eta": 0}, {"eta": math.inf}, {"beta1": 1}, {"beta2": -0.1}, {"tau": 0}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        FedAdam(**wrong)
