"""A codec is given the version that both ends hold, once they have agreed on one."""

from __future__ import annotations

from typing import ClassVar

from streamlink.encodings.codec import Place
from streamlink.encodings.stream import Decoder, Encoder
from streamlink.model.interfaces import Payload
from streamlink.model.payloads import join
from streamlink.model.spec import ModelSpec, TensorSpec

SPEC = ModelSpec((TensorSpec("x", "U8", (100,)),))
BASE = memoryview(bytes(range(100)))


def base(offset: int, nbytes: int) -> Payload:
    return (BASE[offset : offset + nbytes],)


class FromBase:
    """A codec that needs one byte for a range that is as it was."""

    name: ClassVar[str] = "zstd"

    def encode(self, payload: Payload, place: Place) -> memoryview | None:
        if place.base is None or join(place.base(place.offset, place.nbytes)) != join(payload):
            return None
        return memoryview(b"=")

    def decode(self, payload: Payload, place: Place) -> memoryview:
        assert place.base is not None
        return join(place.base(place.offset, place.nbytes))


def test_both_ends_hand_their_codecs_the_base_that_was_set() -> None:
    encoder = Encoder(("zstd",), SPEC, codec_for=lambda name: FromBase())
    decoder = Decoder(peer_name="site-1", stream_id=7, codec_for=lambda name: FromBase())
    decoder.spec = SPEC
    plain = (BASE[10:30],)
    assert encoder.encode(10, plain, ("zstd",)) == (0, plain)
    encoder.base = decoder.base = base
    number, packed = encoder.encode(10, plain, ("zstd",))
    assert number == 1
    assert decoder.decode(number, 10, 20, packed, ("zstd",)) == plain
