"""Differences from a version that both ends hold: for a model that was trained a little since.

The elements of each tensor are taken as unsigned integers, whatever their dtype. What travels of a
range is a mask, one bit for each element: whether it has changed; and of those that have, the
difference from their base, modulo the integers' range, in *zigzag* (0, -1, 1, -2, ... become 0, 1,
2, 3, ..., as in protobuf), in byte planes. Mask and planes are a zstd frame each. A range that has
not changed at all is one byte.

Neighbours among floating point numbers of one sign are neighbours as integers, so small steps are
small numbers. Mapping negative numbers so that the integers have the order of the numbers gained
nothing: it only helps where a step crosses zero.

An element that a range cuts is compared byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from streamlink.encodings.codec import Place
from streamlink.encodings.planes import joined, split
from streamlink.encodings.zstd import Zstd, is_worth_it
from streamlink.errors import RemoteProtocolError
from streamlink.model.interfaces import Payload
from streamlink.model.payloads import PayloadReader, as_bytes_view, join
from streamlink.model.spec import DTYPES, Segment

__all__ = ["Delta"]

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[Any]

_UNCHANGED = b"="
_LENGTH_BYTES = 4  # of the first frame, in front of it
_FIRST_BYTES = 4096  # compared before the rest: most ranges that differ do so there
_SAMPLES = 4096  # elements that show whether a range is related to its base
_SLICE_ELEMENTS = 1 << 15
_FEW_BITS = 2.0  # for each byte of an element: whatever other encodings make of it


class Delta:
    """The difference of each range from its base, where the two ends hold one."""

    name: ClassVar[str] = "delta"

    def __init__(self) -> None:
        self._zstd = Zstd()

    def encode(self, payload: Payload, place: Place) -> memoryview | None:
        """See ``Codec``; None where there is no base, or the range is not related to it."""
        if place.base is None:
            return None
        new, old = _bytes(payload), _bytes(place.base(place.offset, place.nbytes))
        if _are_equal(new, old):
            return memoryview(_UNCHANGED)
        pieces = _pieces(place)
        longest = max(pieces, key=lambda piece: piece.count)
        if not _are_related(longest.of(new), longest.of(old)):
            return None
        found = [_difference(piece.of(new), piece.of(old)) for piece in pieces]
        mask = self._zstd.pack(join(tuple(as_bytes_view(bits) for bits, _ in found)))
        planes = self._zstd.pack(join(tuple(planes for _, planes in found)))
        packed = b"".join((mask.nbytes.to_bytes(_LENGTH_BYTES, "little"), mask, planes))
        return memoryview(packed) if is_worth_it(len(packed), place.nbytes) else None

    def decode(self, payload: Payload, place: Place) -> memoryview:
        """See ``Codec``."""
        if place.base is None:
            raise RemoteProtocolError("it is a difference, and no version was agreed on")
        packed = join(payload)
        if packed == _UNCHANGED:
            return join(place.base(place.offset, place.nbytes))
        pieces = _pieces(place)
        # Nothing that a payload says is allocated: the range says how long the mask is, and the
        # mask how long the rest.
        end = _LENGTH_BYTES + int.from_bytes(packed[:_LENGTH_BYTES], "little")
        size = sum(piece.mask_bytes for piece in pieces)
        masks = _masks(self._zstd.unpack(packed[_LENGTH_BYTES:end], size), pieces)
        counts = [int(np.count_nonzero(mask)) for mask in masks]
        size = sum(count * piece.unit for piece, count in zip(pieces, counts, strict=True))
        planes = PayloadReader((self._zstd.unpack(packed[end:], size),))
        result = _bytes(place.base(place.offset, place.nbytes)).copy()
        for piece, mask, count in zip(pieces, masks, counts, strict=True):
            _add(piece.of(result), mask, _bytes((planes.take(count * piece.unit),)))
        return result.data


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes ``[start, stop)`` of a range: integers of ``unit`` bytes."""

    start: int
    stop: int
    unit: int

    @property
    def count(self) -> int:
        return (self.stop - self.start) // self.unit

    @property
    def mask_bytes(self) -> int:
        return -(-self.count // 8)

    def of(self, data: Bytes) -> Integers:
        """Return the integers of this piece, a view of the bytes of the range."""
        return data[self.start : self.stop].view(f"<u{self.unit}")


def _pieces(place: Place) -> list[_Piece]:
    """Return the pieces of a range in order; tensors of the same unit become one."""
    pieces: list[_Piece] = []
    at = 0
    for segment in place.segments():
        for nbytes, unit in _parts(segment):
            if not nbytes:
                continue
            start = at
            if pieces and pieces[-1].unit == unit:
                start = pieces.pop().start
            at += nbytes
            pieces.append(_Piece(start, at, unit))
    return pieces


def _parts(segment: Segment) -> Iterator[tuple[int, int]]:
    """Yield the length and the unit of what lies before, in and behind the whole elements."""
    dtype = DTYPES[segment.tensor.dtype]
    unit = dtype.itemsize // (2 if dtype.kind == "c" else 1)  # two numbers are one complex one
    first = min(-(-segment.start // unit) * unit, segment.stop)
    last = max(segment.stop // unit * unit, first)
    yield first - segment.start, 1
    yield last - first, unit
    yield segment.stop - last, 1


def _bytes(payload: Payload) -> Bytes:
    return np.frombuffer(join(payload), np.uint8)


def _are_equal(new: Bytes, old: Bytes) -> bool:
    """Return whether all bytes are equal; in long words, which is several times as fast."""
    whole = new.nbytes - new.nbytes % 8
    return (
        np.array_equal(new[:_FIRST_BYTES], old[:_FIRST_BYTES])
        and np.array_equal(new[:whole].view("<u8"), old[:whole].view("<u8"))
        and np.array_equal(new[whole:], old[whole:])
    )


def _are_related(new: Integers, old: Integers) -> bool:
    """Return whether differences are likely to need few bytes, or fewer than the planes of ``new``.

    Else the range is left to the next encoding, at the price of a look at some elements.
    """
    step = new.size // _SAMPLES | 1  # odd: columns of a matrix lie a power of two apart
    some = new[::step]
    return _entropy(_zigzag(some - old[::step])) < max(_entropy(some), _FEW_BITS * new.itemsize)


def _entropy(values: Integers) -> float:
    """Return the bits that the planes of one value need, coded byte by byte (Shannon)."""
    total = 0.0
    for plane in _planes(values):
        shares = np.bincount(plane) / values.size
        shares = shares[shares > 0]
        total -= float(np.dot(shares, np.log2(shares)))
    return total


def _difference(new: Integers, old: Integers) -> tuple[Bytes, memoryview]:
    """Return the mask of what has changed, and the planes of the changes."""
    changes = new - old
    mask = changes != 0
    if np.count_nonzero(mask) < mask.size:
        changes = changes[mask]
    return np.packbits(mask), as_bytes_view(np.ascontiguousarray(_planes(_zigzag(changes))))


def _planes(values: Integers) -> Bytes:
    return split(np.ascontiguousarray(values).view(np.uint8), values.itemsize)


def _masks(packed: memoryview, pieces: list[_Piece]) -> list[npt.NDArray[np.bool_]]:
    """Return for each piece which of its elements have changed."""
    masks = PayloadReader((packed,))
    return [
        np.unpackbits(_bytes((masks.take(piece.mask_bytes),)), count=piece.count).view(np.bool_)
        for piece in pieces
    ]


def _add(values: Integers, mask: npt.NDArray[np.bool_], planes: Bytes) -> None:
    """Add the changes to those of ``values`` that have changed."""
    elements = np.array(joined(planes, values.itemsize), order="C")  # ours, to be changed in place
    changes = _unzigzag(elements.view(values.dtype)[:, 0])
    if changes.size == values.size:
        values += changes
    else:
        values[mask] += changes


def _zigzag(differences: Integers) -> Integers:
    """Map small numbers of either sign to small ones, in place; returns its argument."""
    for part in _slices(differences.view(f"<i{differences.itemsize}")):
        signs = part >> (8 * part.itemsize - 1)
        part <<= 1
        part ^= signs
    return differences


def _unzigzag(values: Integers) -> Integers:
    """Undo ``_zigzag``, in place; returns its argument."""
    for part in _slices(values):
        signs = part & 1
        np.negative(signs, out=signs)
        part >>= 1
        part ^= signs
    return values


def _slices(values: Integers) -> Iterator[Integers]:
    """Yield views of parts whose temporary arrays stay small, and fit into a processor's cache."""
    for start in range(0, values.size, _SLICE_ELEMENTS):
        yield values[start : start + _SLICE_ELEMENTS]
