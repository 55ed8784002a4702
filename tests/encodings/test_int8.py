"""Blockwise int8 keeps both contracts, and rounds by the formula that it states."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

from streamlink.encodings.codec import Place
from streamlink.encodings.int8 import Int8
from streamlink.model.payloads import as_bytes_view
from streamlink.model.spec import DTYPES, ModelSpec, TensorSpec
from tests.support.lossy_contract import LossyContract, place_of


class TestInt8(LossyContract):  # inherits (CodecContract)
    name: ClassVar[str] = "int8"
    packed_bytes: ClassVar[float] = 1.0 + 4 / 256


def test_it_rounds_as_exact_fractions_do() -> None:
    values = np.random.default_rng(3).standard_normal(256).astype(np.float32)
    exact = [Fraction(float(each)) for each in values]
    least = max(map(abs, exact)) / 127
    unit = Fraction(1, 1 << 40)  # fine enough to find 16 bits of a number near 0.02
    while least / unit >= 1 << 16:
        unit *= 2
    scale = -(-least // unit) * unit
    expected = [float(round(each / scale) * scale) for each in exact]
    assert list(Int8().rounded(values)) == expected


def test_a_block_has_a_scale_of_its_own_and_the_last_one_may_be_short() -> None:
    values = np.array([1e6] + [0.0] * 255 + [1e-6, 3e-7], np.float32)
    rounded = Int8().rounded(values)
    assert rounded[0] == pytest.approx(1e6, rel=1e-4)
    assert rounded[256] == pytest.approx(1e-6, rel=1e-4)
    assert rounded[257] == pytest.approx(3e-7, abs=1e-6 / 254 * 1.001)


@pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf])
def test_a_block_with_nan_or_infinity_stays_as_it_is_and_its_neighbours_do_not(
    strange: float,
) -> None:
    values = np.random.default_rng(4).standard_normal(768).astype(np.float32)
    values[300] = strange
    rounded = Int8().rounded(values)
    assert rounded[256:512].tobytes() == values[256:512].tobytes()
    assert (rounded[:256] != values[:256]).any()
    assert not Int8().bound(values)[256:512].any()


@pytest.mark.parametrize("dtype", sorted(Int8.dtypes))
def test_a_block_whose_largest_number_has_no_room_stays_as_it_is(dtype: str) -> None:
    kind = DTYPES[dtype]
    largest = np.frombuffer(as_bytes_view(np.array([np.inf], kind)), f"u{kind.itemsize}") - 1
    values = np.concatenate([largest.view(kind), np.ones(10, kind)])
    assert Int8().rounded(values).tobytes() == values.tobytes()


def test_the_smallest_numbers_become_zero_and_negative_zero_becomes_zero() -> None:
    values = np.array([1e-45, -0.0, -1e-45], np.float32)
    assert Int8().rounded(values).tobytes() == bytes(12)


def test_small_numbers_of_two_bytes_keep_their_steps() -> None:
    values = (np.arange(-127, 128) * 2.0**-24).astype(np.float16)
    assert (Int8().rounded(values) == values).all()


def test_a_piece_of_a_block_travels_as_it_is() -> None:
    values = Int8().rounded(np.random.default_rng(5).standard_normal(1024).astype(np.float32))
    _, raw = place_of(("F32", values))
    spec = ModelSpec((TensorSpec("0", "F32", (1024,)),))
    place = Place(spec, 100, 3 * 1024)
    packed = Int8().encode((raw[100 : 100 + 3 * 1024],), place)
    assert packed is not None
    assert packed.nbytes == 1 + 1024 + 2 * (4 + 256)
    inside = Place(spec, 100, 900)
    assert Int8().encode((raw[100:1000],), inside) is None


def test_a_nan_that_signals_is_rounded_without_a_warning() -> None:
    patterns = np.arange(0x7F81, 0x7FC0, dtype=np.uint16).view(DTYPES["BF16"])
    for each in patterns:  # alone, since what NumPy notices depends on how many it converts
        assert np.isnan(Int8().rounded(each.reshape(1)).astype(np.float32)).all()
