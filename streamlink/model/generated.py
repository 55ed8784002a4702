"""A model that is stored nowhere: a function of position gives its elements.

Tests and benchmarks send models of any size from it; examples build initial models with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink.model.interfaces import Payload
from streamlink.model.payloads import as_bytes_view
from streamlink.model.spec import ModelSpec, Segment, TensorSpec

__all__ = ["Fill", "GeneratedModel"]

Fill = Callable[[TensorSpec, int, npt.NDArray[Any]], None]
"""``fill(tensor, start, out)`` sets ``out`` (1-D) to elements ``[start, start + len(out))``."""


class GeneratedModel:
    """A source whose elements ``fill`` computes, each time anew, for just the range that is read.

    Args:
        spec: the tensors.
        fill: see ``Fill``. A function of position only; reads from several threads call it at once.
    """

    def __init__(self, spec: ModelSpec, fill: Fill) -> None:
        self._spec = spec
        self._fill = fill

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._spec

    def read(self, offset: int, length: int) -> Payload:
        """Compute the bytes of ``[offset, offset + length)``: one view for each tensor touched."""
        return tuple(self._piece(segment) for segment in self._spec.segments(offset, length))

    def close(self) -> None:
        """Nothing is held."""

    def _piece(self, segment: Segment) -> memoryview:
        # Widened to whole elements; what is too much at either end is cut off the view.
        itemsize = segment.tensor.itemsize
        first, last = segment.start // itemsize, -(-segment.stop // itemsize)
        values = np.empty(last - first, segment.tensor.numpy_dtype)
        self._fill(segment.tensor, first, values)
        skipped = first * itemsize
        return as_bytes_view(values)[segment.start - skipped : segment.stop - skipped]
