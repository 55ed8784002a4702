"""Sources whose bytes are computed when they are read, and are stored nowhere.

``GeneratedModel`` computes elements from their position: tests and benchmarks send models of any
size, and examples make initial models, without storing them. ``map_model`` applies a function to
each range of another source: filters (clipping, noise, scaling) and streaming executors are such
maps. Nothing is computed ahead or kept, so a result for one range is ready while the next range
still arrives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink.errors import ModelError
from streamlink.model.interfaces import Check, ModelSource, Payload, watch
from streamlink.model.payloads import PayloadReader, as_bytes_view
from streamlink.model.spec import ModelSpec, Segment, TensorSpec

__all__ = ["Fill", "GeneratedModel", "MappedSource", "RangeFunction", "map_model"]

Fill = Callable[[TensorSpec, int, npt.NDArray[Any]], None]
"""``fill(tensor, start, out)`` sets ``out`` (1-D) to elements ``[start, start + len(out))``."""


class GeneratedModel:
    """A source whose elements ``fill`` computes at every read, only for the range that is read.

    Args:
        spec: the tensors.
        fill: see ``Fill``. Its result must depend on the position only. Several threads may call it
            at the same time.
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
        # A range may cut an element at either end: compute whole elements, then slice the view.
        itemsize = segment.tensor.itemsize
        first, last = segment.start // itemsize, -(-segment.stop // itemsize)
        values = np.empty(last - first, segment.tensor.numpy_dtype)
        self._fill(segment.tensor, first, values)
        skipped = first * itemsize
        return as_bytes_view(values)[segment.start - skipped : segment.stop - skipped]


RangeFunction = Callable[[TensorSpec, int, npt.NDArray[Any]], npt.NDArray[Any]]
"""``function(tensor, start, values)`` returns the new elements ``[start, start + len(values))``.

``values`` is 1-D, read-only and has the tensor's dtype; so must the result, at the same length.
"""


class MappedSource:
    """A source that applies ``function`` to the elements of another source.

    Args:
        source: the other source; closed with this one.
        function: see ``RangeFunction``. Its result must depend on its arguments only: a range may
            be read again, with other boundaries, and by several threads at the same time.
        block: the function gets whole blocks of so many elements, counted from the beginning of a
            tensor; the last one of a tensor may be shorter.
    """

    def __init__(self, source: ModelSource, function: RangeFunction, *, block: int = 1) -> None:
        self._source = source
        self._function = function
        self._block = block

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order: the mapped source's."""
        return self._source.spec

    def read(self, offset: int, length: int) -> Payload:
        """Read and map ``[offset, offset + length)``: one view for each tensor touched.

        Raises:
            ModelError: the function returned another dtype or length.
        """
        segments = tuple(self.spec.segments(offset, length))
        if not segments:
            return ()
        # One read of whole blocks: the range may cut one at either end.
        before = segments[0].start - self._whole(segments[0])[0]
        after = self._whole(segments[-1])[1] - segments[-1].stop
        pieces = PayloadReader(self._source.read(offset - before, before + length + after))
        return tuple(self._map(segment, pieces) for segment in segments)

    def watch(self) -> Check:
        """Return the check of the mapped source."""
        return watch(self._source)

    def close(self) -> None:
        """Close the mapped source."""
        self._source.close()

    def _map(self, segment: Segment, pieces: PayloadReader) -> memoryview:
        tensor = segment.tensor
        start, stop = self._whole(segment)
        taken = pieces.take(stop - start)
        # Read-only: these may be the source's own bytes, such as the user's arrays.
        values = np.frombuffer(taken.toreadonly(), tensor.numpy_dtype)
        # A function may return a strided view, such as every second element of a longer array.
        result = np.ascontiguousarray(self._function(tensor, start // tensor.itemsize, values))
        if result.dtype != tensor.numpy_dtype or result.shape != values.shape:
            raise ModelError(
                f"the function mapped {values.size} elements of tensor {tensor.name!r} "
                f"({tensor.dtype}) to shape {result.shape} of {result.dtype}; it must keep both"
            )
        return as_bytes_view(result)[segment.start - start : segment.stop - start]

    def _whole(self, segment: Segment) -> tuple[int, int]:
        """Return which bytes of the tensor are the blocks that the segment has a part of."""
        unit = self._block * segment.tensor.itemsize
        stop = min(-(-segment.stop // unit) * unit, segment.tensor.nbytes)
        return segment.start // unit * unit, stop


def map_model(source: ModelSource, function: RangeFunction) -> MappedSource:
    """Return a source that applies ``function`` to each range of ``source`` when it is read."""
    return MappedSource(source, function)
