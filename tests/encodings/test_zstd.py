"""Zstd keeps the contract of a codec, and is not fooled by what a frame says of itself."""

from __future__ import annotations

from typing import ClassVar

import pytest
import zstandard

from streamlink.encodings.codec import Place
from streamlink.encodings.zstd import Zstd
from streamlink.errors import RemoteProtocolError
from streamlink.model.spec import ModelSpec, TensorSpec
from tests.support.codec_contract import CodecContract
from tests.support.models import random_bytes

MiB = 1 << 20


def place(nbytes: int) -> Place:
    return Place(ModelSpec((TensorSpec("x", "U8", (nbytes,)),)), 0, nbytes)


class TestZstd(CodecContract):
    name: ClassVar[str] = "zstd"

    def claiming(self, nbytes: int) -> bytes:
        magic, eight_bytes_of_size_in_one_segment = b"\x28\xb5\x2f\xfd", b"\xe0"
        last_block_repeats_one_byte = ((100_000 << 3) | 0b011).to_bytes(3, "little") + b"\0"
        head = magic + eight_bytes_of_size_in_one_segment + nbytes.to_bytes(8, "little")
        return head + last_block_repeats_one_byte


def test_random_bytes_travel_plain() -> None:
    assert Zstd().encode((memoryview(random_bytes(MiB)),), place(MiB)) is None


def test_an_error_names_both_lengths() -> None:
    longer = memoryview(zstandard.ZstdCompressor().compress(bytes(2 * MiB)))
    with pytest.raises(RemoteProtocolError, match=f"{2 * MiB} bytes where {MiB} belong"):
        Zstd().decode((longer,), place(MiB))


def test_a_frame_that_does_not_say_its_length_is_refused() -> None:
    packer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    packed = packer.compress(bytes(MiB)) + packer.flush()
    with pytest.raises(RemoteProtocolError, match="belong"):
        Zstd().decode((memoryview(packed),), place(MiB))


def test_a_frame_that_asks_for_a_window_larger_than_its_range_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=24, write_content_size=True)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj(size=MiB)
    packed = bytearray(packer.compress(bytes(MiB)) + packer.flush())
    # A frame in one segment has no window of its own: write one that has, by its header's fields.
    assert packed[4] & 0x20
    frame = packed[:4] + bytes((packed[4] & ~0x20, (24 - 10) << 3)) + packed[5:]
    assert zstandard.get_frame_parameters(bytes(frame)).window_size == 1 << 24
    with pytest.raises(RemoteProtocolError, match="window"):
        Zstd().decode((memoryview(frame),), place(MiB))
