"""What encodings cost: tried with ranges of a model."""

from __future__ import annotations

from itertools import count

import numpy as np
import numpy.typing as npt
import pytest

from streamlink.encodings.codec import Place
from streamlink.encodings.registry import lossless_encodings, new_codec
from streamlink.encodings.rounder import Rounder, formats_of
from streamlink.errors import SpecMismatch
from streamlink.model.interfaces import ModelSource
from streamlink.model.payloads import as_bytes_view
from streamlink.probing.encoded import WEIGHT_DTYPES, costs_of, random_weights
from streamlink.probing.forecast import EncodingCost
from streamlink.stores.memory import ArrayModel


def lossless(model: ModelSource, base: ModelSource | None = None) -> list[EncodingCost]:
    return [each for each in costs_of(model, base) if not each.is_lossy]


def lossy(model: ModelSource) -> dict[str, EncodingCost]:
    return {each.name: each for each in costs_of(model) if each.is_lossy}


def noise(count: int, seed: int = 1) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(count, np.float32)


def test_constant_values_shrink_with_every_lossless_encoding() -> None:
    costs = lossless(ArrayModel({"w": np.ones(50_000, np.float32)}))
    assert [each.name for each in costs] == list(lossless_encodings())
    assert all(each.share < 0.1 and each.encode > 0 and each.decode > 0 for each in costs)


def test_what_does_not_shrink_travels_plain() -> None:
    random = np.random.default_rng(1).integers(0, 256, 200_000, np.uint8)
    assert {each.share for each in costs_of(ArrayModel({"w": random}))} == {1.0}


def test_random_weights_shrink_by_their_exponents_alone() -> None:
    planes = next(each for each in costs_of(random_weights(400_000)) if each.name == "planes")
    assert 0.75 < planes.share < 0.9


def test_a_model_without_bytes_costs_nothing() -> None:
    assert costs_of(ArrayModel({"w": np.zeros(0, np.float32)})) == ()


@pytest.mark.parametrize("dtype", WEIGHT_DTYPES)
@pytest.mark.parametrize("nbytes", [1, 4, 1001])
def test_random_weights_have_about_the_size(nbytes: int, dtype: str) -> None:
    spec = random_weights(nbytes, dtype).spec
    assert spec.tensors[0].dtype == dtype
    assert abs(spec.nbytes - nbytes) < 8


@pytest.mark.parametrize(
    ("dtype", "names"),
    [
        ("F32", {"int8", "fp16", "bf16"}),
        ("F64", {"int8", "fp16", "bf16"}),
        ("F16", {"int8"}),
        ("BF16", {"int8"}),
    ],
)
def test_random_weights_of_16_bits_are_rounded_only_to_int8(dtype: str, names: set[str]) -> None:
    found = lossy(random_weights(400_000, dtype))
    assert found.keys() == names
    itemsize = random_weights(8, dtype).spec.tensors[0].itemsize
    assert found["int8"].share == pytest.approx(1 / itemsize, rel=0.05)  # and scales


def test_random_weights_of_64_bits_are_random_in_all_of_them() -> None:
    planes = next(
        each for each in costs_of(random_weights(800_000, "F64")) if each.name == "planes"
    )
    assert 0.8 < planes.share < 1.0


def test_random_weights_of_another_dtype_are_refused() -> None:
    with pytest.raises(ValueError, match="one of F32, F16, BF16, F64, not 'I8'"):
        random_weights(8, "I8")


# --- differences from an older version -----------------------------------------------------------


def test_differences_are_tried_only_where_there_is_an_older_version() -> None:
    model = ArrayModel({"w": noise(50_000)})
    assert "delta" not in [each.name for each in lossless(model)]
    assert "delta" in [each.name for each in lossless(model, model)]


def test_differences_are_as_short_as_the_change_is_small() -> None:
    old = noise(600_000)
    changed = old.copy()
    changed[:6_000] *= np.float32(1.01)
    shares = [
        next(each.share for each in lossless(ArrayModel({"w": new}), ArrayModel({"w": old}))
             if each.name == "delta")
        for new in (old, changed, noise(600_000, seed=2))
    ]  # fmt: skip
    assert shares[0] < 1e-5
    assert shares[0] < shares[1] < 0.05
    assert shares[2] == 1.0  # what is not related travels plain


def test_an_older_version_with_other_tensors_is_refused() -> None:
    with pytest.raises(SpecMismatch, match="the older version"):
        costs_of(ArrayModel({"w": noise(10)}), ArrayModel({"w": noise(11)}))


# --- formats that lose precision -----------------------------------------------------------------


def test_the_share_of_a_lossy_format_is_that_of_its_bytes() -> None:
    found = lossy(ArrayModel({"w": noise(256 * 1000)}))
    assert {name: each.share for name, each in found.items()} == {
        "int8": (1 + 4 / 256) / 4,
        "fp16": 0.5,
        "bf16": 0.5,
    }
    assert all(0 < each.encode < float("inf") and each.decode > 0 for each in found.values())


@pytest.mark.parametrize("name", ["int8", "fp16", "bf16"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_that_share_is_what_a_rounded_model_takes(name: str, dtype: type[np.floating]) -> None:
    values = noise(100_001).astype(dtype)
    model = ArrayModel({"w": values})
    rounded = Rounder(model.spec, formats_of([f"*={name}"], model.spec))(
        model.spec.tensors[0], 0, values
    )
    place = Place(model.spec, 0, values.nbytes)
    packed = new_codec(name).encode((as_bytes_view(rounded),), place)
    assert packed is not None
    assert lossy(model)[name].share == pytest.approx(packed.nbytes / values.nbytes, abs=1e-4)


def test_tensors_that_a_format_leaves_as_they_are_count_as_plain_and_cost_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ticks = count()
    monkeypatch.setattr("streamlink.probing.encoded.time.perf_counter", lambda: next(ticks))
    half = lossy(ArrayModel({"w": noise(50_000), "ids": np.arange(50_000, dtype=np.int32)}))
    every = lossy(ArrayModel({"w": noise(50_000)}))
    assert (half["bf16"].share, every["bf16"].share) == (0.75, 0.5)
    assert half["bf16"].encode == 2 * every["bf16"].encode
    assert half["bf16"].decode == 2 * every["bf16"].decode


@pytest.mark.parametrize(
    ("array", "names"),
    [(np.arange(9), set()), (noise(9).astype(np.float16), {"int8"}), (np.zeros(0), set())],
)
def test_a_format_that_makes_no_tensor_smaller_is_left_out(
    array: npt.NDArray[np.generic], names: set[str]
) -> None:
    assert lossy(ArrayModel({"w": array, "ids": np.arange(300)})).keys() == names
