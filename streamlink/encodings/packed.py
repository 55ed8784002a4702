"""What the lossy formats share: a rounding that is done to a model, and a lossless packing of it.

A lossy format has two halves. ``rounded`` maps the elements of a tensor to values that the format
holds; the sender reads its model through that (``encodings.rounder``), so the digest, block hashes,
resume and repair are of the rounded model. The codec then packs such values into fewer bytes and
gives back the same bits. It looks at the values alone: what was not rounded, or does not fit the
format, stays as it is. So no end has to believe the other, and a peer without the codec receives
the same rounded model in plain bytes.

Elements are rounded in blocks that are counted from the beginning of their tensor, never from that
of a range: how a stream is cut into chunks changes no bit. A range that begins or ends inside a
block has the bytes of that block as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from streamlink.encodings.codec import Place
from streamlink.errors import RemoteProtocolError
from streamlink.model.interfaces import Payload
from streamlink.model.payloads import as_bytes_view, join
from streamlink.model.spec import BLOCK_ELEMENTS, DTYPES, Segment, TensorSpec

__all__ = ["SLICE_ELEMENTS", "Packed", "same_bits"]

Array = npt.NDArray[Any]

SLICE_ELEMENTS = 64 * BLOCK_ELEMENTS
"""Elements that are packed, or are not, together: temporary arrays fit into the processor's cache.
Part of the format."""

_AS_IS, _PACKED = 0, 1
_PROBE = BLOCK_ELEMENTS  # elements of a slice that are looked at first


@dataclass(frozen=True, slots=True)
class _Part:
    """Bytes ``[start, stop)`` of a range; ``dtype``: of whole blocks, which may be packed."""

    start: int
    stop: int
    dtype: np.dtype[Any] | None = None
    tensor: int = -1

    @property
    def count(self) -> int:
        assert self.dtype is not None
        return (self.stop - self.start) // self.dtype.itemsize


class Packed(ABC):
    """A lossy format: its rounding, and the codec that packs what was rounded.

    An encoded range has one byte for each slice of whole blocks in it (0: as it is, 1: packed),
    then all its bytes in order, those slices packed. The length of everything follows from the
    range and these bytes, so nothing in a payload states a length.
    """

    name: ClassVar[str]
    dtypes: ClassVar[frozenset[str]]
    """Which tensors it makes smaller; others it leaves as they are."""
    block: ClassVar[int] = 1
    """Elements that are rounded together."""

    @abstractmethod
    def rounded(self, values: Array) -> Array:
        """Return the nearest values that the format holds.

        Idempotent, and the same bits on every machine. What the format cannot hold within its bound
        is returned unchanged.

        Args:
            values: 1-D, of one of ``dtypes``: whole blocks of a tensor, the last one may be short.
        """

    @abstractmethod
    def bound(self, values: Array) -> npt.NDArray[np.float64]:
        """Return the most by which ``rounded`` changes each of ``values``."""

    def packed_bytes(self, tensor: TensorSpec) -> int:
        """Return how long the elements of a tensor are, rounded and packed, where all of them fit.

        One byte for each slice, and what the ends of ranges cut off a block, come on top.
        """
        if tensor.dtype not in self.dtypes:
            return tensor.nbytes
        return self._packed_bytes(tensor.count, tensor.numpy_dtype)

    @abstractmethod
    def _pack(self, values: Array) -> Sequence[Array] | None:
        """Return arrays whose bytes are ``values``, packed; None: they are no rounded values."""

    @abstractmethod
    def _packed_bytes(self, count: int, dtype: np.dtype[Any]) -> int:
        """Return the length of ``count`` packed elements."""

    @abstractmethod
    def _unpack(self, packed: memoryview, count: int, dtype: np.dtype[Any]) -> Array:
        """Return ``count`` elements from exactly as many bytes as they take, whatever those are."""

    # --- the codec ----------------------------------------------------------------------------

    def encode(self, payload: Payload, place: Place) -> memoryview | None:
        """See ``Codec``."""
        data = join(payload)
        tags, pieces, unlikely = bytearray(), list[Any](), -1
        for part in self._parts(place):
            plain, packed = data[part.start : part.stop], None
            if part.dtype is not None:
                values = np.frombuffer(plain, part.dtype)
                # Tensors are rounded as a whole: where one was not, its next slices are not tried.
                if part.tensor != unlikely and self._pack(values[:_PROBE]) is None:
                    unlikely = part.tensor
                packed = None if part.tensor == unlikely else self._pack(values)
                tags.append(_AS_IS if packed is None else _PACKED)
            pieces.extend([plain] if packed is None else map(as_bytes_view, packed))
        return memoryview(b"".join((tags, *pieces))) if any(tags) else None

    def decode(self, payload: Payload, place: Place) -> memoryview:
        """See ``Codec``."""
        data, parts = join(payload), list(self._parts(place))
        slices = sum(part.dtype is not None for part in parts)
        tags = bytes(data[:slices])
        if len(tags) < slices or not set(tags) <= {_AS_IS, _PACKED}:
            raise RemoteProtocolError(f"{slices} slices of {self.name} begin with {tags[:8].hex()}")
        marks = iter(tags)
        packed = [part.dtype is not None and next(marks) == _PACKED for part in parts]
        sizes = [self._size(*each) for each in zip(parts, packed, strict=True)]
        # Before anything is allocated: nothing in the payload is believed but its own length.
        if slices + sum(sizes) != data.nbytes:
            raise RemoteProtocolError(
                f"{data.nbytes} bytes of {self.name} where {slices + sum(sizes)} belong"
            )
        result, at = np.empty(place.nbytes, np.uint8), slices
        for part, is_packed, size in zip(parts, packed, sizes, strict=True):
            piece, at = data[at : at + size], at + size
            if is_packed and part.dtype is not None:
                piece = as_bytes_view(self._unpack(piece, part.count, part.dtype))
            result[part.start : part.stop] = piece
        return result.data

    def _size(self, part: _Part, is_packed: bool) -> int:
        if is_packed and part.dtype is not None:
            return self._packed_bytes(part.count, part.dtype)
        return part.stop - part.start

    def _parts(self, place: Place) -> Iterator[_Part]:
        """Yield the parts of a range in order: slices of whole blocks, and what lies between."""
        at = 0
        for segment in place.segments():
            stop = at + segment.stop - segment.start
            first, last = (at + edge - segment.start for edge in self._whole_blocks(segment))
            if first < last:
                dtype = DTYPES[segment.tensor.dtype]
                if at < first:
                    yield _Part(at, first)
                step = SLICE_ELEMENTS * dtype.itemsize
                for start in range(first, last, step):
                    yield _Part(start, min(start + step, last), dtype, segment.index)
                at = last
            if at < stop:
                yield _Part(at, stop)
            at = stop

    def _whole_blocks(self, segment: Segment) -> tuple[int, int]:
        """Return the bytes of the tensor that are whole blocks in this segment: start and stop."""
        tensor = segment.tensor
        if tensor.dtype not in self.dtypes:
            return segment.start, segment.start
        unit = self.block * tensor.itemsize
        # The last block of a tensor may be short, and is whole all the same.
        last = segment.stop if segment.stop == tensor.nbytes else segment.stop // unit * unit
        return -(-segment.start // unit) * unit, last


def same_bits(one: Array, other: Array) -> bool:
    """Return whether two 1-D arrays of one dtype have the same bits, those of zeros and NaN too."""
    bits = f"u{one.dtype.itemsize}"
    return np.array_equal(np.ascontiguousarray(one).view(bits), other.view(bits))
