"""What one stream encodes and decodes: numbered as agreed, plain where it does not pay."""

from __future__ import annotations

import itertools
from typing import ClassVar

import numpy as np
import pytest

from streamlink.encodings.codec import Place
from streamlink.encodings.stream import Decoder, Encoder
from streamlink.encodings.worth import FIRST_TRIES, Worth
from streamlink.errors import RemoteProtocolError, UnknownCodec
from streamlink.model.interfaces import Payload
from streamlink.model.payloads import as_bytes_view
from streamlink.model.spec import ModelSpec, TensorSpec
from tests.support.models import random_bytes

SPEC = ModelSpec((TensorSpec("x", "U8", (4096,)),))
ZEROS = (memoryview(bytes(4096)),)


@pytest.fixture
def decoder() -> Decoder:
    decoder = Decoder(peer_name="site-1", stream_id=7)
    decoder.spec = SPEC
    return decoder


def test_a_range_is_encoded_by_its_number_and_decoded_again(decoder: Decoder) -> None:
    number, packed = Encoder(("zstd",), SPEC).encode(0, ZEROS, ("zstd",))
    assert number == 1
    assert decoder.decode(1, 0, 4096, packed, ("zstd",)) == ZEROS


def test_what_does_not_shrink_and_what_the_receiver_does_not_know_travels_plain() -> None:
    encoder = Encoder(("zstd",), SPEC)
    noise = (memoryview(random_bytes(4096)),)
    assert encoder.encode(0, noise, ("zstd",)) == (0, noise)
    assert encoder.encode(0, ZEROS, ()) == (0, ZEROS)


def test_a_payload_that_does_not_decode_is_the_senders_fault(decoder: Decoder) -> None:
    with pytest.raises(
        RemoteProtocolError, match=r"site-1 sent bytes 10 to 20 in .*'zstd'"
    ) as info:
        decoder.decode(1, 10, 10, (memoryview(b"rubbish"),), ("zstd",))
    assert info.value.stream_id == 7


class Liar:
    """A codec whose results have a length of their own."""

    name: ClassVar[str] = "zstd"

    def encode(self, payload: Payload, place: Place) -> memoryview:
        return memoryview(bytes(5000))

    decode = encode


def test_a_codec_that_returns_another_length_is_not_believed() -> None:
    encoder = Encoder(("zstd",), SPEC, codec_for=lambda name: Liar())
    assert encoder.encode(0, ZEROS, ("zstd",)) == (0, ZEROS)
    decoder = Decoder(peer_name="site-1", stream_id=7, codec_for=lambda name: Liar())
    decoder.spec = SPEC
    with pytest.raises(RemoteProtocolError, match="decodes to 5000 bytes"):
        decoder.decode(1, 0, 4096, (memoryview(b"x"),), ("zstd",))


def test_a_sender_is_refused_an_encoding_that_it_does_not_know() -> None:
    with pytest.raises(UnknownCodec):
        Encoder(("gzip",), SPEC)


def test_a_codec_is_made_once_for_all_chunks_of_a_stream(decoder: Decoder) -> None:
    encoder = Encoder(("zstd",), SPEC)
    for offset in (0, 1024):
        number, packed = encoder.encode(offset, (ZEROS[0][:1024],), ("zstd",))
        assert decoder.decode(number, offset, 1024, packed, ("zstd",)) == (ZEROS[0][:1024],)


def test_a_codec_sees_which_tensors_a_range_cuts() -> None:
    spec = ModelSpec((TensorSpec("a", "U8", (10,)), TensorSpec("b", "F32", (5,))))
    segments = list(Place(spec, 8, 6).segments())
    assert segments == list(spec.segments(8, 6))
    assert len(segments) == 2


class FastLine:
    """A line that carries more than the encoder encodes, at a second for each look at the clock."""

    rate: float = 5e8
    is_in_flight = True
    is_limited = False


def test_on_a_fast_line_ranges_are_sampled_and_travel_plain() -> None:
    seconds = itertools.count()
    worth = Worth(FastLine(), lambda: float(next(seconds)))
    model = ModelSpec((TensorSpec("x", "U8", (1 << 20,)),))
    # The sample ends inside the second view.
    zeros = (memoryview(bytes(1000)), memoryview(bytes((1 << 20) - 1000)))
    encoder = Encoder(("zstd",), model, worth=worth)
    assert encoder.encode(0, zeros, ()) == (0, zeros)  # the receiver knows none: nothing to try
    assert next(seconds) == 0
    assert [encoder.encode(0, zeros, ("zstd",)) for _ in range(100)] == [(0, zeros)] * 100
    assert next(seconds) == 1 + 2 * FIRST_TRIES


@pytest.mark.parametrize(("has_base", "looks"), [(True, 2 * FIRST_TRIES), (False, 0)])
def test_on_a_line_faster_than_codecs_only_a_range_with_a_base_is_sampled(
    has_base: bool, looks: int
) -> None:
    seconds = itertools.count()
    line = FastLine()
    line.rate = 2e9
    model = ModelSpec((TensorSpec("x", "U8", (1 << 20,)),))
    zeros = (memoryview(bytes(1 << 20)),)
    encoder = Encoder(("zstd",), model, worth=Worth(line, lambda: float(next(seconds))))
    if has_base:
        encoder.base = lambda offset, nbytes: (zeros[0][offset : offset + nbytes],)
    assert [encoder.encode(0, zeros, ("zstd",)) for _ in range(100)] == [(0, zeros)] * 100
    assert next(seconds) == looks


FLOATS = ModelSpec((TensorSpec("x", "F32", (1024,)),))


def test_the_packing_of_a_lossy_format_comes_first_and_needs_no_worth() -> None:
    halves = (as_bytes_view(np.full(1024, 0.1, np.float16).astype(np.float32)),)
    worth = Worth(FastLine(), lambda: 0.0)
    encoder = Encoder(("planes",), FLOATS, packings=("fp16", "bf16"), worth=worth)
    assert encoder.names == ("fp16", "bf16", "planes")
    number, packed = encoder.encode(0, halves, encoder.names)
    assert number == 1
    decoder = Decoder(peer_name="site-1", stream_id=7)
    decoder.spec = FLOATS
    assert decoder.decode(1, 0, 4096, packed, encoder.names) == halves
    assert encoder.encode(0, halves, ("bf16",))[0] == 0  # it knows no fp16


def test_what_was_not_rounded_is_left_to_the_other_encodings() -> None:
    threes = (as_bytes_view(np.full(1024, 1 / 3, np.float32)),)
    encoder = Encoder(("zstd",), FLOATS, packings=("fp16",))
    assert encoder.encode(0, threes, ("fp16", "zstd"))[0] == 2
    assert encoder.encode(0, threes, ("fp16",)) == (0, threes)
