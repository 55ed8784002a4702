"""What may be aggregated: the tensors, weights and metrics of updates, and finite values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import ModelError, SpecMismatch
from streamlink.link import Update
from streamlink.model.spec import DTYPES, ModelSpec, TensorSpec
from streamlink.rounds.aggregate.validate import check_announced, check_metrics, first_non_finite
from tests.support.models import float_spec

WHOLE = float_spec(3, 4, 5)
SECOND = ModelSpec(WHOLE.tensors[1:2])
INTEGERS = [name for name, dtype in DTYPES.items() if dtype.kind in "iub"]


def f32(**shapes: tuple[int, ...]) -> ModelSpec:
    return ModelSpec(tuple(TensorSpec(name, "F32", shape) for name, shape in shapes.items()))


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (f32(t0=(3,), t2=(5,)), "site-1 has another model: it lacks tensor 't1'"),
        (f32(t0=(3,), t1=(4,), t2=(5,), x=()), "nobody asked for tensor 'x'"),
        (f32(a=(3,), t1=(4,), b=(5,)), "it lacks tensors 't0', 't2' and nobody asked for"),
        (f32(t0=(3,), t2=(5,), t1=(4,)), "tensor 1 differs: the server has 't1', site-1 't2'"),
        (
            f32(t0=(3,), t1=(2, 2), t2=(5,)),
            r"'t1' differs in shape: the server has \(4,\), site-1 \(2, 2\)",
        ),
        (
            ModelSpec((*WHOLE.tensors[:2], TensorSpec("t2", "F64", (5,)))),
            "tensor 't2' differs in dtype: the server has F32, site-1 F64",
        ),
        (ModelSpec(()), "it lacks tensors 't0', 't1', 't2'"),
    ],
)
def test_another_model_is_refused_in_words(sent: ModelSpec, words: str) -> None:
    with pytest.raises(SpecMismatch, match=words):
        check_announced("site-1", sent, Update(), WHOLE, WHOLE)


def test_another_part_is_refused_in_words() -> None:
    with pytest.raises(
        SpecMismatch, match=r"another part of the model: nobody asked for tensors 't0', 't2'$"
    ):
        check_announced("site-1", WHOLE, Update(), SECOND, WHOLE)
    check_announced("site-1", f32(t1=(4,)), Update(), SECOND, WHOLE)


def test_many_names_are_counted() -> None:
    many = float_spec(*[1] * 100)
    with pytest.raises(SpecMismatch, match=r"lacks tensors 't0', 't1', 't2' and 97 more$"):
        check_announced("site-1", ModelSpec(()), Update(), many, many)


@pytest.mark.parametrize("weight", [math.nan, math.inf, -1.0])
def test_a_weight_that_is_none_is_refused(weight: float) -> None:
    with pytest.raises(ModelError, match=f"site-1 gave its update the weight {weight}"):
        check_announced("site-1", WHOLE, Update(weight), WHOLE, WHOLE)


@pytest.mark.parametrize("norm", [math.nan, -1.0])
def test_a_norm_that_is_none_is_refused(norm: float) -> None:
    check_announced("site-1", WHOLE, Update(norm=math.inf), WHOLE, WHOLE)
    with pytest.raises(ModelError, match=f"site-1 declared the norm {norm}"):
        check_announced("site-1", WHOLE, Update(norm=norm), WHOLE, WHOLE)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_metric_that_is_not_finite_is_refused(value: float) -> None:
    check_metrics("site-1", {"loss": 1.0})
    with pytest.raises(ModelError, match=f"site-1 reported loss = {value}"):
        check_metrics("site-1", {"n": 1.0, "loss": value})


@pytest.mark.parametrize("dtype", sorted(DTYPES.keys() - set(INTEGERS)))
@given(st.lists(st.integers(0, 99_999), max_size=3))
def test_the_first_element_that_is_not_finite_is_found(dtype: str, places: list[int]) -> None:
    array = np.zeros(100_000, DTYPES[dtype])
    for number, place in enumerate(places):
        array[place] = math.nan if dtype == "F8_E4M3" or number % 2 else math.inf
    assert first_non_finite(array) == min(places, default=-1)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_always_finite(dtype: str) -> None:
    assert first_non_finite(np.arange(1000).astype(DTYPES[dtype])) == -1
