"""The seam for aggregators: how the same range of every update becomes a range of the new model.

A new aggregator is one module beside ``mean`` and one line in ``AGGREGATORS``; it must hold the
contract in ``tests/rounds/aggregate/test_aggregator.py``. It sees elements only: who sent them, in
which order they arrived and where they are stored is the business of ``combiner`` and ``gather``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from streamlink.link import UpdateKind
from streamlink.rounds.aggregate.mean import WeightedMean

__all__ = ["AGGREGATORS", "Aggregator", "MakeAggregator"]


class Aggregator(Protocol):
    """Aggregates range by range, with the same bits however a tensor is cut into ranges.

    So it may keep scratch memory from one call to the next, but no values. One thread uses it.
    """

    def needs_base(self, dtype: str | np.dtype[Any]) -> bool:
        """Return whether ``combine`` needs the old model's elements of this dtype."""

    def combine(
        self,
        dtype: str | np.dtype[Any],
        inputs: Sequence[npt.NDArray[Any]],
        out: npt.NDArray[Any],
        base: npt.NDArray[Any] | None = None,
    ) -> bool:
        """Set ``out`` to what the new model has there.

        Args:
            dtype: the elements' type, by safetensors' name (``"F32"``) or as NumPy's dtype.
            inputs: one 1-D array per update, in the order of the clients' names; read-only, and
                perhaps unaligned.
            out: as long, writable.
            base: the old model's elements; only where ``needs_base`` says so.

        Returns:
            Whether every element of ``out`` is finite. If not, the caller looks for the update that
            is to blame.

        Raises:
            ModelError: the arrays do not fit each other or ``dtype``.
        """


MakeAggregator = Callable[[Sequence[float], Sequence[UpdateKind]], Aggregator]
"""``make(weights, kinds)`` makes the aggregator of one round: of each update its weight, at least
one of them above 0, and whether it has values or differences."""

AGGREGATORS: dict[str, MakeAggregator] = {
    "mean": WeightedMean,
}
"""Every aggregator, by the name that ``ScatterAndGather(aggregator=...)`` takes."""
