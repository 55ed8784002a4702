"""``AveragedModel``: the weighted mean of several models as a source, computed where it is read.

For programs that have their own rounds and want only the mean: nothing is computed before a range
is read, and no more than that range is in memory. The arithmetic is that of the rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink.errors import ModelError, NonFiniteUpdate
from streamlink.model.interfaces import Check, ModelSource, Payload, watch
from streamlink.model.payloads import as_bytes_view, join
from streamlink.model.spec import DTYPES, ModelSpec, require_same
from streamlink.rounds.aggregate.mean import WeightedMean
from streamlink.rounds.aggregate.validate import first_non_finite

__all__ = ["AveragedModel"]

_Array = npt.NDArray[Any]


class AveragedModel:
    """The weighted mean of ``sources``, which have the same tensors in the same order.

    The result is the same bits as in a round of ``ScatterAndGather`` with these names and weights,
    whatever ranges are read. Pass it to ``copy_model``, or to whatever else takes a source.

    Args:
        sources: the models by the name of their contributor; at least one. They are read while this
            is read, and closed by the caller.
        weights: a weight for each name; missing: all weigh the same.
        accept_non_finite: let NaN and infinity into the mean; otherwise reading them fails.

    Raises:
        SpecMismatch: two models differ in a tensor.
        ModelError: there is no model, a weight is missing, negative or not finite, or all are 0.
    """

    def __init__(
        self,
        sources: Mapping[str, ModelSource],
        weights: Mapping[str, float] | None = None,
        *,
        accept_non_finite: bool = False,
    ) -> None:
        if not sources:
            raise ModelError("there is no model to average; pass at least one")
        # A fixed order makes the result reproducible: addition of floats is not associative.
        self._names = sorted(sources)
        self._sources = [sources[name] for name in self._names]
        self._spec = self._sources[0].spec
        for name, source in zip(self._names, self._sources, strict=True):
            require_same(self._spec, source.spec, name, self._names[0])
        self._mean = WeightedMean(_weights(self._names, weights))
        self._accepts_non_finite = accept_non_finite
        self._lock = Lock()  # the mean has one scratch memory, and sources may be read by several

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._spec

    def watch(self) -> Check:
        """Return a check that fails if one of the sources was changed since this call."""
        checks = [watch(source) for source in self._sources]

        def check() -> None:
            for each in checks:
                each()

        return check

    def read(self, offset: int, length: int) -> Payload:
        """Compute the mean of bytes ``[offset, offset + length)``.

        Raises:
            NonFiniteUpdate: a model that counts has NaN or infinity there.
            StreamlinkError: a source cannot be read.
        """
        with self._lock:
            return tuple(self._run(*run) for run in self._runs(offset, length))

    def close(self) -> None:
        """Do nothing: whoever opened the sources closes them."""

    def _runs(self, offset: int, length: int) -> list[tuple[str, int, int]]:
        """Return the range as runs of one dtype each: (dtype, start, stop), in model offsets."""
        # A model may have 100,000 small tensors, and a call of NumPy costs more than one of them.
        runs: list[tuple[str, int, int]] = []
        tensors = self._spec.tensors
        for index, start, stop in self._spec.spans(offset, length):
            at, dtype = self._spec.offset_of(index), tensors[index].dtype
            begin = runs.pop()[1] if runs and runs[-1][0] == dtype else at + start
            runs.append((dtype, begin, at + stop))
        return runs

    def _run(self, dtype: str, start: int, stop: int) -> memoryview:
        # Whole elements are computed, although the range may cut one at either end.
        first, last = self._element_at(start)[0], self._element_at(stop - 1)[1]
        inputs = [
            np.frombuffer(join(source.read(first, last - first)), DTYPES[dtype])
            for source in self._sources
        ]
        out = np.empty(inputs[0].size, DTYPES[dtype])
        # Only then: which model it was takes a second look at every element, and nearly all are
        # finite.
        if not self._mean.combine(dtype, inputs, out) and not self._accepts_non_finite:
            self._require_finite(first, inputs)
        return as_bytes_view(out)[start - first : stop - first]

    def _element_at(self, offset: int) -> tuple[int, int]:
        """Return where the element that has byte ``offset`` begins and ends."""
        index, inside = self._spec.locate(offset)
        itemsize = self._spec.tensors[index].itemsize
        begin = offset - inside % itemsize
        return begin, begin + itemsize

    def _require_finite(self, first: int, inputs: list[_Array]) -> None:
        for name, weight, values in zip(self._names, self._mean.weights, inputs, strict=True):
            # Whoever has the weight 0 does not count, NaN and infinity included.
            position = first_non_finite(values) if weight else -1
            if position >= 0:
                index, inside = self._spec.locate(first + position * values.itemsize)
                tensor = self._spec.tensors[index]
                raise NonFiniteUpdate(name, tensor.name, inside // tensor.itemsize, "")


def _weights(names: list[str], weights: Mapping[str, float] | None) -> list[float]:
    if weights is None:
        return [1.0] * len(names)
    missing = [name for name in names if name not in weights]
    if missing:
        raise ModelError(f"there is no weight for {', '.join(map(repr, missing))}")
    return [weights[name] for name in names]
