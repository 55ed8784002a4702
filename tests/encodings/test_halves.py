"""The formats of two bytes keep both contracts, and treat the edges of their range as stated."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from streamlink.encodings.halves import Bf16, Fp16
from tests.support.lossy_contract import LossyContract

F32_MAX = np.finfo(np.float32).max


class TestFp16(LossyContract):  # inherits (CodecContract)
    name: ClassVar[str] = "fp16"
    packed_bytes: ClassVar[float] = 2.0


class TestBf16(LossyContract):  # inherits (CodecContract)
    name: ClassVar[str] = "bf16"
    packed_bytes: ClassVar[float] = 2.0


@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_beyond_the_range_stays_as_it_is_and_its_neighbours_are_rounded(sign: int) -> None:
    values = sign * np.array([65519.0, 65520.0, 1e30, 1.0001], np.float32)
    assert list(sign * Fp16().rounded(values)) == [65504.0, 65520.0, np.float32(1e30), 1.0]
    assert list(Fp16().bound(values) > 0) == [True, False, False, True]


def test_the_largest_f32_has_no_bf16_and_stays() -> None:
    assert list(Bf16().rounded(np.array([F32_MAX, -F32_MAX]))) == [F32_MAX, -F32_MAX]


def test_the_steps_below_the_smallest_normal_number_are_equal() -> None:
    step = 2.0**-24
    values = np.array([0.4, 0.6, 1.5, 2.5, -0.4]) * step
    assert list(Fp16().rounded(values) / step) == [0.0, 1.0, 2.0, 2.0, 0.0]  # half to even


def test_every_nan_becomes_the_default_one() -> None:
    strange = np.array([0x7FC00001, 0xFFC00000, 0x7F800001], np.uint32).view(np.float32)
    for codec in (Fp16(), Bf16()):
        assert set(codec.rounded(strange).view(np.uint32)) == {0x7FC00000}


@pytest.mark.parametrize("kind", [Fp16, Bf16])
def test_the_bound_of_a_nan_that_signals_is_found_without_a_warning(
    kind: type[Fp16 | Bf16],
) -> None:
    patterns = np.array([0x7F800001, 0x7FBFFBFE, 0xFF800001], np.uint32).view(np.float32)
    for each in patterns:
        assert kind().bound(each.reshape(1)).tolist() == [0.0]
