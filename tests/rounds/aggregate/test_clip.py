"""Norm clipping against the norms of whole arrays in plain NumPy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamlink.config import RoundConfig
from streamlink.errors import Cancelled, QuorumNotReached
from streamlink.executors.executor import Task, TaskResult
from streamlink.executors.whole import WholeExecutor
from streamlink.link import UpdateKind
from streamlink.model.spec import DTYPES, ModelSpec
from streamlink.rounds.aggregate.clip import clipped_to, norm_of
from streamlink.rounds.controller import ScatterAndGather
from streamlink.stores.memory import MemoryStore, spec_of
from tests.support.jobs import Job
from tests.support.means import FLOATS
from tests.support.peers import ODD, Array, executor, initial, trained

VALUES, DIFFERENCES = UpdateKind.VALUES, UpdateKind.DIFFERENCES


def wide(array: Array) -> Array:
    flat = array.reshape(-1)
    return (flat.view(np.float32) if flat.dtype.kind == "c" else flat).astype(np.float64)


def whole_norm(update: dict[str, Array], base: dict[str, Array] | None) -> float:
    moved = [
        wide(each) - (wide(base[name]) if base is not None else 0.0)
        for name, each in update.items()
        if each.dtype.kind not in "iub"
    ]
    return float(np.linalg.norm(np.concatenate(moved)))


def update_of(number: int, spec: ModelSpec = ODD) -> dict[str, Array]:
    before = initial()
    return {
        each.name: trained(number)(each, 0, before[each.name].reshape(-1)).reshape(each.shape)
        for each in spec.tensors
    }


def test_the_norm_is_that_of_all_floating_elements_together() -> None:
    base, update = initial(), update_of(3)
    before, sent = MemoryStore(base).open(), MemoryStore(update).open()
    assert norm_of(sent, before, VALUES) == pytest.approx(whole_norm(update, base), rel=1e-14)
    assert norm_of(sent, before, DIFFERENCES) == pytest.approx(whole_norm(update, None), rel=1e-14)


def test_the_norm_of_a_part_is_taken_from_that_part_of_the_base() -> None:
    base = initial()
    part = {name: each for name, each in update_of(3).items() if name in ("bf16", "c64")}
    found = norm_of(MemoryStore(part).open(), MemoryStore(base).open(), VALUES)
    assert found == pytest.approx(whole_norm(part, base), rel=1e-14)


@pytest.mark.parametrize("largest", [1e-300, 1e300])
def test_squares_that_no_float_has_do_not_change_a_norm(largest: float) -> None:
    store = MemoryStore({"a": np.full(100_000, largest)})
    found = norm_of(store.open(), store.open(), DIFFERENCES)
    assert found / largest == pytest.approx(math.sqrt(100_000), rel=1e-12)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_the_norm_of_what_is_not_finite_is_not_finite(bad: float) -> None:
    store = MemoryStore({"a": np.array([1.0, bad, 2.0], np.float32)})
    assert not math.isfinite(norm_of(store.open(), store.open(), DIFFERENCES))


@pytest.mark.parametrize("kind", UpdateKind)
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_clipped_update_is_that_of_the_formula_rounded_once(dtype: str, kind: UpdateKind) -> None:
    rng = np.random.default_rng(1)
    kept = DTYPES[dtype]
    base, update = (rng.integers(-9, 9, 40_001).astype(kept) for _ in range(2))
    spec, store = spec_of({"a": base}), MemoryStore({"a": base})
    function = clipped_to(2.0, 8.0, store.open(), kind)
    parts = [slice(0, 7), slice(7, 40_000), slice(40_000, 40_001)]
    found = [wide(function(spec.tensors[0], each.start, update[each])) for each in parts]
    before = wide(base) if kind is VALUES else 0.0
    exact = before + (wide(update) - before) * 0.25
    rounded = wide(exact.astype(kept if kept.kind != "c" else np.float32))
    np.testing.assert_array_equal(np.concatenate(found), rounded)


def test_a_first_pass_can_be_ended() -> None:
    def ended() -> None:
        raise Cancelled("stop")

    store = MemoryStore(initial())
    with pytest.raises(Cancelled):
        norm_of(store.open(), store.open(), VALUES, ended)


@pytest.mark.parametrize("aggregator", ["mean", "median"])
def test_a_round_has_the_updates_that_were_clipped(aggregator: str, tmp_path: Path) -> None:
    base, updates = initial(), [update_of(number) for number in (0, 5)]
    norms = [whole_norm(each, base) for each in updates]
    bound = sum(norms) / 2  # between the two
    rules: Any = {"gather": "spool", "clip_norm": bound, "aggregator": aggregator}
    with Job(extras={"spool": tmp_path / "spool"}, **rules) as job:
        for number in (0, 5):
            job.site(number, executor(number))
        job.start(2)
        job.report()
        found = job.store.arrays
    assert norms[0] < bound < norms[1]
    short = base["f64"] + (updates[1]["f64"] - base["f64"]) * (bound / norms[1])
    np.testing.assert_allclose(found["f64"], (updates[0]["f64"] + short) / 2, rtol=1e-13)


def test_a_bound_that_no_update_reaches_changes_nothing(tmp_path: Path) -> None:
    with Job(extras={"spool": tmp_path}, gather="spool", clip_norm=1e9) as job:
        for number in (0, 1):
            job.site(number, executor(number))
        job.start(2)
        job.report()
        job.assert_mean_of(0, 1)


def whole(number: int, norm: float | None = None, **options: Any) -> WholeExecutor:
    """Return an executor of client ``number`` that trains in memory, and may declare a norm."""

    def train(model: dict[str, Array], task: Task) -> TaskResult:
        model.update(update_of(number))
        return TaskResult(norm=norm)

    return WholeExecutor(train, **options)


def mean_of_clipped(base: dict[str, Array], updates: list[dict[str, Array]], bound: float) -> Array:
    """Return the mean of tensor ``f64`` after each update was shortened."""
    short = []
    for each in updates:
        factor = min(1.0, bound / whole_norm(each, base))
        short.append(base["f64"] + (each["f64"] - base["f64"]) * factor)
    mean: Array = np.mean(short, axis=0)
    return mean


@pytest.mark.parametrize("gather", ["lockstep", "spool"])
@pytest.mark.parametrize("returns", ["differences", "values"])
def test_a_declared_norm_clips_an_update_as_it_arrives(
    gather: str, returns: str, tmp_path: Path
) -> None:
    base, updates = initial(), [update_of(number) for number in (0, 5)]
    norms = [whole_norm(each, base) for each in updates]
    bound = sum(norms) / 2  # between the two
    extras = {"spool": tmp_path} if gather == "spool" else {}
    with Job(extras=extras, gather=gather, clip_norm=bound) as job:
        for number, norm in zip((0, 5), norms, strict=True):
            computes: Any = {"returns": returns, "declares_norm": True}
            job.site(
                number, whole(number, norm) if returns == "values" else whole(number, **computes)
            )
        job.start(2)
        assert not job.report().failures
        found = job.store.arrays["f64"]
    assert norms[0] < bound < norms[1]
    np.testing.assert_allclose(found, mean_of_clipped(base, updates, bound), rtol=1e-13)


@pytest.mark.parametrize("gather", ["lockstep", "spool"])
def test_an_update_that_is_longer_than_declared_does_not_count(gather: str, tmp_path: Path) -> None:
    norm = whole_norm(update_of(5), initial())
    extras = {"spool": tmp_path} if gather == "spool" else {}
    with Job(extras=extras, gather=gather, clip_norm=1e9, min_clients=1) as job:
        job.site(0, whole(0, whole_norm(update_of(0), initial())))
        job.site(5, whole(5, norm * 0.99))
        job.start(2)
        report = job.report()
        job.assert_mean_of(0)
    assert "site-5 declared the norm" in report.failures["site-5"]
    assert f"it is {norm:g}" in report.failures["site-5"]


def test_an_update_without_a_declared_norm_is_refused_in_lockstep_with_the_remedy() -> None:
    with Job(gather="lockstep", clip_norm=1.0, max_attempts=1) as job:
        for number in (0, 1):
            job.site(number)
        job.start(2)
        with pytest.raises(QuorumNotReached, match="pass declares_norm=True to its") as refused:
            job.report()
    assert "gather = spool" in str(refused.value)


def test_an_infinite_norm_is_left_to_the_rule_about_such_updates() -> None:
    def train(model: dict[str, Array], task: Task) -> None:
        model["f64"][0] = math.inf

    with Job(gather="lockstep", clip_norm=1e9, min_clients=1, non_finite="reject") as job:
        job.site(0, whole(0, returns="differences", declares_norm=True))
        job.site(1, WholeExecutor(train, returns="differences", declares_norm=True))
        job.start(2)
        report = job.report()
        job.assert_mean_of(0)
    assert "f64" in report.failures["site-1"]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_update_that_is_not_finite_counts_where_such_updates_are_accepted(bad: float) -> None:
    def train(model: dict[str, Array], task: Task) -> None:
        model["f64"][0] = bad

    with Job(gather="lockstep", clip_norm=1e9, non_finite="accept") as job:
        job.site(0, whole(0, returns="differences", declares_norm=True))
        job.site(1, WholeExecutor(train, returns="differences", declares_norm=True))
        job.start(2)
        assert not job.report().failures
        assert not np.isfinite(job.store.arrays["f64"].reshape(-1)[0])


def test_a_norm_that_cannot_be_computed_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="declares_norm needs returns='differences'"):
        WholeExecutor(lambda model, task: None, declares_norm=True)


def test_the_memory_that_is_stated_has_that_of_both_passes(tmp_path: Path) -> None:
    plain, clipping = RoundConfig(gather="spool"), RoundConfig(gather="spool", clip_norm=1.0)
    with Job() as job:
        before, after = (
            ScatterAndGather(job.federation.server, job.store, rules, spool=tmp_path).peak_bytes(3)
            for rules in (plain, clipping)
        )
        assert 3 << 20 < after - before < 8 << 20
