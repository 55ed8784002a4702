"""The packing of lossy formats: what a peer may not send, and how long it is."""

from __future__ import annotations

import numpy as np
import pytest

from streamlink.encodings.codec import Place
from streamlink.encodings.int8 import Int8
from streamlink.encodings.packed import same_bits
from streamlink.errors import RemoteProtocolError
from streamlink.model.spec import ModelSpec, TensorSpec

PLACE = Place(ModelSpec((TensorSpec("x", "F32", (300,)),)), 0, 1200)
LENGTH = 1 + 2 * 4 + 300


def decode(payload: bytes) -> bytes:
    return bytes(Int8().decode((memoryview(payload),), PLACE))


def test_scales_come_first_and_then_a_byte_for_each_element() -> None:
    scales = np.array([0.5, 2.0], np.float32)
    codes = (np.arange(300) % 255 - 127).astype(np.int8)
    plain = decode(b"\1" + scales.tobytes() + codes.tobytes())
    expected = codes.astype(np.float32) * np.repeat(scales, 256)[:300] + 0.0
    assert plain == expected.tobytes()


def test_any_scale_decodes_to_some_numbers() -> None:
    strange = np.array([np.nan, np.inf], np.float32).tobytes()
    assert len(decode(b"\1" + strange + bytes(300))) == 1200


@pytest.mark.parametrize("payload", [b"", b"\2" + bytes(LENGTH - 1), b"\1" + bytes(LENGTH)])
def test_another_length_or_an_unknown_mark_is_refused(payload: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="of int8"):
        decode(payload)


def test_a_slice_that_is_marked_as_it_is_needs_all_its_bytes() -> None:
    assert decode(b"\0" + bytes(1200)) == bytes(1200)
    with pytest.raises(RemoteProtocolError, match="301 bytes of int8 where 1201 belong"):
        decode(b"\0" + bytes(300))


def test_zeros_of_two_signs_have_other_bits() -> None:
    assert not same_bits(np.array([0.0], np.float32), np.array([-0.0], np.float32))
    assert same_bits(np.array([np.nan]), np.array([np.nan]))


def test_how_long_a_tensor_is_once_packed_is_known_before() -> None:
    assert Int8().packed_bytes(TensorSpec("x", "F32", (300,))) == LENGTH - 1
    assert Int8().packed_bytes(TensorSpec("x", "I32", (300,))) == 1200  # stays as it is
