"""Byte planes, then zstd: for floating point numbers, whose exponents repeat and mantissas do not.

Of each tensor in a range the first bytes of all elements come first, then all second bytes, and so
on: HDF5's *shuffle* filter. Exponents then lie beside exponents, which zstd makes shorter, while it
stores planes of random mantissas as they are. Tensors of one byte each element stay as they are, so
for them this is zstd.

A range may begin inside an element. That turns the order of the planes and nothing else, so each
piece of a tensor is split from its own first byte on. Its last bytes that are no whole element stay
behind its planes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from streamlink.encodings.codec import Place
from streamlink.encodings.zstd import Zstd
from streamlink.model.interfaces import Payload
from streamlink.model.payloads import join
from streamlink.model.spec import DTYPES

__all__ = ["Planes", "joined", "split"]

Bytes = npt.NDArray[np.uint8]


class Planes:
    """One zstd frame for each range, of its tensors in byte planes."""

    name: ClassVar[str] = "planes"

    def __init__(self) -> None:
        self._zstd = Zstd()

    def encode(self, payload: Payload, place: Place) -> memoryview | None:
        """See ``Codec``."""
        return self._zstd.encode((_mapped(join(payload), place, split),), place)

    def decode(self, payload: Payload, place: Place) -> memoryview:
        """See ``Codec``."""
        return _mapped(self._zstd.decode(payload, place), place, joined)


def split(data: Bytes, itemsize: int) -> Bytes:
    """Return elements of ``itemsize`` bytes as planes."""
    return data.reshape(-1, itemsize).T


def joined(data: Bytes, itemsize: int) -> Bytes:
    """Return planes as elements of ``itemsize`` bytes."""
    return data.reshape(itemsize, -1).T


def _mapped(view: memoryview, place: Place, reorder: Callable[[Bytes, int], Bytes]) -> memoryview:
    """Return a copy of a range with the whole elements of each of its tensors reordered."""
    data = np.frombuffer(view, np.uint8)
    result = np.empty_like(data)
    for start, stop, itemsize in _pieces(place):
        whole = stop - (stop - start) % itemsize
        reordered = reorder(data[start:whole], itemsize)
        result[start:whole].reshape(reordered.shape)[...] = reordered
        result[whole:stop] = data[whole:stop]
    return result.data


def _pieces(place: Place) -> Iterator[tuple[int, int, int]]:
    """Yield start, stop (in the range) and bytes of an element of each piece of a tensor."""
    start = 0
    for segment in place.segments():
        stop = start + segment.stop - segment.start
        yield start, stop, DTYPES[segment.tensor.dtype].itemsize
        start = stop
