"""Differences keep the contract of a codec, save what they are for, and need an agreed base."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.config import StreamConfig
from streamlink.encodings.codec import Place
from streamlink.encodings.delta import Delta
from streamlink.encodings.planes import Planes
from streamlink.encodings.zstd import Zstd
from streamlink.errors import RemoteProtocolError
from streamlink.model.interfaces import Payload
from streamlink.model.payloads import as_bytes_view
from streamlink.model.spec import DTYPES, ModelSpec, TensorSpec
from tests.encodings.test_zstd import TestZstd
from tests.support.codec_contract import CodecContract, cut
from tests.support.models import random_bytes

MiB = 1 << 20
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


@st.composite
def steps(draw: st.DrawFn) -> tuple[Place, bytes]:
    """A range of a model of some tensors, anywhere, and what has become of its base."""
    dtypes = draw(st.lists(st.sampled_from(sorted(DTYPES)), min_size=1, max_size=4))
    spec = ModelSpec(tuple(TensorSpec(str(at), each, (50,)) for at, each in enumerate(dtypes)))
    start = draw(st.integers(0, spec.nbytes - 1))
    nbytes = draw(st.integers(1, spec.nbytes - start))
    base = np.frombuffer(random_bytes(spec.nbytes), np.uint8)
    new = base[start : start + nbytes].copy()
    for at in draw(st.lists(st.integers(0, nbytes - 1), max_size=20)):
        new[at : at + 1] += draw(st.sampled_from([1, 255, 128]))
    return Place(spec, start, nbytes, lambda at, size: (base[at : at + size].data,)), new.tobytes()


@given(case=steps(), at=st.integers(0, 400))
def test_any_range_of_any_dtypes_is_its_base_and_the_difference(
    case: tuple[Place, bytes], at: int
) -> None:
    place, new = case
    packed = Delta().encode(cut(new, at), place)
    if packed is not None:
        assert Delta().decode(cut(bytes(packed), at % 7), place) == new


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_a_change_of_one_element_travels_as_few_bytes_wherever_a_range_begins(dtype: str) -> None:
    itemsize = DTYPES[dtype].itemsize
    base = random_bytes(2000 * itemsize)
    place = place_of(dtype, np.frombuffer(base, np.uint8))
    spec = ModelSpec((TensorSpec("w", dtype, (2000,)),))
    new = bytearray(base)
    new[1000 * itemsize] ^= 1
    for start in range(itemsize + 1):
        cut_place = Place(spec, start, len(new) - start - 1, place.base)
        packed = Delta().encode((memoryview(new)[start:-1],), cut_place)
        assert packed is not None
        assert packed.nbytes < 80
        assert Delta().decode((packed,), cut_place) == memoryview(new)[start:-1]


def test_small_steps_either_way_are_small_numbers_in_planes() -> None:
    base = np.full(1000, 256, np.uint16)
    new = base.copy()
    new[3:7] = 255, 257, 256 - 129, 256 + 128  # differences -1, 1, -129, 128
    packed = Delta().encode((as_bytes_view(new),), place_of("U16", base))
    assert packed is not None
    end = 4 + int.from_bytes(packed[:4], "little")
    mask = np.unpackbits(np.frombuffer(Zstd().unpack(packed[4:end], 125), np.uint8))
    assert list(np.flatnonzero(mask)) == [3, 4, 5, 6]
    assert list(Zstd().unpack(packed[end:], 8)) == [1, 2, 1, 0, 0, 0, 1, 1]


def test_a_frozen_layer_in_a_range_costs_next_to_nothing() -> None:
    weights = np.concatenate([WEIGHTS, WEIGHTS]).astype(np.float32)
    new = weights.copy()
    new[: WEIGHTS.size] += np.float32(1e-5)
    whole, half = (place_of("F32", each) for each in (weights, weights[: WEIGHTS.size]))
    packed = Delta().encode((as_bytes_view(new),), whole)
    trained = Delta().encode((as_bytes_view(new[: WEIGHTS.size]),), half)
    assert packed is not None
    assert trained is not None
    assert packed.nbytes < 1.01 * trained.nbytes


@pytest.mark.parametrize(
    ("packed", "why"),
    [
        (b"", "no zstd frame"),
        (b"!", "no zstd frame"),
        (b"==", "no zstd frame"),
        (b"\xff\xff\xff\xff" + bytes(100), "no zstd frame"),
    ],
)
def test_what_is_no_difference_is_refused(packed: bytes, why: str) -> None:
    with pytest.raises(RemoteProtocolError, match=why):
        Delta().decode((memoryview(packed),), place_of("U8", np.zeros(1000, np.uint8)))


def test_a_mask_and_changes_that_do_not_fit_it_are_refused() -> None:
    mask = Zstd().pack(as_bytes_view(np.packbits(np.arange(1000) < 3)))
    head = len(mask).to_bytes(4, "little") + mask.tobytes()
    place = place_of("U8", np.zeros(1000, np.uint8))
    for changes in (b"12", b"1234", bytes(1 << 20)):
        with pytest.raises(RemoteProtocolError, match=f"{len(changes)} bytes where 3 belong"):
            Delta().decode((memoryview(head + Zstd().pack(memoryview(changes))),), place)
    three = Delta().decode((memoryview(head + Zstd().pack(memoryview(b"\2\4\6"))),), place)
    assert bytes(three) == b"\1\2\3" + bytes(997)


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


@pytest.mark.parametrize("dtype", ["U8", "BF16", "F32"])
def test_all_elements_changed_takes_no_more_memory_than_streams_count(dtype: str) -> None:
    base = np.random.default_rng(3).integers(0, 200, MiB, np.uint8)
    spec = ModelSpec((TensorSpec("w", dtype, (MiB // DTYPES[dtype].itemsize,)),))
    place = Place(spec, 0, MiB, lambda at, size: (base[at : at + size].copy().data,))
    new = base + np.uint8(1)
    packed = Delta().encode((new.data,), place)  # and imports what is imported once
    assert packed is not None
    tracemalloc.start()
    Delta().encode((new.data,), place)
    encoding = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    Delta().decode((packed,), place)
    decoding = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    with_base = StreamConfig(encodings=("delta",), kept=Path("kept"))
    chunks = (with_base.stream_bytes - StreamConfig().stream_bytes) // with_base.chunk_bytes
    assert max(encoding, decoding) < chunks * MiB


def test_an_unrelated_base_is_given_up() -> None:
    base = np.frombuffer(random_bytes(1 << 20), np.uint8)
    new = WEIGHTS.astype(np.float32)
    assert Delta().encode((as_bytes_view(new),), place_of("F32", base.view(np.float32))) is None


def test_without_a_base_nothing_is_encoded_and_a_difference_is_refused() -> None:
    place = Place(ModelSpec((TensorSpec("x", "U8", (1000,)),)), 0, 1000)
    assert Delta().encode((memoryview(bytes(1000)),), place) is None
    with pytest.raises(RemoteProtocolError, match="no version was agreed on"):
        Delta().decode((memoryview(b"="),), place)
