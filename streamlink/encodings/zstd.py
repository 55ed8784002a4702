"""Zstandard, without a look at the tensors: for models that were trained little, or are sparse."""

from __future__ import annotations

from typing import ClassVar

import zstandard

from streamlink.encodings.codec import Place
from streamlink.errors import RemoteProtocolError
from streamlink.model.interfaces import Payload
from streamlink.model.payloads import join

__all__ = ["Zstd"]

# The fastest of zstd's usual levels: the next ones cost several times the processor and save little
# of floating point numbers.
_LEVEL = 1

# A range that shrinks by less than this part travels plain: decoding it costs more than it saves.
_LEAST_SAVED = 16

# Frames that our encoder writes need a window of their own content; a decoder may allocate what the
# frame asks for, so others are refused.
_LEAST_WINDOW_BYTES = 1024


class Zstd:
    """One zstd frame for each range."""

    name: ClassVar[str] = "zstd"

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self._decompressor = zstandard.ZstdDecompressor()

    def encode(self, payload: Payload, place: Place) -> memoryview | None:
        """See ``Codec``."""
        packed = self._compressor.compress(join(payload))
        is_worth_it = len(packed) <= place.nbytes - place.nbytes // _LEAST_SAVED
        return memoryview(packed) if is_worth_it else None

    def decode(self, payload: Payload, place: Place) -> memoryview:
        """See ``Codec``."""
        packed = join(payload)
        try:
            self._check_size(packed, place)
            return memoryview(self._decompressor.decompress(packed, allow_extra_data=False))
        except zstandard.ZstdError as error:
            raise RemoteProtocolError(f"this is no zstd frame: {error}") from error

    def _check_size(self, packed: memoryview, place: Place) -> None:
        """Check what the frame's header says: the decoder allocates that much and believes it."""
        found = zstandard.get_frame_parameters(packed)
        if found.content_size != place.nbytes:
            raise RemoteProtocolError(
                f"a zstd frame of {found.content_size} bytes where {place.nbytes} belong"
            )
        if found.window_size > max(place.nbytes, _LEAST_WINDOW_BYTES) or found.dict_id:
            raise RemoteProtocolError(
                f"a zstd frame that needs a window of {found.window_size} bytes or a dictionary"
            )
