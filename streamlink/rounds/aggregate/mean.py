"""The weighted mean of the updates, range by range: the aggregator of today.

It gets the same elements of every contributor, always in the same order, and returns the elements
of the new model. Its result is the same bits however a tensor is cut into calls. Exact means of
integers are in ``integers``, those of float64 in ``compensated``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink.errors import ModelError
from streamlink.link import UpdateKind
from streamlink.rounds.aggregate.compensated import ARRAYS, CompensatedMean
from streamlink.rounds.aggregate.integers import ARRAYS as INTEGER_ARRAYS
from streamlink.rounds.aggregate.integers import IntegerMean
from streamlink.rounds.aggregate.rounding import add_shift, round_into
from streamlink.rounds.aggregate.validate import (
    WEIGHTS_ALLOWED,
    check_arrays,
    is_weight,
    known_dtype,
)

__all__ = ["WeightedMean", "weighted_metrics"]

_Array = npt.NDArray[Any]
_Floats = npt.NDArray[np.float64]

# Two blocks of float64 take 512 KiB, so that they and the inputs' stretch stay in a 1 MiB L2 cache.
_FLOAT_BLOCK = 32 * 1024
_INTEGER_BLOCK = _FLOAT_BLOCK // 2  # four arrays in the room of two


class WeightedMean:
    """``sum(weight * values) / sum(weight)``, element by element, in the weights' fixed order.

    *A contributor of weight 0* contributes nothing, NaN and infinity included.

    *Floating point and complex* elements narrower than float64 are accumulated in float64 (a
    complex number as its two parts) and rounded once to the result's dtype, half to even. With n
    contributors the result differs from the exact mean by half a unit in the last place (ulp) of
    its dtype, and at most ``(2n + 1) * 2^-53 * sum(weight * |values|) / sum(weight)`` beside that.
    NaN and infinity propagate as IEEE 754 says. Every NaN comes out as the default NaN, because
    which of two NaNs an addition keeps depends on the processor.

    *Float64* elements are accumulated in twice that precision (see ``compensated``): the result
    differs from the exact mean by at most 3/4 ulp and ``n^2 * 2^-104 * sum(weight * |values|) /
    sum(weight)``. So cancellation costs nothing before 2^50 or so, and no sum overflows on the way.

    *Integers* of every width are averaged exactly, as fractions, and rounded half to even: nothing
    is lost beyond 2^53. *Booleans*: true where the true ones have at least half of the weight.

    *Differences*: as soon as one contributor sends them, floating point and complex elements become
    ``base + sum(weight * difference) / sum(weight)``, where the difference of a contributor that
    sends values is ``value - base``, in the same precision and rounded once; in the bounds above
    ``|base|`` is added to each ``|values|``, and n is 2 more (narrower than float64: 6 more). Where
    the sum is zero the result is the base, bit for bit (but NaN, as above). Integers and booleans
    are always values.

    Not thread-safe: the scratch memory is part of the object. Each thread has one of its own.

    Args:
        weights: one per contributor, each 0 or between 1e-100 and 1e100, not all zero.
        kinds: what each contributor sends; empty: all send values.

    Raises:
        ModelError: the weights are not of this kind, or there are not as many kinds.
    """

    def __init__(self, weights: Sequence[float], kinds: Sequence[UpdateKind] = ()) -> None:
        self._weights = tuple(float(weight) for weight in weights)
        _check_weights(self._weights)
        if kinds and len(kinds) != len(self._weights):
            raise ModelError(f"{len(kinds)} kinds of update for {len(self._weights)} weights")
        # Not "times 0": that would be NaN where the element is infinite.
        self._counted = [number for number, weight in enumerate(self._weights) if weight]
        shares = [self._weights[number] for number in self._counted]
        differs = [bool(kinds) and kinds[n] == UpdateKind.DIFFERENCES for n in self._counted]
        self._terms = list(zip(self._counted, shares, differs, strict=True))
        self._has_differences = any(differs)
        # Added up as the elements will be, so that equal elements keep their value wherever no step
        # rounds; sum() would not do: it compensates for rounding since Python 3.12.
        self._total = reduce(add, shares)
        # Times 1/total rounds twice, except for a power of two, such as 2 or 8 equal weights: there
        # it is the same bits as a division, for two thirds of the time.
        self._reciprocal = 1.0 / self._total if math.frexp(self._total)[0] == 0.5 else 1.0
        # Such products and their sums are exact for equal elements of 24 bits, so that the mean of
        # these is that element itself, and its shift is 0.
        self._keeps_equals = all(share.is_integer() for share in shares) and self._total <= 2.0**29
        self._compensated = CompensatedMean(shares, differs)
        self._integers = IntegerMean(self._weights)
        self._scratch = np.empty((2, _FLOAT_BLOCK), np.float64)
        self._mask = np.empty(_FLOAT_BLOCK, np.bool_)

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights, in the order of the contributors."""
        return self._weights

    @property
    def scratch_bytes(self) -> int:
        """Memory held from construction on (bytes); it depends on nothing, and no call adds to it.

        Exceptions: integers with weights whose ratios need more than 62 bits, such as 1e-9 to 1e9
        in full precision, go through Python's own integers, 1,024 elements at a time; float64
        elements below 2^-850 or above 2^995 take as much once more, and a copy for each input.
        """
        return self._scratch.nbytes + self._mask.nbytes

    def needs_base(self, dtype: str | np.dtype[Any]) -> bool:
        """Return whether ``combine`` needs the base's elements of this dtype."""
        return self._has_differences and known_dtype(dtype).kind not in "iub"

    def combine(
        self,
        dtype: str | np.dtype[Any],
        inputs: Sequence[_Array],
        out: _Array,
        base: _Array | None = None,
        state: Sequence[_Array] = (),
    ) -> bool:
        """Set ``out`` to the weighted mean of ``inputs``.

        Args:
            dtype: the elements' type, by safetensors' name (``"F32"``) or as NumPy's dtype.
            inputs: one contiguous 1-D array per weight, in order; may be read-only and unaligned.
            out: the same, writable; may be one of the inputs, but not overlap one partly.
            base: the old model's elements, as the inputs; only where ``needs_base`` says so.
            state: ignored, since a mean has none.

        Returns:
            Whether every element of the mean is finite. Then all inputs that count are finite, too.
            If not, an input is not, or the base is not, or base plus difference overflowed.

        Raises:
            ModelError: the arrays do not fit the weights, each other, or ``dtype``.
            UnsupportedDtype: ``dtype`` is none that a model may have.
        """
        elements = known_dtype(dtype)
        if not self.needs_base(elements):
            base = None
        elif base is None:
            raise ModelError(f"differences of dtype {elements} need the base they are from")
        check_arrays(len(self._weights), elements, inputs, out, base)
        with np.errstate(all="ignore"):
            if elements.kind in "iub":
                self._mean_of_integers(inputs, out)
                return True
            if elements == np.float64:
                return self._compensated_mean(inputs, out, base)
            if elements.kind == "c":
                part = np.dtype(np.float32)
                inputs, out = [values.view(part) for values in inputs], out.view(part)
                base = None if base is None else base.view(part)
            return self._mean_of_floats(inputs, out, base)

    # --- floating point -----------------------------------------------------

    def _mean_of_floats(self, inputs: Sequence[_Array], out: _Array, base: _Array | None) -> bool:
        if base is not None:
            return self._shift_base(inputs, out, base)
        is_finite = True
        for block in _blocks(out.size, _FLOAT_BLOCK):
            size = block.stop - block.start
            mean, term = self._scratch[0, :size], self._scratch[1, :size]
            mask = self._mask[:size]
            self._mean_into([values[block] for values in inputs], mean, term)
            is_finite &= round_into(mean, term, mask, out[block])
        return is_finite

    def _shift_base(self, inputs: Sequence[_Array], out: _Array, base: _Array) -> bool:
        arrays = self._scratch.reshape(4, _INTEGER_BLOCK)
        is_finite = True
        for block in _blocks(out.size, _INTEGER_BLOCK):
            before, shift, term = (array[: block.stop - block.start] for array in arrays[:3])
            mask = self._mask[: block.stop - block.start]
            np.copyto(before, base[block], casting="unsafe")
            self.shift([values[block] for values in inputs], before, shift, term)
            add_shift(shift, before, mask)
            is_finite &= round_into(before, term, mask, out[block])
        return is_finite

    def shift(self, inputs: Sequence[_Array], base: _Floats, shift: _Floats, term: _Floats) -> None:
        """Set ``shift`` to how far the mean is from ``base``, in float64 and without rounding.

        Args:
            inputs: of floating point, narrower than float64, one for each weight.
            base: as long.
            shift: as long.
            term: scratch memory, as long.
        """
        if self._keeps_equals and not self._has_differences:
            self._mean_into(inputs, shift, term)
            np.subtract(shift, base, out=shift)  # once, and not for each update
            return
        product = shift
        for number, weight, is_difference in self._terms:
            np.copyto(product, inputs[number], casting="unsafe")
            if not is_difference:
                np.subtract(product, base, out=product)
            if weight != 1.0:
                np.multiply(product, weight, out=product)
            if product is term:
                np.add(shift, term, out=shift)
            product = term
        self._divide(shift)

    def _mean_into(self, inputs: Sequence[_Array], mean: _Floats, term: _Floats) -> None:
        product = mean
        for number, weight, _ in self._terms:
            # Widening first and working in place is faster than ufuncs that cast as they go.
            np.copyto(product, inputs[number], casting="unsafe")
            if weight != 1.0:  # a product with 1 is the same bits, for a quarter of the time
                np.multiply(product, weight, out=product)
            if product is term:
                np.add(mean, term, out=mean)
            product = term
        self._divide(mean)

    def _divide(self, total: _Floats) -> None:
        """Divide the sum of all products by that of the weights."""
        if self._reciprocal != 1.0:
            np.multiply(total, self._reciprocal, out=total)
        elif self._total != 1.0:
            np.divide(total, self._total, out=total)

    def _compensated_mean(self, inputs: Sequence[_Array], out: _Array, base: _Array | None) -> bool:
        room = self._scratch.reshape(-1)
        longest = room.size // ARRAYS
        is_finite = True
        for block in _blocks(out.size, longest):
            size = block.stop - block.start
            arrays = room[: ARRAYS * size].reshape(ARRAYS, size)
            mean = self._compensated.combine(
                [inputs[number][block] for number in self._counted],
                None if base is None else base[block],
                arrays,
            )
            is_finite &= round_into(mean, arrays[0], self._mask[:size], out[block])
        return is_finite

    # --- integers -----------------------------------------------------------

    def _mean_of_integers(self, inputs: Sequence[_Array], out: _Array) -> None:
        arrays = self._scratch.view(np.uint64).reshape(INTEGER_ARRAYS, _INTEGER_BLOCK)
        for block in _blocks(out.size, _INTEGER_BLOCK):
            work = arrays[:, : block.stop - block.start]
            self._integers.combine([values[block] for values in inputs], out[block], work)


def weighted_metrics(reports: Sequence[tuple[float, Mapping[str, float]]]) -> dict[str, float]:
    """Return the weighted mean of each metric over those who reported it, rounded once."""
    sums: dict[str, tuple[Fraction, Fraction]] = {}
    for weight, metrics in reports:
        share = Fraction(weight)
        for name, value in metrics.items():
            total, weights = sums.get(name, (Fraction(0), Fraction(0)))
            sums[name] = total + share * Fraction(value), weights + share
    return {name: float(total / weights) for name, (total, weights) in sums.items() if weights}


def _blocks(count: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def _check_weights(weights: tuple[float, ...]) -> None:
    for number, weight in enumerate(weights):
        if not is_weight(weight):
            raise ModelError(f"weight {number} is {weight}; {WEIGHTS_ALLOWED}")
    if not any(weights):
        raise ModelError(f"the {len(weights)} weights sum to 0; at least one must be above 0")
