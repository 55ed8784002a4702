"""A model seen through lossy formats: what is sent, hashed, and measured instead of the original.

``rules`` name a format for tensors, as ``PATTERN=FORMAT``; of several that match a tensor the first
one counts. Only what a format makes smaller is rounded: integers and booleans never are.

With feedback the remainder that rounding leaves of an update is kept, and added to the next update
of the same client before that is rounded: error feedback (Seide, Fu, Droppo, Li and Yu, "1-Bit
Stochastic Gradient Descent", Interspeech 2014; Karimireddy, Rebjock, Stich and Jaggi, "Error
Feedback Fixes SignSGD", ICML 2019). What was lost in one round then arrives in a later one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from streamlink.encodings.packed import SLICE_ELEMENTS, Packed
from streamlink.encodings.registry import new_codec
from streamlink.errors import ModelError
from streamlink.model.computed import MappedSource
from streamlink.model.interfaces import ModelSource
from streamlink.model.part import part_of
from streamlink.model.rounding import RoundingMeter
from streamlink.model.spec import BLOCK_ELEMENTS, ModelSpec, TensorSpec

__all__ = ["Feedback", "RoundedSource", "Rounder", "formats_of"]

Array = npt.NDArray[Any]


class Feedback(Protocol):
    """Keeps what rounding leaves of one update for the next."""

    def take(self, tensor: TensorSpec, start: int, count: int) -> Array:
        """Return what the last update left of elements ``[start, start + count)``; zeros: none."""

    def put(self, tensor: TensorSpec, start: int, values: Array) -> None:
        """Keep what this update leaves from element ``start`` on; the same bits if called again."""


def formats_of(rules: Sequence[str], whole: ModelSpec) -> dict[str, Packed]:
    """Return the lossy format of each tensor of ``whole`` that has one.

    Raises:
        ModelError: a pattern matches no tensor.
        UnknownCodec: there is no such format.
    """
    formats: dict[str, Packed] = {}
    for rule in rules:
        pattern, _, name = rule.rpartition("=")
        codec = cast("Packed", new_codec(name))
        for tensor in part_of(whole, [pattern]).tensors:
            formats.setdefault(tensor.name, codec)
    dtypes = {tensor.name: tensor.dtype for tensor in whole.tensors}
    return {name: each for name, each in formats.items() if dtypes[name] in each.dtypes}


class Rounder:
    """Rounds ranges of one model, and measures the error: a ``RangeFunction`` of whole blocks.

    Args:
        spec: the tensors that are sent.
        formats: by the name of a tensor.
        feedback: keeps the remainders; None: they are lost.
    """

    def __init__(
        self, spec: ModelSpec, formats: Mapping[str, Packed], feedback: Feedback | None = None
    ) -> None:
        self._spec, self._formats, self._feedback = spec, formats, feedback
        used = {formats[name].name for name in spec.names if name in formats}
        self.meter = RoundingMeter(sorted(used)) if used else None
        """Measures what it changes; None: no tensor has a format."""

    def __call__(self, tensor: TensorSpec, start: int, values: Array) -> Array:
        """Return elements ``[start, start + len(values))`` of a tensor, rounded.

        ``start`` is the first element of a block, and the last block ends where the tensor ends.
        """
        codec = self._formats.get(tensor.name)
        if codec is None or not values.size:
            return values
        if start % codec.block:  # a server that resumes an update anywhere
            raise ModelError(
                f"tensor {tensor.name!r}: {codec.name} rounds blocks of {codec.block} elements, "
                f"and this range begins inside one, at element {start}"
            )
        result = np.empty(values.size, values.dtype)
        # In slices, so that temporary arrays are small whatever is read at once.
        for at in range(0, values.size, SLICE_ELEMENTS):
            piece = slice(at, at + SLICE_ELEMENTS)
            result[piece] = self._rounded(codec, tensor, start + at, values[piece])
        return result

    def _rounded(self, codec: Packed, tensor: TensorSpec, start: int, values: Array) -> Array:
        if self._feedback is None:
            wanted, rounded = values, codec.rounded(values)
        else:
            wanted, rounded = self._corrected(self._feedback, codec, tensor, start, values)
        assert self.meter is not None
        position = self._spec.offset_of(self._spec.names[tensor.name]) + start * tensor.itemsize
        self.meter.add(position, wanted, rounded)
        return rounded

    def _corrected(
        self, feedback: Feedback, codec: Packed, tensor: TensorSpec, start: int, values: Array
    ) -> tuple[Array, Array]:
        """Return the values with what was left of the last update, and the same rounded."""
        with np.errstate(all="ignore"):
            whole = values.astype(np.float64) + feedback.take(tensor, start, values.size)
            wanted = whole.astype(values.dtype)
            rounded = codec.rounded(wanted)
            left = whole - rounded.astype(np.float64)
            # Of NaN and infinity nothing is left: kept, they would spoil every later update.
            left[~np.isfinite(left)] = 0.0
            feedback.put(tensor, start, left.astype(values.dtype))
        return wanted, rounded


class RoundedSource(MappedSource):
    """A source seen through a ``Rounder``; closed with it."""

    def __init__(self, source: ModelSource, rounder: Rounder) -> None:
        super().__init__(source, rounder, block=BLOCK_ELEMENTS)
        self.meter = rounder.meter
        """Measures what rounding changes; None: nothing is rounded."""
