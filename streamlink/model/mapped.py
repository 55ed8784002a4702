"""A model seen through a function that is applied to each range as it is read.

Filters (clipping, noise, scaling) and streaming executors are maps: nothing is computed ahead,
nothing is kept, and the answer for one range is there while the next one still arrives.
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

__all__ = ["MappedSource", "RangeFunction", "map_model"]

RangeFunction = Callable[[TensorSpec, int, npt.NDArray[Any]], npt.NDArray[Any]]
"""``function(tensor, start, values)`` returns the new elements ``[start, start + len(values))``.

``values`` is 1-D, read-only and has the tensor's dtype; so must the result, at the same length.
"""


class MappedSource:
    """A source that gives ``function`` of another source's elements.

    Args:
        source: what is mapped; closed with this one.
        function: see ``RangeFunction``. A function of its arguments only: a range may be asked for
            again, cut elsewhere, and by several threads at once.
    """

    def __init__(self, source: ModelSource, function: RangeFunction) -> None:
        self._source = source
        self._function = function

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
        # One read, widened to the whole elements that the range cuts at its two ends.
        before = segments[0].start % segments[0].tensor.itemsize
        after = -segments[-1].stop % segments[-1].tensor.itemsize
        pieces = PayloadReader(self._source.read(offset - before, before + length + after))
        return tuple(self._map(segment, pieces) for segment in segments)

    def watch(self) -> Check:
        """Return the check of the source that is mapped."""
        return watch(self._source)

    def close(self) -> None:
        """Close the source that is mapped."""
        self._source.close()

    def _map(self, segment: Segment, pieces: PayloadReader) -> memoryview:
        tensor, itemsize = segment.tensor, segment.tensor.itemsize
        first, last = segment.start // itemsize, -(-segment.stop // itemsize)
        taken = pieces.take((last - first) * itemsize)
        values = np.frombuffer(taken.toreadonly(), tensor.numpy_dtype)
        result = np.ascontiguousarray(self._function(tensor, first, values))
        if result.dtype != tensor.numpy_dtype or result.shape != values.shape:
            raise ModelError(
                f"the function mapped {values.size} elements of tensor {tensor.name!r} "
                f"({tensor.dtype}) to shape {result.shape} of {result.dtype}; it must keep both"
            )
        skipped = first * itemsize
        return as_bytes_view(result)[segment.start - skipped : segment.stop - skipped]


def map_model(source: ModelSource, function: RangeFunction) -> MappedSource:
    """Return ``source`` seen through ``function``, applied range by range."""
    return MappedSource(source, function)
