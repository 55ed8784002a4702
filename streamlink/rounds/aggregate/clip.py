"""Norm clipping: an update that moves the model too far is shortened to a bound.

The norm is the L2 norm of what an update changes, over all floating point and complex elements of
all its tensors: ``sqrt(sum(|update - base|^2))``. If it is above the bound, the update becomes
``base + (update - base) * bound / norm``, as in McMahan, Ramage, Talwar and Zhang, "Learning
Differentially Private Recurrent Language Models" (2018). Integers and booleans are neither counted
nor changed.

An update's norm is known after its last byte, and needed for its first: so there is a first pass
over each update, and the updates must be stored (``spool``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink.link import UpdateKind
from streamlink.model.computed import RangeFunction
from streamlink.model.interfaces import ModelSource
from streamlink.model.payloads import join
from streamlink.model.spec import TensorSpec
from streamlink.rounds.aggregate.rounding import round_into

__all__ = ["CLIP_BYTES", "clipped_to", "norm_of"]

_Array = npt.NDArray[Any]
_Floats = npt.NDArray[np.float64]

_BLOCK = 32 * 1024  # elements; always cut at the same ones, so that a norm is always the same bits
_LARGEST_ELEMENT_BYTES = 8

CLIP_BYTES = 8 * _BLOCK * _LARGEST_ELEMENT_BYTES
"""Memory of either pass (bytes): some blocks, as they are and as float64. For each clipped update
the second one has a piece of the result beside that."""


def norm_of(
    update: ModelSource,
    base: ModelSource,
    kind: UpdateKind,
    check: Callable[[], None] = lambda: None,
) -> float:
    """Return the norm of what ``update`` changes; NaN or infinity where one of its elements is.

    Args:
        update: its tensors are some of the base's.
        base: the model that it is from.
        kind: whether it has values or differences.
        check: called before each read; what it raises ends this.
    """
    norm = 0.0
    for number, tensor in enumerate(update.spec.tensors):
        if tensor.numpy_dtype.kind in "iub":
            continue
        offset, of_base = update.spec.offset_of(number), _offset_in(base, tensor)
        for start in range(0, tensor.count, _BLOCK):
            check()
            count = min(_BLOCK, tensor.count - start)
            moved = _read(update, tensor, offset, start, count)
            if kind is not UpdateKind.DIFFERENCES:
                moved -= _read(base, tensor, of_base, start, count)
            norm = math.hypot(norm, _norm(moved))
    return norm


def clipped_to(bound: float, norm: float, base: ModelSource, kind: UpdateKind) -> RangeFunction:
    """Return the function that shortens an update of this norm to ``bound``, range by range."""
    factor = bound / norm

    def clipped(tensor: TensorSpec, start: int, values: _Array) -> _Array:
        if values.dtype.kind in "iub":
            return values
        out = np.empty_like(values)
        offset = _offset_in(base, tensor)
        for first in range(0, values.size, _BLOCK):
            block = slice(first, min(first + _BLOCK, values.size))
            moved = _wide(values[block])
            if kind is UpdateKind.DIFFERENCES:
                moved *= factor
            else:
                before = _read(base, tensor, offset, start + first, block.stop - first)
                moved -= before
                moved *= factor
                moved += before
            whole = out[block] if out.dtype.kind != "c" else out[block].view(np.float32)
            mask = np.empty(moved.size, np.bool_)
            with np.errstate(all="ignore"):
                round_into(moved, np.empty_like(moved), mask, whole)
        return out

    return clipped


def _norm(moved: _Floats) -> float:
    # Scaled by the largest, so that no square is too large or too small for a float.
    largest = float(np.abs(moved).max(initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    scaled = moved / largest
    return largest * math.sqrt(float(np.sum(scaled * scaled)))


def _read(source: ModelSource, tensor: TensorSpec, offset: int, start: int, count: int) -> _Floats:
    nbytes = count * tensor.itemsize
    data = join(source.read(offset + start * tensor.itemsize, nbytes))
    return _wide(np.frombuffer(data, tensor.numpy_dtype))


def _wide(values: _Array) -> _Floats:
    """Return a copy in float64; of complex numbers both parts."""
    flat = values.view(np.float32) if values.dtype.kind == "c" else values
    return flat.astype(np.float64)


def _offset_in(base: ModelSource, tensor: TensorSpec) -> int:
    return base.spec.offset_of(base.spec.names[tensor.name])
