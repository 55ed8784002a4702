"""Weighted means of float64 elements, summed in twice the precision that float64 has.

Sums of F32 and narrower elements have the spare precision of float64; sums of F64 elements have
none, so a plain sum loses digits by cancellation. Here each product and each addition keeps what
its rounding dropped: ``TwoProduct`` (Dekker 1971, with Veltkamp's splitting) and ``TwoSum``
(Knuth), joined as the algorithm *Dot2* of Ogita, Rump and Oishi, "Accurate Sum and Dot Product",
SIAM J. Sci. Comput. 26 (2005). ``numpy.longdouble`` is no alternative: it is wider than float64 on
some machines only.

Every step is a NumPy operation on elements, without branches that depend on their neighbours, so
the result is the same bits however a tensor is cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["ARRAYS", "CompensatedMean"]

_Floats = npt.NDArray[np.float64]

ARRAYS = 9
"""Scratch arrays of a block that ``CompensatedMean.combine`` needs (count)."""

_SPLITTER = 2.0**27 + 1
# The rounding errors of products below these may be too small for float64; what is above 2^996
# cannot be split. Both are rare, and computed again with all values times a power of two.
_SMALL, _UNSAFE = 2.0**-850, 2.0**-840
_ENLARGED, _REDUCED = 2.0**600, 2.0**-100


class _Factor(NamedTuple):
    """What elements are multiplied by, and its two halves of 26 bits."""

    whole: float
    upper: float
    lower: float


_Columns = Callable[[], Iterable[tuple[_Factor, _Floats]]]


class _Work(NamedTuple):
    high: _Floats
    low: _Floats
    plain: _Floats
    product: _Floats
    error: _Floats
    first: _Floats
    second: _Floats
    third: _Floats
    result: _Floats


class CompensatedMean:
    """``(sum(weight * values) + given_up * base) / sum(weight)``, for float64 elements.

    ``given_up`` is the weight of those who send differences. That is ``base + sum(weight *
    difference) / sum(weight)``, where the difference of one that sends values is ``value - base``.

    Args:
        weights: positive, none more than 2^665 times another.
        is_difference: of each, whether it sends differences.
        is_shift: leave out the ``base`` of that sum: compute how far the mean is from it.
    """

    def __init__(
        self, weights: Sequence[float], is_difference: Sequence[bool], *, is_shift: bool = False
    ) -> None:
        exact = [Fraction(weight) for weight in weights]
        # A power of two that keeps every sum below half of the largest value: none overflows.
        scale = Fraction(2) ** (-3 - math.frexp(float(sum(exact)))[1])
        self._factors = [_factor(float(weight * scale)) for weight in exact]
        self._total, self._total_rest = _pair(scale * sum(exact))
        pairs = zip(exact, is_difference, strict=True)
        given_up = sum(weight for weight, differs in pairs if differs)
        of_base = _pair(scale * (given_up - sum(exact) if is_shift else given_up))
        self._base_factors = [_factor(number) for number in of_base if number]
        self._keeps_zeros = not is_shift

    def combine(self, inputs: Sequence[_Floats], base: _Floats | None, scratch: _Floats) -> _Floats:
        """Return the mean of ``inputs``, in one of the arrays of ``scratch``.

        Args:
            inputs: one array for each weight.
            base: the old model's elements; only for a shift, and where somebody sends differences.
            scratch: ``ARRAYS`` arrays, each as long as an input.
        """

        def columns() -> Iterator[tuple[_Factor, _Floats]]:
            yield from zip(self._factors, inputs, strict=True)
            if base is not None:
                yield from ((factor, base) for factor in self._base_factors)

        work = _Work(*scratch)
        self._solve(columns, work)
        if base is not None and self._keeps_zeros:
            # A base of zero that nothing is added to keeps its sign.
            np.copyto(work.result, base, where=(work.result == 0.0) & (base == 0.0))
        return work.result

    def _solve(self, columns: _Columns, work: _Work) -> None:
        _dot(columns(), work)
        np.copyto(work.plain, work.high)
        is_zero = (work.high == 0.0) & (work.low == 0.0)
        self._divide(work)
        is_finite = np.isfinite(work.plain)
        large = np.flatnonzero(np.isnan(work.result) & is_finite)
        # IEEE 754 decides what becomes of infinities and of zeros' signs: not the corrections.
        np.copyto(work.result, work.plain, where=is_zero | ~is_finite)
        small = np.flatnonzero(np.abs(work.plain, out=work.first) < _SMALL)
        if large.size:
            self._solve_again(columns, large, _REDUCED, work.result)
        if small.size and (small := _unsafe(columns(), small)).size:
            self._solve_again(columns, small, _ENLARGED, work.result)

    def _solve_again(
        self, columns: _Columns, chosen: npt.NDArray[np.intp], scale: float, result: _Floats
    ) -> None:
        work = _Work(*np.empty((ARRAYS, chosen.size)))
        _dot(((factor, values[chosen] * scale) for factor, values in columns()), work)
        self._divide(work)
        result[chosen] = work.result / scale

    def _divide(self, work: _Work) -> None:
        """Set ``work.result`` to ``(high + low) / total``: a quotient, and that of what it left."""
        high, low, result = work.high, work.low, work.result
        _two_sum(high, low, work)
        np.divide(high, self._total, out=result)
        is_exact = _two_product(_factor(self._total), result, work)
        np.subtract(high, work.product, out=high)
        if not is_exact:
            np.subtract(high, work.error, out=high)
        np.add(high, low, out=high)
        np.multiply(result, self._total_rest, out=low)
        np.subtract(high, low, out=high)
        np.divide(high, self._total, out=high)
        np.add(result, high, out=result)


def _factor(number: float) -> _Factor:
    # Veltkamp's splitting: products of two halves of 26 bits are exact in float64's 53.
    spread = _SPLITTER * number
    upper = spread - (spread - number)
    return _Factor(number, upper, number - upper)


def _pair(number: Fraction | int) -> tuple[float, float]:
    """Return two floats whose sum is ``number``, or as near as two can be."""
    high = float(number)
    return high, float(number - Fraction(high))


def _dot(columns: Iterable[tuple[_Factor, _Floats]], work: _Work) -> None:
    """Leave the sum of all products in ``work.high``, and in ``work.low`` what roundings lost."""
    for number, (factor, values) in enumerate(columns):
        is_exact = _two_product(factor, values, work)
        if number:
            _two_sum(work.high, work.product, work)
            np.add(work.low, work.product, out=work.low)
            if not is_exact:
                np.add(work.low, work.error, out=work.low)
        else:
            if is_exact:
                work.error.fill(0.0)
            np.copyto(work.high, work.product)
            np.copyto(work.low, work.error)


def _two_sum(one: _Floats, other: _Floats, work: _Work) -> None:
    """Replace ``one`` by the sum, and ``other`` by what the sum's rounding lost; together exact."""
    # Knuth's form. Dekker's takes half the operations, but needs the larger one first: a branch for
    # each element.
    total, part = work.first, work.second
    np.add(one, other, out=total)
    np.subtract(total, one, out=part)
    np.subtract(other, part, out=other)
    np.subtract(total, part, out=part)
    np.subtract(one, part, out=part)
    np.add(other, part, out=other)
    np.copyto(one, total)


def _two_product(factor: _Factor, values: _Floats, work: _Work) -> bool:
    """Set ``work.product``, and ``work.error`` to what its rounding lost; together exact.

    Returns:
        Whether nothing was lost, since the factor is a power of two; then the error is not set.
    """
    product, error = work.product, work.error
    np.multiply(values, factor.whole, out=product)
    if math.frexp(factor.whole)[0] == 0.5:
        return True
    # Dekker's form: NumPy has no fused multiply-add, which would give the error in one step.
    upper, lower, term = work.first, work.second, work.third
    np.multiply(values, _SPLITTER, out=upper)
    np.subtract(upper, values, out=lower)
    np.subtract(upper, lower, out=upper)
    np.subtract(values, upper, out=lower)
    np.multiply(upper, factor.upper, out=error)
    np.subtract(error, product, out=error)
    for half, by in ((upper, factor.lower), (lower, factor.upper), (lower, factor.lower)):
        np.multiply(half, by, out=term)
        np.add(error, term, out=error)
    return False


def _unsafe(
    columns: Iterable[tuple[_Factor, _Floats]], chosen: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp]:
    """Return those of ``chosen`` whose products are all tiny, and not all of zero."""
    largest, is_set = np.zeros(chosen.size), np.zeros(chosen.size, np.bool_)
    for factor, values in columns:
        magnitude = np.abs(values[chosen])
        is_set |= magnitude > 0.0
        np.maximum(largest, magnitude * factor.whole, out=largest)
    return chosen[is_set & (largest < _UNSAFE)]
