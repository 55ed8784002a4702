"""Norm clipping against the norms of whole arrays in plain NumPy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamlink.config import RoundConfig
from streamlink.errors import Cancelled
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


@pytest.mark.parametrize("gather", ["auto", "lockstep"])
def test_clipping_is_refused_where_updates_are_not_stored(gather: str) -> None:
    with pytest.raises(ValueError, match="updates must be stored; set gather to spool"):
        RoundConfig.model_validate({"gather": gather, "clip_norm": 1.0})


def test_the_memory_that_is_stated_has_that_of_both_passes(tmp_path: Path) -> None:
    plain, clipping = RoundConfig(gather="spool"), RoundConfig(gather="spool", clip_norm=1.0)
    with Job() as job:
        before, after = (
            ScatterAndGather(job.federation.server, job.store, rules, spool=tmp_path).peak_bytes(3)
            for rules in (plain, clipping)
        )
        assert 3 << 20 < after - before < 8 << 20
