"""What each encoding makes of a model on this processor: some of its ranges are encoded here."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink.encodings.codec import Codec, Place
from streamlink.encodings.packed import Packed
from streamlink.encodings.registry import lossless_encodings, lossy_encodings, new_codec
from streamlink.encodings.rounder import Rounder, formats_of
from streamlink.model.computed import GeneratedModel
from streamlink.model.interfaces import ModelSource, Payload
from streamlink.model.payloads import as_bytes_view, join
from streamlink.model.spec import BLOCK_ELEMENTS, DTYPES, ModelSpec, TensorSpec, require_same
from streamlink.probing.forecast import EncodingCost

__all__ = ["WEIGHT_DTYPES", "costs_of", "random_weights"]

WEIGHT_DTYPES = ("F32", "F16", "BF16", "F64")
"""Of random weights."""

_RANGE_BYTES = 1 << 20
_MOST_RANGES = 8


def random_weights(nbytes: int, dtype: str = "F32") -> GeneratedModel:
    """Return a model from a normal distribution, such as an untrained network has.

    Args:
        nbytes: its size, which is rounded down to whole elements, of which there is at least one.
        dtype: one of ``WEIGHT_DTYPES``.

    Raises:
        ValueError: it is another one.
    """
    if dtype not in WEIGHT_DTYPES:
        raise ValueError(f"dtype is one of {', '.join(WEIGHT_DTYPES)}, not {dtype!r}")
    count = max(1, nbytes // DTYPES[dtype].itemsize)
    return GeneratedModel(ModelSpec((TensorSpec("weights", dtype, (count,)),)), _fill)


def _fill(tensor: TensorSpec, start: int, out: npt.NDArray[Any]) -> None:
    # With as many random bits as the dtype has: what is rounded to fewer would pack better.
    drawn = np.float64 if tensor.dtype == "F64" else np.float32
    out[:] = np.random.default_rng(start).standard_normal(len(out), drawn) * 0.02


def costs_of(model: ModelSource, base: ModelSource | None = None) -> tuple[EncodingCost, ...]:
    """Encode some ranges of ``model`` with every encoding that applies to it.

    Speeds are measured, and so are the shares of encodings that lose nothing. The share of a lossy
    format is computed for the whole model, from its dtypes.

    Args:
        model: what is encoded.
        base: an older version of it, for differences; None: none are tried.

    Raises:
        StoreError: a model cannot be read.
        SpecMismatch: ``base`` has other tensors.
    """
    if base is not None:
        require_same(model.spec, base.spec, "the older version", "the model")
    places = list(_places(model.spec, base))
    if not places:
        return ()
    names = lossless_encodings(with_base=base is not None)
    lossless = (_cost(new_codec(name), model, places) for name in names)
    return (*lossless, *_lossy_costs(model))


def _places(spec: ModelSpec, base: ModelSource | None) -> Iterator[Place]:
    """Yield ranges that lie evenly in the model."""
    read = base.read if base is not None else None
    size = min(_RANGE_BYTES, spec.nbytes)
    count = min(_MOST_RANGES, spec.nbytes // size) if size else 0
    for number in range(count):
        yield Place(spec, (spec.nbytes - size) * number // max(1, count - 1), size, read)


@dataclass(slots=True)
class _Tried:
    """What has been encoded with one codec: bytes and seconds."""

    plain: int = 0
    encoded: int = 0
    encoding: float = 0.0
    decoding: float = 0.0

    def range(self, codec: Codec, place: Place, payload: Payload) -> None:
        """Encode a range, and decode it if it gets shorter; otherwise it travels plain."""
        began = time.perf_counter()
        result = codec.encode(payload, place)
        self.encoding += time.perf_counter() - began
        self.plain += place.nbytes
        if result is None or result.nbytes >= place.nbytes:
            self.encoded += place.nbytes
            return
        self.encoded += result.nbytes
        began = time.perf_counter()
        codec.decode((result,), place)
        self.decoding += time.perf_counter() - began


def _cost(codec: Codec, model: ModelSource, places: Sequence[Place]) -> EncodingCost:
    tried = _Tried()
    for place in places:
        if place.base is not None:
            place.base(place.offset, place.nbytes)  # disks are not what is measured
        tried.range(codec, place, model.read(place.offset, place.nbytes))
    return EncodingCost(
        codec.name,
        tried.encoded / tried.plain,
        tried.plain / max(tried.encoding, 1e-9),
        tried.plain / max(tried.decoding, 1e-9),
    )


# --- formats that lose precision ----------------------------------------------------------------


def _lossy_costs(model: ModelSource) -> Iterator[EncodingCost]:
    """Yield the cost of each format that makes one of the tensors smaller."""
    spec = model.spec
    for name in lossy_encodings():
        formats = formats_of([f"*={name}"], spec)
        rounded = [tensor for tensor in spec.tensors if tensor.name in formats and tensor.nbytes]
        if rounded:
            yield _lossy_cost(name, model, formats, rounded)


def _lossy_cost(
    name: str, model: ModelSource, formats: dict[str, Packed], rounded: Sequence[TensorSpec]
) -> EncodingCost:
    spec, tried = model.spec, _Tried()
    for tensor, start, count in _blocks(rounded):
        offset = spec.offset_of(spec.names[tensor.name]) + start * tensor.itemsize
        place = Place(spec, offset, count * tensor.itemsize)
        values = np.frombuffer(join(model.read(offset, place.nbytes)), tensor.numpy_dtype)
        began = time.perf_counter()
        result = Rounder(spec, formats)(tensor, start, values)
        tried.encoding += time.perf_counter() - began
        tried.range(formats[tensor.name], place, (as_bytes_view(result),))
    every = sum(tensor.nbytes for tensor in rounded)
    packed = sum(formats[tensor.name].packed_bytes(tensor) for tensor in rounded)
    # Other tensors travel as they are, and cost the processor nothing.
    plain = tried.plain * spec.nbytes / every
    return EncodingCost(
        name,
        (spec.nbytes - every + packed) / spec.nbytes,
        plain / max(tried.encoding, 1e-9),
        plain / max(tried.decoding, 1e-9),
        is_lossy=True,
    )


def _blocks(tensors: Sequence[TensorSpec]) -> Iterator[tuple[TensorSpec, int, int]]:
    """Yield ranges that lie evenly in these tensors: the first element, a block's, and a count."""
    total = sum(tensor.nbytes for tensor in tensors)
    count = min(_MOST_RANGES, max(1, total // _RANGE_BYTES))
    for number in range(count):
        tensor, offset = _at(tensors, total * number // count)
        start = offset // tensor.itemsize // BLOCK_ELEMENTS * BLOCK_ELEMENTS
        yield tensor, start, min(_RANGE_BYTES // tensor.itemsize, tensor.count - start)


def _at(tensors: Sequence[TensorSpec], position: int) -> tuple[TensorSpec, int]:
    """Return the tensor that has this byte of all of them together, and the byte's place in it."""
    for tensor in tensors:
        if position < tensor.nbytes:
            return tensor, position
        position -= tensor.nbytes
    raise IndexError(position)
