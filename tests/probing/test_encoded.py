"""What encodings cost: tried with ranges of a model."""

from __future__ import annotations

import numpy as np
import pytest

from streamlink.encodings.registry import lossless_encodings
from streamlink.probing.encoded import costs_of, random_weights
from streamlink.stores.memory import ArrayModel


def test_constant_values_shrink_with_every_lossless_encoding() -> None:
    costs = costs_of(ArrayModel({"w": np.ones(50_000, np.float32)}))
    assert [each.name for each in costs] == list(lossless_encodings())
    assert all(each.share < 0.1 and each.encode > 0 and each.decode > 0 for each in costs)


def test_what_does_not_shrink_travels_plain() -> None:
    noise = np.random.default_rng(1).integers(0, 256, 200_000, np.uint8)
    assert {each.share for each in costs_of(ArrayModel({"w": noise}))} == {1.0}


def test_random_weights_shrink_by_their_exponents_alone() -> None:
    planes = next(each for each in costs_of(random_weights(400_000)) if each.name == "planes")
    assert 0.75 < planes.share < 0.9


def test_a_model_without_bytes_costs_nothing() -> None:
    assert costs_of(ArrayModel({"w": np.zeros(0, np.float32)})) == ()


@pytest.mark.parametrize("nbytes", [1, 4, 1001])
def test_random_weights_have_about_the_size(nbytes: int) -> None:
    assert abs(random_weights(nbytes).spec.nbytes - nbytes) < 4
