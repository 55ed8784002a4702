"""Differences keep the contract of a codec, save what they are for, and need an agreed base."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from streamlink.encodings.codec import Place
from streamlink.encodings.delta import Delta
from streamlink.encodings.planes import Planes
from streamlink.errors import RemoteProtocolError
from streamlink.model.interfaces import Payload
from streamlink.model.payloads import as_bytes_view
from streamlink.model.spec import DTYPES, ModelSpec, TensorSpec
from tests.encodings.test_zstd import TestZstd
from tests.support.codec_contract import CodecContract
from tests.support.models import random_bytes

WEIGHTS = np.random.default_rng(1).normal(0.0, 0.02, 1 << 18)


def nearly_zeros(offset: int, nbytes: int) -> Payload:
    base = np.zeros(nbytes, np.uint8)
    base[-offset % 1000 :: 1000] = 7
    return (base.data,)


class TestDelta(CodecContract):
    name: ClassVar[str] = "delta"

    def place(self, spec: ModelSpec, offset: int, nbytes: int) -> Place:
        return Place(spec, offset, nbytes, nearly_zeros)

    def claiming(self, nbytes: int) -> bytes:
        frame = TestZstd().claiming(nbytes)
        return len(frame).to_bytes(4, "little") + frame


def place_of(dtype: str, base: npt.NDArray[Any]) -> Place:
    """Return a whole model of one tensor whose base is ``base``."""
    spec = ModelSpec((TensorSpec("w", dtype, base.shape),))
    view = as_bytes_view(base)
    return Place(spec, 0, spec.nbytes, lambda offset, nbytes: (view[offset : offset + nbytes],))


def test_a_range_that_has_not_changed_is_one_byte() -> None:
    weights = WEIGHTS.astype(np.float32)
    place = place_of("F32", weights)
    packed = Delta().encode((as_bytes_view(weights.copy()),), place)
    assert packed is not None
    assert packed.nbytes == 1
    assert Delta().decode((packed,), place) == as_bytes_view(weights)


@pytest.mark.parametrize(("dtype", "least"), [("BF16", 5.0), ("F16", 2.0), ("F32", 1.6)])
def test_small_steps_shrink_by_more_than_planes_do(dtype: str, least: float) -> None:
    base = WEIGHTS.astype(DTYPES[dtype])
    steps = np.random.default_rng(2).normal(0.0, 5e-5, WEIGHTS.size)
    new = as_bytes_view((base.astype(np.float64) + steps).astype(DTYPES[dtype]))
    place = place_of(dtype, base)
    packed, planes = (codec.encode((new,), place) for codec in (Delta(), Planes()))
    assert packed is not None
    assert place.nbytes / packed.nbytes > least
    assert planes is None or packed.nbytes < planes.nbytes
    assert Delta().decode((packed,), place) == new


def test_an_unrelated_base_is_given_up() -> None:
    base = np.frombuffer(random_bytes(1 << 20), np.uint8)
    new = WEIGHTS.astype(np.float32)
    assert Delta().encode((as_bytes_view(new),), place_of("F32", base.view(np.float32))) is None


def test_without_a_base_nothing_is_encoded_and_a_difference_is_refused() -> None:
    place = Place(ModelSpec((TensorSpec("x", "U8", (1000,)),)), 0, 1000)
    assert Delta().encode((memoryview(bytes(1000)),), place) is None
    with pytest.raises(RemoteProtocolError, match="no version was agreed on"):
        Delta().decode((memoryview(b"="),), place)
