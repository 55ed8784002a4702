"""``AveragedModel``: the mean as a source, and the same bits as in a round."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamlink
from streamlink.errors import ModelError, NonFiniteUpdate, SpecMismatch
from streamlink.model import TensorSpec
from streamlink.rounds import AveragedModel
from streamlink.stores import ArrayModel, MemoryStore
from streamlink.testing import run_job

Array = npt.NDArray[Any]

LENGTH = 50


def models() -> dict[str, ArrayModel]:
    chance = np.random.default_rng(3)

    def one() -> ArrayModel:
        return ArrayModel(
            {
                "a": chance.normal(size=LENGTH).astype(np.float32),
                "none": np.empty(0, np.float32),
                "b": chance.normal(size=(5, 3)).astype(np.float32),
                "half": chance.normal(size=LENGTH).astype(ml_dtypes.bfloat16),
                "double": chance.normal(size=LENGTH),
                "steps": chance.integers(0, 99, size=3),
            }
        )

    return {"site-1": one(), "site-2": one(), "site-3": one()}


def adding(more: np.float32) -> Callable[[TensorSpec, int, Array], Array]:
    return lambda tensor, start, values: values + more


def whole(source: AveragedModel) -> bytes:
    return b"".join(source.read(0, source.spec.nbytes))


def test_equal_weights_give_the_mean() -> None:
    ones = {"w": np.full(9, 1.0, np.float32)}
    threes = {"w": np.full(9, 3.0, np.float32)}
    mean = AveragedModel({"a": ArrayModel(ones), "b": ArrayModel(threes)})
    store = MemoryStore()
    streamlink.copy_model(mean, store)
    assert whole(AveragedModel({"copy": store.open()})) == np.full(9, 2.0, np.float32).tobytes()


def test_weights_count_by_name() -> None:
    ones, fives = {"w": np.full(9, 1.0, np.float32)}, {"w": np.full(9, 5.0, np.float32)}
    mean = AveragedModel({"b": ArrayModel(fives), "a": ArrayModel(ones)}, {"a": 3, "b": 1})
    assert whole(mean) == np.full(9, 2.0, np.float32).tobytes()


@given(st.data())
def test_any_cut_gives_the_same_bits(data: st.DataObject) -> None:
    mean = AveragedModel(models(), {"site-1": 1, "site-2": 2.5, "site-3": 0.1})
    total = mean.spec.nbytes
    cuts = data.draw(st.lists(st.integers(0, total), max_size=6).map(sorted))
    edges = [0, *cuts, total]
    parts = [b"".join(mean.read(start, stop - start)) for start, stop in pairwise(edges)]
    assert b"".join(parts) == whole(mean)


def test_the_bits_are_those_of_a_round() -> None:
    added = {"site-1": np.float32(0.1), "site-2": np.float32(0.7)}
    first = {"w": np.random.default_rng(5).normal(size=999).astype(np.float32)}
    store = MemoryStore()
    streamlink.copy_model(first, store)
    sites = {name: streamlink.StreamingExecutor(adding(more)) for name, more in added.items()}
    run_job(store, sites, rules=streamlink.RoundConfig(min_clients=2, num_rounds=1))
    mean = AveragedModel({n: ArrayModel({"w": first["w"] + more}) for n, more in added.items()})
    assert b"".join(store.open().read(0, mean.spec.nbytes)) == whole(mean)


def test_a_contributor_with_nan_is_named() -> None:
    bad = np.zeros(LENGTH, np.float32)
    bad[7] = np.nan
    models = {"a": ArrayModel({"w": np.zeros(LENGTH, np.float32)}), "b": ArrayModel({"w": bad})}
    what = "element 7 of tensor 'w' in the update of b is NaN.* or set accept_non_finite"
    with pytest.raises(NonFiniteUpdate, match=what):
        whole(AveragedModel(models))
    assert np.isnan(np.frombuffer(whole(AveragedModel(models, accept_non_finite=True)), "f4")[7])


def test_nan_with_weight_0_does_not_count() -> None:
    nan, ones = np.full(3, np.nan, np.float32), np.ones(3, np.float32)
    models = {"a": ArrayModel({"w": nan}), "b": ArrayModel({"w": ones})}
    assert whole(AveragedModel(models, {"a": 0, "b": 2})) == ones.tobytes()


def test_models_that_differ_are_refused_by_name() -> None:
    short, long = np.zeros(3, np.float32), np.zeros(4, np.float32)
    with pytest.raises(SpecMismatch, match="b has another model"):
        AveragedModel({"a": ArrayModel({"w": short}), "b": ArrayModel({"w": long})})


def test_no_model_and_a_missing_weight_are_refused() -> None:
    with pytest.raises(ModelError, match="no model"):
        AveragedModel({})
    with pytest.raises(ModelError, match="no weight for 'a'"):
        AveragedModel({"a": ArrayModel({"w": np.zeros(1, np.float32)})}, {"b": 1})


def test_a_range_outside_is_refused() -> None:
    mean = AveragedModel(models())
    with pytest.raises(ValueError, match="not inside"):
        mean.read(0, mean.spec.nbytes + 1)
