"""Zstandard, without a look at the tensors: for models that were trained little, or are sparse."""

from __future__ import annotations

from typing import ClassVar

import zstandard

from streamlink.encodings.codec import Place
from streamlink.errors import RemoteProtocolError
from streamlink.model.interfaces import Payload
from streamlink.model.payloads import join

__all__ = ["Zstd", "is_worth_it"]

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
        packed = self.pack(join(payload))
        return packed if is_worth_it(packed.nbytes, place.nbytes) else None

    def decode(self, payload: Payload, place: Place) -> memoryview:
        """See ``Codec``."""
        return self.unpack(join(payload), place.nbytes)

    def pack(self, plain: memoryview) -> memoryview:
        """Return ``plain`` as one frame."""
        return memoryview(self._compressor.compress(plain))

    def unpack(self, packed: memoryview, nbytes: int) -> memoryview:
        """Return the ``nbytes`` bytes in a frame; no more memory than that is allocated.

        Raises:
            RemoteProtocolError: it is no frame of so many bytes.
        """
        try:
            _check_size(packed, nbytes)
            return memoryview(self._decompressor.decompress(packed, allow_extra_data=False))
        except zstandard.ZstdError as error:
            raise RemoteProtocolError(f"this is no zstd frame: {error}") from error


def is_worth_it(encoded_bytes: int, nbytes: int) -> bool:
    """Return whether a range of ``nbytes`` has shrunk by enough to travel encoded."""
    return encoded_bytes <= nbytes - nbytes // _LEAST_SAVED


def _check_size(packed: memoryview, nbytes: int) -> None:
    """Check what the frame's header says: the decoder allocates that much and believes it."""
    found = zstandard.get_frame_parameters(packed)
    if found.content_size != nbytes:
        raise RemoteProtocolError(
            f"a zstd frame of {found.content_size} bytes where {nbytes} belong"
        )
    if found.window_size > max(nbytes, _LEAST_WINDOW_BYTES) or found.dict_id:
        raise RemoteProtocolError(
            f"a zstd frame that needs a window of {found.window_size} bytes or a dictionary"
        )
