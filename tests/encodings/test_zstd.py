"""Zstd keeps the contract of a codec, and is not fooled by what a frame says of itself."""

from __future__ import annotations

import tracemalloc
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


def test_random_bytes_travel_plain() -> None:
    assert Zstd().encode((memoryview(random_bytes(MiB)),), place(MiB)) is None


def test_a_bomb_is_refused_before_it_is_decoded() -> None:
    bomb = memoryview(zstandard.ZstdCompressor().compress(bytes(64 * MiB)))
    codec = Zstd()
    tracemalloc.start()
    with pytest.raises(RemoteProtocolError, match=f"{64 * MiB} bytes where {MiB} belong"):
        codec.decode((bomb,), place(MiB))
    assert tracemalloc.get_traced_memory()[1] < MiB
    tracemalloc.stop()


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
