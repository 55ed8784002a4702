"""Norm clipping: an update that moves the model too far is shortened to a bound.

The norm is the L2 norm of what an update changes, over all floating point and complex elements of
all its tensors: ``sqrt(sum(|update - base|^2))``. If it is above the bound, the update becomes
``base + (update - base) * bound / norm``, as in McMahan, Ramage, Talwar and Zhang, "Learning
Differentially Private Recurrent Language Models" (2018). Integers and booleans are neither counted
nor changed.

An update's norm is known after its last byte, and needed for its first. Either its client declares
it, and it is verified while the update is used (``DeclaredNorms``), or there is a first pass over
the update (``norm_of``), which must be stored for that (``spool``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink.errors import ModelError
from streamlink.link import Update, UpdateKind
from streamlink.model.computed import RangeFunction
from streamlink.model.interfaces import ModelSource
from streamlink.model.payloads import join
from streamlink.model.spec import TensorSpec
from streamlink.rounds.aggregate.combiner import ContributorFailed
from streamlink.rounds.aggregate.rounding import round_into

__all__ = ["CLIP_BYTES", "DeclaredNorms", "clipped_to", "norm_of"]

_Array = npt.NDArray[Any]
_Floats = npt.NDArray[np.float64]

_BLOCK = 32 * 1024  # elements; always cut at the same ones, so that a norm is always the same bits
_LARGEST_ELEMENT_BYTES = 8
_SLACK = 1e-6  # relative

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
    return _Clip(bound / norm, base, kind)


class DeclaredNorms:
    """Clips the updates of one attempt by the norms that their clients declared.

    A client that declares less than its norm would escape the bound, so the norm is computed again
    from the bytes that are used. An update that turns out to be longer does not count. One that was
    declared longer than it is was only shortened too much, which is its client's own loss.

    Args:
        bound: the largest norm of an update that stays as it is.
        base: the model that the updates are from. Read, never closed.
    """

    def __init__(self, bound: float, base: ModelSource) -> None:
        self._bound, self._base = bound, base
        self._clips: dict[str, tuple[_Clip, float]] = {}

    def function(self, peer_name: str, update: Update) -> RangeFunction:
        """Return the function for the ranges of one update, each of which it must see once.

        Raises:
            ModelError: its client declared no norm.
        """
        self.require(peer_name, update)
        norm = update.norm or 0.0
        # One that is not finite is left to ``non_finite``.
        is_clipped = self._bound < norm < math.inf
        factor = self._bound / norm if is_clipped else 1.0
        clip = _Clip(factor, self._base, update.kind, sums=True)
        self._clips[peer_name] = clip, norm
        return clip

    @staticmethod
    def require(peer_name: str, update: Update) -> None:
        """Raise ``ModelError`` unless the client declared the norm of its update."""
        if update.norm is None:
            raise ModelError(
                f"{peer_name} declared no norm for its update, and clip_norm is set: pass "
                "declares_norm=True to its executor, or have the server store updates first "
                "(gather = spool)"
            )

    def verify(self) -> None:
        """Check the declared norm of each update against that of the bytes that were used.

        Raises:
            ContributorFailed: an update is longer.
        """
        for peer_name, (clip, declared) in self._clips.items():
            # A client declares infinity if its update has NaN; ``non_finite`` decides about those.
            norm = math.inf if math.isnan(clip.norm) else clip.norm
            # Summed over other blocks than the client's, so the last digits may differ.
            if norm > declared * (1 + _SLACK):
                error = ModelError(
                    f"{peer_name} declared the norm {declared:g} for its update, and it is "
                    f"{norm:g}; it must be that of the update as it is sent"
                )
                raise ContributorFailed(peer_name, error) from error


class _Clip:
    """Shortens one update range by range; if ``sums``, it also sums up its norm."""

    def __init__(
        self, factor: float, base: ModelSource, kind: UpdateKind, *, sums: bool = False
    ) -> None:
        self._factor, self._base, self._kind, self._sums = factor, base, kind, sums
        self.norm = 0.0

    def __call__(self, tensor: TensorSpec, start: int, values: _Array) -> _Array:
        if values.dtype.kind in "iub":
            return values
        out = np.empty_like(values) if self._factor != 1.0 else values
        offset = _offset_in(self._base, tensor)
        for first in range(0, values.size, _BLOCK):
            block = slice(first, min(first + _BLOCK, values.size))
            moved, before = _wide(values[block]), None
            if self._kind is not UpdateKind.DIFFERENCES:
                before = _read(self._base, tensor, offset, start + first, block.stop - first)
                moved -= before
            if self._sums:
                self.norm = math.hypot(self.norm, _norm(moved))
            if out is not values:
                self._shorten(moved, before, out[block])
        return out

    def _shorten(self, moved: _Floats, before: _Floats | None, out: _Array) -> None:
        moved *= self._factor
        if before is not None:
            moved += before
        whole = out if out.dtype.kind != "c" else out.view(np.float32)
        with np.errstate(all="ignore"):
            round_into(moved, np.empty_like(moved), np.empty(moved.size, np.bool_), whole)


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
