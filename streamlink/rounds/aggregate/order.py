"""The coordinate-wise median and trimmed mean: aggregators that a few wrong updates cannot move.

Yin, Chen, Ramchandran and Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal
Statistical Rates" (2018). In every element the updates are sorted, as many are left out at either
end, and the others are averaged. Every update that counts has the same share, whatever weight it
declares: a weight is what a poisoned update would lie about.

The rows of a block, one for each update, go through a sorting network of minima and maxima. Its
comparisons are the same whatever the values are, so the result does not depend on the order in
which the updates came. A zero comes out as +0.0: which of 0.0 and -0.0 is the smaller one depends,
with NumPy, on where the element lies in its array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from streamlink.errors import ModelError
from streamlink.link import UpdateKind
from streamlink.rounds.aggregate.aggregator import Aggregation
from streamlink.rounds.aggregate.compensated import ARRAYS, CompensatedMean
from streamlink.rounds.aggregate.integers import ARRAYS as INTEGER_ARRAYS
from streamlink.rounds.aggregate.integers import IntegerMean
from streamlink.rounds.aggregate.named import NamedSettings
from streamlink.rounds.aggregate.rounding import add_shift, round_into
from streamlink.rounds.aggregate.validate import check_arrays, known_dtype

__all__ = ["Median", "TrimmedMean"]

_Array = npt.NDArray[Any]

# The rows of a block should stay in the cache while they are compared with each other.
_ROOM_BYTES = 1 << 20
_LEAST_BLOCK, _MOST_BLOCK = 256, 16 * 1024  # elements


class _Trimmed(NamedSettings):
    """What median and trimmed mean share: they differ in how many updates they leave out."""

    @property
    def slots(self) -> Mapping[str, float]:
        """No state."""
        return {}

    def scratch_bytes(self, clients: int) -> int:
        """Return the memory of one aggregation (bytes): some elements of every update."""
        return _block_of(clients) * (8 * (clients + 2 + ARRAYS) + 1)

    def begin(self, weights: Sequence[float], kinds: Sequence[UpdateKind]) -> Aggregation:
        """Return the aggregation of one round; weights say only who counts: those above 0."""
        count = sum(map(bool, weights))
        return _TrimmedAggregation(weights, kinds, self.trimmed(count))

    def trimmed(self, count: int) -> int:
        """Return how many of ``count`` updates are left out at either end of each element."""
        raise NotImplementedError


class Median(_Trimmed):
    """The median of the updates in each element; of an even number, the mean of the middle two."""

    name = "median"

    def trimmed(self, count: int) -> int:
        """Return how many of ``count`` updates are left out at either end of each element."""
        return (count - 1) // 2


class TrimmedMean(_Trimmed):
    """The mean of what is left of each element without its largest and smallest updates."""

    name = "trimmed_mean"

    beta: float = Field(default=0.2, ge=0, lt=0.5)
    """The share of the updates that is left out at either end (ratio): ``beta`` times their number,
    rounded down. With 5 updates 0.2 leaves out one at either end, with 4 none."""

    def trimmed(self, count: int) -> int:
        """Return how many of ``count`` updates are left out at either end of each element."""
        # As the decimal fraction that the user wrote: 0.29 * 100 is 28.999999999999996.
        return int(Fraction(str(self.beta)) * count)


class _TrimmedAggregation:
    """Sorts the updates in each element, and averages those in the middle."""

    def __init__(self, weights: Sequence[float], kinds: Sequence[UpdateKind], trimmed: int) -> None:
        self._count = len(weights)
        self._counted = [number for number, weight in enumerate(weights) if weight]
        self._differs = {n for n in self._counted if kinds[n] == UpdateKind.DIFFERENCES}
        rows = len(self._counted)
        if not rows:
            raise ModelError(f"the {len(weights)} weights sum to 0; at least one must be above 0")
        self._middle = slice(trimmed, rows - trimmed)
        self._kept = kept = rows - 2 * trimmed
        self._network = _network(rows, trimmed)
        self._compensated = CompensatedMean([1.0] * kept, [False] * kept)
        self._integers = IntegerMean([1.0] * kept)
        self._block = _block_of(rows)
        self._rows = np.empty((rows + 1, self._block), np.float64)
        self._scratch = np.empty((ARRAYS + 1, self._block), np.float64)
        self._mask = np.empty(self._block, np.bool_)

    def needs_base(self, dtype: str | np.dtype[Any]) -> bool:
        """Return whether ``combine`` needs the base's elements of this dtype."""
        return bool(self._differs) and known_dtype(dtype).kind not in "iub"

    def combine(
        self,
        dtype: str | np.dtype[Any],
        inputs: Sequence[_Array],
        out: _Array,
        base: _Array | None = None,
        state: Sequence[_Array] = (),
    ) -> bool:
        """Set ``out`` to the mean of the middle; see ``Aggregation``."""
        elements = known_dtype(dtype)
        if not self.needs_base(elements):
            base = None
        elif base is None:
            raise ModelError(f"differences of dtype {elements} need the base they are from")
        check_arrays(self._count, elements, inputs, out, base)
        if elements.kind == "c":  # a complex number has no order: its two parts have one each
            inputs, out = [values.view(np.float32) for values in inputs], out.view(np.float32)
            base = None if base is None else base.view(np.float32)
        is_finite = True
        with np.errstate(all="ignore"):
            for start in range(0, out.size, self._block):
                block = slice(start, start + self._block)
                before = None if base is None else base[block]
                rows = [inputs[number][block] for number in self._counted]
                is_finite &= self._combine(rows, out[block], before)
        return is_finite

    def _combine(self, inputs: list[_Array], out: _Array, base: _Array | None) -> bool:
        dtype = _sorted_as(out.dtype, base)
        room = [row.view(dtype)[: out.size] for row in self._rows]
        rows = inputs
        if dtype != out.dtype or base is not None:
            rows, room = room[:-1], room[-1:]
            self._widen(inputs, rows, base)
        rows = _sorted(rows, room, self._network, are_ours=rows is not inputs)
        middle = rows[self._middle]
        if out.dtype.kind in "iub":
            self._mean_of_integers(middle, out)
            return True
        self._mean_of_floats(middle, out)
        # Sums that overflow, too. What is left out must be finite as well: it is an update's fault.
        is_finite = np.isfinite(rows[0], out=self._mask[: out.size]).all()
        return bool(is_finite and np.isfinite(rows[-1], out=self._mask[: out.size]).all())

    def _widen(self, inputs: list[_Array], rows: list[_Array], base: _Array | None) -> None:
        """Set ``rows`` to the values of the updates: a difference has the base added."""
        for number, row, values in zip(self._counted, rows, inputs, strict=True):
            np.copyto(row, values, casting="unsafe")
            if base is not None and number in self._differs:
                whole = self._scratch[0, : row.size]
                np.copyto(whole, base, casting="unsafe")
                add_shift(row, whole, self._mask[: row.size])
                np.copyto(row, whole)

    def _mean_of_integers(self, rows: list[_Array], out: _Array) -> None:
        if len(rows) == 1:
            np.copyto(out, rows[0])
            return
        work = self._scratch[:INTEGER_ARRAYS].view(np.uint64)[:, : out.size]
        self._integers.combine(rows, out, work)

    def _mean_of_floats(self, rows: list[_Array], out: _Array) -> None:
        arrays = self._scratch[:, : out.size]
        mean, spare = arrays[0], arrays[1]
        if self._kept > 1 and out.dtype == np.float64:
            # Sums of float64 elements have no spare digits: see ``compensated``.
            mean, spare = self._compensated.combine(rows, None, arrays[:ARRAYS]), arrays[ARRAYS]
        else:
            np.copyto(mean, rows[0])
            for row in rows[1:]:
                np.copyto(spare, row)
                np.add(mean, spare, out=mean)
            if self._kept > 1:
                np.divide(mean, self._kept, out=mean)
        if len(self._counted) > 1:
            np.add(mean, 0.0, out=mean)  # +0.0 of either zero
        round_into(mean, spare, self._mask[: out.size], out)


def _block_of(rows: int) -> int:
    return max(_LEAST_BLOCK, min(_MOST_BLOCK, _ROOM_BYTES // (8 * (rows + 2))))


def _sorted_as(dtype: np.dtype[Any], base: _Array | None) -> np.dtype[Any]:
    """Return the dtype in which elements of ``dtype`` are sorted, without a loss."""
    if base is not None:  # a sum of two has more digits
        return np.dtype(np.float64)
    # NumPy has fast minima of its own types only.
    is_plain = dtype.kind in "iub" or dtype.itemsize >= 4
    return dtype if is_plain else np.dtype(np.float32)


# --- sorting ----------------------------------------------------------------------------------


class _Comparison(NamedTuple):
    low: int
    high: int
    needs_low: bool
    needs_high: bool


def _sorted(
    rows: list[_Array], room: list[_Array], network: Sequence[_Comparison], *, are_ours: bool
) -> list[_Array]:
    """Return the rows sorted in every column, the smallest first.

    Only those rows are right that the network was made for.

    Args:
        rows: as the updates came.
        room: rows of scratch memory: one, or as many as ``rows`` and one.
        network: the comparisons.
        are_ours: whether the rows themselves may be overwritten.
    """
    rows, free = list(rows), list(room)
    is_ours = [are_ours] * len(rows)
    for low, high, needs_low, needs_high in network:
        one, other = rows[low], rows[high]
        if needs_low:
            rows[low] = np.minimum(one, other, out=free.pop())
        if needs_high:
            rows[high] = np.maximum(one, other, out=other if is_ours[high] else free.pop())
            is_ours[high] = True
        if needs_low:
            if is_ours[low]:
                free.append(one)
            is_ours[low] = True
    return rows


@cache
def _network(count: int, trimmed: int) -> tuple[_Comparison, ...]:
    """Return the comparisons that sort so many rows, without those of rows that nobody looks at.

    Looked at are the rows that are kept, and the first and the last, which show NaN and infinity:
    minima and maxima propagate NaN, and every row has a way to both.
    """
    needed = {0, count - 1, *range(trimmed, count - trimmed)}
    found: list[_Comparison] = []
    for low, high in reversed(list(_merges(count))):
        if low in needed or high in needed:
            found.append(_Comparison(low, high, low in needed, high in needed))
            needed |= {low, high}
    return tuple(reversed(found))


def _merges(count: int) -> Iterator[tuple[int, int]]:
    """Yield the comparisons of Batcher's odd-even merge sort, for any number of rows."""
    run = 1
    while run < count:
        step = run
        while step:
            for first in range(step % run, count - step, 2 * step):
                for low in range(first, min(first + step, count - step)):
                    if low // (2 * run) == (low + step) // (2 * run):
                        yield low, low + step
            step //= 2
        run *= 2
