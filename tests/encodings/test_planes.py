"""Byte planes keep the contract of a codec, and save what they are for."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from streamlink.encodings.codec import Place
from streamlink.encodings.planes import Planes
from streamlink.encodings.zstd import Zstd
from streamlink.model.spec import DTYPES, ModelSpec, TensorSpec
from tests.encodings.test_zstd import TestZstd
from tests.support.codec_contract import CodecContract

WEIGHTS = np.random.default_rng(1).normal(0.0, 0.02, 1 << 18)


class TestPlanes(CodecContract):
    name: ClassVar[str] = "planes"
    claiming = TestZstd.claiming


def weights(dtype: str) -> tuple[Place, memoryview]:
    array = WEIGHTS.astype(DTYPES[dtype])
    spec = ModelSpec((TensorSpec("w", dtype, array.shape),))
    return Place(spec, 0, spec.nbytes), array.view(np.uint8).data


@pytest.mark.parametrize(("dtype", "least"), [("F32", 1.15), ("BF16", 1.4), ("F16", 1.1)])
def test_weights_shrink_and_more_than_without_planes(dtype: str, least: float) -> None:
    place, data = weights(dtype)
    packed = Planes().encode((data,), place)
    assert packed is not None
    assert place.nbytes / packed.nbytes > least
    whole = Zstd().encode((data,), place)
    assert whole is None or packed.nbytes < whole.nbytes


def test_bytes_of_one_kind_lie_together_and_a_part_of_an_element_behind_them() -> None:
    spec = ModelSpec((TensorSpec("a", "U16", (400,)), TensorSpec("b", "U8", (100,))))
    place, data = Place(spec, 1, 899), bytes([1, 2] * 399 + [1] + [9] * 100)
    packed = Planes().encode((memoryview(data),), place)
    assert packed is not None
    plain = Zstd().decode((packed,), place)
    assert bytes(plain) == bytes([1] * 399 + [2] * 399 + [1] + [9] * 100)


def test_random_bits_travel_plain() -> None:
    data = np.random.default_rng(2).bytes(1 << 20)
    place = Place(ModelSpec((TensorSpec("x", "F32", (1 << 18,)),)), 0, 1 << 20)
    assert Planes().encode((memoryview(data),), place) is None
