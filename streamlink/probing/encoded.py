"""What each encoding makes of a model on this processor: some of its ranges are encoded here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink.encodings.codec import Codec, Place
from streamlink.encodings.registry import lossless_encodings, new_codec
from streamlink.model.computed import GeneratedModel
from streamlink.model.interfaces import ModelSource
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.probing.forecast import EncodingCost

__all__ = ["costs_of", "random_weights"]

_RANGE_BYTES = 1 << 20
_MOST_RANGES = 8


def random_weights(nbytes: int) -> GeneratedModel:
    """Return a model of F32 from a normal distribution, such as an untrained network has."""
    spec = ModelSpec((TensorSpec("weights", "F32", (max(1, nbytes // 4),)),))
    return GeneratedModel(spec, _fill)


def _fill(tensor: TensorSpec, start: int, out: npt.NDArray[Any]) -> None:
    out[:] = np.random.default_rng(start).standard_normal(len(out), np.float32) * 0.02


def costs_of(model: ModelSource) -> tuple[EncodingCost, ...]:
    """Encode some ranges of ``model`` with every encoding that loses nothing.

    Raises:
        StoreError: the model cannot be read.
    """
    places = list(_places(model.spec))
    if not places:
        return ()
    return tuple(_cost(new_codec(name), model, places) for name in lossless_encodings())


def _places(spec: ModelSpec) -> Iterator[Place]:
    """Yield ranges that lie evenly in the model."""
    size = min(_RANGE_BYTES, spec.nbytes)
    count = min(_MOST_RANGES, spec.nbytes // size) if size else 0
    for number in range(count):
        yield Place(spec, (spec.nbytes - size) * number // max(1, count - 1), size)


def _cost(codec: Codec, model: ModelSource, places: list[Place]) -> EncodingCost:
    plain = encoded = 0
    encoding = decoding = 0.0
    for place in places:
        payload = model.read(place.offset, place.nbytes)
        began = time.perf_counter()
        result = codec.encode(payload, place)
        encoding += time.perf_counter() - began
        plain += place.nbytes
        if result is None or result.nbytes >= place.nbytes:  # such a range travels plain
            encoded += place.nbytes
            continue
        encoded += result.nbytes
        began = time.perf_counter()
        codec.decode((result,), place)
        decoding += time.perf_counter() - began
    return EncodingCost(
        codec.name,
        encoded / plain,
        plain / max(encoding, 1e-9),
        plain / max(decoding, 1e-9),
    )
