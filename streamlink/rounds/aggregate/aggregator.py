"""The seam for aggregators: how the same range of every update becomes a range of the new model.

Two protocols. An ``Aggregator`` is what a job is given: it has settings, and tells what memory and
what state it needs. Each round it begins an ``Aggregation``, which knows the updates of that round
and combines them, range by range.

    Aggregator ──begin(weights, kinds)──▶ Aggregation ──combine(range)──▶ range of the new model

An aggregation always gets one range of all updates at once, never one update after another: in
lockstep these ranges are in the windows of the streams anyway, and a median has no running sum.

A new aggregator is one module beside ``mean`` and one line in ``aggregators``; it must hold the
contract in ``tests/rounds/aggregate/test_aggregator.py``. It sees elements only: who sent them, in
which order they arrived and where they are stored is the business of ``combiner`` and ``gather``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from streamlink.link import UpdateKind

__all__ = ["Aggregation", "Aggregator"]


class Aggregation(Protocol):
    """Combines the updates of one round, with the same bits however a tensor is cut into ranges.

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
        state: Sequence[npt.NDArray[Any]] = (),
    ) -> bool:
        """Set ``out`` to what the new model has there.

        Args:
            dtype: the elements' type, by safetensors' name (``"F32"``) or as NumPy's dtype.
            inputs: one 1-D array per update, in the order of the clients' names; read-only, and
                perhaps unaligned.
            out: as long, writable.
            base: the old model's elements; only where ``needs_base`` says so.
            state: the state that belongs to these elements, one array for each of the aggregator's
                ``slots``, to be replaced in place. None for integers and booleans.

        Returns:
            Whether every element of ``out``, and every element that was to have a part in it, is
            finite. If not, the caller looks for the update that is to blame.

        Raises:
            ModelError: the arrays do not fit each other or ``dtype``.
        """


@runtime_checkable
class Aggregator(Protocol):
    """How a job turns updates into the new model."""

    @property
    def slots(self) -> Mapping[str, float]:
        """The state kept from round to round: the name of each array, and what it begins with.

        A slot has one element for each floating point or complex element that clients send: F64
        for F64, C64 for C64, else F32. Empty: there is no state.
        """

    def scratch_bytes(self, clients: int) -> int:
        """Return the memory of one aggregation with so many updates (bytes).

        Without ranges of the updates, the base, the state and the new model, which its caller has.
        """

    def begin(self, weights: Sequence[float], kinds: Sequence[UpdateKind]) -> Aggregation:
        """Return the aggregation of one round.

        Args:
            weights: one for each update, in the order of the clients' names; at least one above 0.
                An update of weight 0 must have no effect.
            kinds: whether each update has values or differences from the base.

        Raises:
            ModelError: these weights cannot be used.
        """

    def __str__(self) -> str:
        """Return name and settings as text: the ledger compares it when a job is resumed."""
