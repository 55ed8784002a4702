"""The contract of every aggregator, and that a new one is a class and a line in the table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import ModelError
from streamlink.link import UpdateKind
from streamlink.model.spec import DTYPES, TensorSpec
from streamlink.rounds.aggregate.aggregator import Aggregation, Aggregator
from streamlink.rounds.aggregate.aggregators import AGGREGATORS, aggregator_of
from streamlink.rounds.aggregate.validate import state_dtype
from streamlink.rounds.controller import ScatterAndGather
from tests.support.jobs import Job
from tests.support.peers import ODD, assert_same, executor, initial, trained

Array = npt.NDArray[Any]

VALUES, DIFFERENCES = UpdateKind.VALUES, UpdateKind.DIFFERENCES
FLOATS = [name for name, dtype in DTYPES.items() if dtype.kind not in "iub"]


def random(dtype: str, count: int, seed: int) -> Array:
    """Return finite elements of any sign, read-only."""
    raw = np.random.default_rng(seed).integers(-9, 9, count)
    array: Array = (abs(raw) % 2 if dtype == "BOOL" else raw).astype(DTYPES[dtype])
    array.flags.writeable = False
    return array


def combined(aggregator: Aggregator, weights: Sequence[float], dtype: str, *inputs: Array) -> Array:
    aggregation = aggregator.begin(weights, [VALUES] * len(weights))
    base = random(dtype, inputs[0].size, 99) if aggregation.needs_base(dtype) else None
    out = np.empty_like(inputs[0])
    aggregation.combine(dtype, inputs, out, base, beginning(aggregator, dtype, out.size))
    return out


def beginning(aggregator: Aggregator, dtype: str, count: int) -> list[Array]:
    kept = state_dtype(dtype)
    return [np.full(count, each, kept) for each in aggregator.slots.values() if kept is not None]


def combined_part(
    aggregation: Aggregation,
    dtype: str,
    inputs: Sequence[Array],
    base: Array,
    state: Sequence[Array],
    part: slice,
) -> Array:
    out = np.empty_like(base[part])
    slots = [each[part] for each in state]
    aggregation.combine(dtype, [each[part] for each in inputs], out, base[part], slots)
    return out


class Largest:
    """A toy: of each element the largest value, of the updates that count."""

    slots: Mapping[str, float] = {}

    def scratch_bytes(self, clients: int) -> int:
        return 0

    def begin(self, weights: Sequence[float], kinds: Sequence[UpdateKind]) -> Aggregation:
        return OfLargest(weights)

    def __str__(self) -> str:
        return "largest"


class OfLargest:
    def __init__(self, weights: Sequence[float]) -> None:
        self._counted = [number for number, weight in enumerate(weights) if weight]

    def needs_base(self, dtype: str | np.dtype[Any]) -> bool:
        return False

    def combine(
        self,
        dtype: str | np.dtype[Any],
        inputs: Sequence[Array],
        out: Array,
        base: Array | None = None,
        state: Sequence[Array] = (),
    ) -> bool:
        if any(each.shape != out.shape for each in inputs):
            raise ModelError("the inputs do not fit")
        np.copyto(out, inputs[self._counted[0]])
        for number in self._counted[1:]:
            np.copyto(out, inputs[number], where=inputs[number] > out)
        return out.dtype.kind in "iub" or bool(np.isfinite(out).all())


EVERY: list[Aggregator] = [*(make() for make in AGGREGATORS.values()), Largest()]
every_aggregator = pytest.mark.parametrize("aggregator", EVERY, ids=str)
# An optimizer makes a step from the base, so equal updates do not give that update.
every_average = pytest.mark.parametrize(
    "aggregator", [each for each in EVERY if not each.slots], ids=str
)


@pytest.mark.product
@every_aggregator
@pytest.mark.parametrize("dtype", DTYPES)
@given(cuts=st.lists(st.integers(0, 300), max_size=5).map(sorted))
def test_any_cut_into_ranges_gives_the_same_bits(
    aggregator: Aggregator, dtype: str, cuts: list[int]
) -> None:
    inputs, weights = [random(dtype, 300, seed) for seed in range(3)], [1.0, 2.0, 0.5]
    base, state = random(dtype, 300, 99), beginning(aggregator, dtype, 300)
    aggregation, out = aggregator.begin(weights, [VALUES] * 3), np.empty(300, DTYPES[dtype])
    aggregation.combine(dtype, inputs, out, base, [each.copy() for each in state])
    whole = out.tobytes()
    pieces = [
        combined_part(aggregation, dtype, inputs, base, state, slice(start, stop)).tobytes()
        for start, stop in zip([0, *cuts], [*cuts, 300], strict=True)
    ]
    assert b"".join(pieces) == whole


@pytest.mark.product
@every_average
@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_updates_give_that_update(aggregator: Aggregator, dtype: str) -> None:
    array = random(dtype, 100, 1)
    found = combined(aggregator, [1.0, 3.0], dtype, array, array)
    assert found.tobytes() == array.tobytes()


@every_aggregator
@pytest.mark.parametrize("dtype", FLOATS)
def test_an_update_of_weight_zero_contributes_nothing(aggregator: Aggregator, dtype: str) -> None:
    good, bad = random(dtype, 100, 1), np.full(100, math.nan, DTYPES[dtype])
    found = combined(aggregator, [0.0, 2.0], dtype, bad, good)
    assert found.tobytes() == combined(aggregator, [2.0], dtype, good).tobytes()


@every_aggregator
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_result_that_is_not_finite_is_reported(aggregator: Aggregator, dtype: str) -> None:
    good, out = random(dtype, 100, 1), np.empty(100, DTYPES[dtype])
    bad = good.copy()
    bad[7] = math.nan if dtype == "F8_E4M3" else math.inf  # that one has no infinity
    aggregation = aggregator.begin([1.0, 1.0], [VALUES] * 2)
    state = beginning(aggregator, dtype, 100)
    assert aggregation.combine(dtype, [good, good], out, good, state)
    assert not aggregation.combine(dtype, [bad, bad], out, good, state)


@every_aggregator
def test_arrays_that_do_not_fit_are_refused(aggregator: Aggregator) -> None:
    with pytest.raises(ModelError):
        aggregator.begin([1.0, 1.0], [VALUES] * 2).combine(
            "F32", [random("F32", 3, 1), random("F32", 4, 1)], np.empty(3, np.float32)
        )


def largest_of(tensor: TensorSpec) -> Array:
    before = initial()[tensor.name]
    first, second = (trained(number)(tensor, 0, before.reshape(-1)) for number in (0, 1))
    return np.where(second > first, second, first).reshape(before.shape)


@pytest.mark.parametrize("gather", ["lockstep", "spool"])
def test_a_new_aggregator_is_a_class_and_a_line_in_the_table(
    gather: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(AGGREGATORS, "largest", Largest)
    extras = {"aggregator": "largest", "spool": tmp_path / "spool"}
    with Job(extras=extras, gather=gather) as job:
        for number in (0, 1):
            job.site(number, executor(number))
        job.start(2)
        job.report()
        assert_same(job.store.arrays, {t.name: largest_of(t) for t in ODD.tensors})


def test_an_unknown_aggregator_is_refused_with_those_there_are() -> None:
    with Job() as job, pytest.raises(ValueError, match=r"called 'krum'; there are: .*'mean'"):
        ScatterAndGather(job.federation.server, job.store, aggregator="krum")


@pytest.mark.parametrize(
    ("text", "why"), [("mean:x=1", "x: Extra inputs"), ("mean:x", "'x' is not of the form")]
)
def test_a_setting_that_an_aggregator_does_not_have_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        aggregator_of(text)


@pytest.mark.parametrize("name", AGGREGATORS)
def test_the_text_of_an_aggregator_makes_the_same_one(name: str) -> None:
    assert aggregator_of(str(AGGREGATORS[name]())) == AGGREGATORS[name]()
