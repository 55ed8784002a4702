"""Exact weighted means of integers and booleans, as fractions that are rounded once.

Long division in digits of a few bits, so that NumPy's 64 bits hold every intermediate sum and
nothing is lost beyond 2^53, where a sum in float64 would round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["ARRAYS", "IntegerMean"]

_Array = npt.NDArray[Any]
_Counts = npt.NDArray[np.uint64]

ARRAYS = 4
"""Scratch arrays of a block that ``IntegerMean.combine`` needs (count)."""

_PYTHON_BLOCK = 1024  # elements that become Python's own integers at a time


class IntegerMean:
    """``sum(weight * values) / sum(weight)`` of integers, rounded half to even.

    Booleans: true where the true ones have at least half of the weight.

    Args:
        weights: one per contributor, not all zero.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        self._ratio = _whole_numbers(weights)

    def combine(self, inputs: Sequence[_Array], out: _Array, scratch: _Counts) -> None:
        """Set ``out`` to the mean of ``inputs``.

        Args:
            inputs: one 1-D array per weight, all of one integer dtype, or of booleans.
            out: as long, of the same dtype.
            scratch: ``ARRAYS`` arrays as long as ``out``.
        """
        total = sum(self._ratio)
        # Up to there a digit has one bit at least; see ``_divide_in_digits``.
        if total.bit_length() > 62:
            _mean_in_python(self._ratio, inputs, out)
            return
        work = _Work(*scratch)
        _divide_in_digits(self._ratio, inputs, work)
        _round_up(work, total, ties_up=out.dtype.kind == "b")
        _store_integers(work.quotient, out)


def _whole_numbers(weights: Sequence[float]) -> tuple[int, ...]:
    """Return the smallest whole numbers in exactly the ratio of the weights."""
    ratios = [weight.as_integer_ratio() for weight in weights]
    scale = max(denominator for _, denominator in ratios)  # powers of two: the largest is the lcm
    whole = [numerator * (scale // denominator) for numerator, denominator in ratios]
    divisor = math.gcd(*whole)
    return tuple(number // divisor for number in whole)


class _Work(NamedTuple):
    quotient: _Counts
    rest: _Counts
    digit: _Counts
    term: _Counts


def _divide_in_digits(ratio: Sequence[int], inputs: Sequence[_Array], work: _Work) -> None:
    """Leave the weighted mean's whole part in ``work.quotient``, what remains in ``work.rest``.

    Long division, as by hand: the inputs are read in digits of so few bits that a weighted sum of
    digits, with the rest carried down before it, stays within 64 bits. Signed numbers are counted
    from the smallest of their type, which shifts the mean by the same amount.
    """
    total = sum(ratio)
    # The shifted rest and the weighted digits are each below ``total << digit_bits``, so below
    # 2^63, and their sum is below 2^64.
    digit_bits = 63 - total.bit_length()
    width = 1 if inputs[0].dtype.kind == "b" else 8 * inputs[0].dtype.itemsize
    work.quotient.fill(0)
    work.rest.fill(0)
    for low in reversed(range(0, width, digit_bits)):
        bits = min(digit_bits, width - low)
        _weigh_digits(ratio, inputs, work, low, bits)
        np.left_shift(work.rest, bits, out=work.rest)
        np.add(work.rest, work.digit, out=work.rest)
        np.floor_divide(work.rest, total, out=work.term)
        np.left_shift(work.quotient, bits, out=work.quotient)
        np.add(work.quotient, work.term, out=work.quotient)
        np.multiply(work.term, total, out=work.term)
        np.subtract(work.rest, work.term, out=work.rest)


def _weigh_digits(
    ratio: Sequence[int], inputs: Sequence[_Array], work: _Work, low: int, bits: int
) -> None:
    """Set ``work.digit`` to the weighted sum of the inputs' bits ``[low, low + bits)``."""
    work.digit.fill(0)
    for weight, values in zip(ratio, inputs, strict=True):
        signed = values.dtype.kind == "i"
        # By way of int64, a signed number keeps its sign in 64 bits. Then adding the lowest of its
        # type, modulo 2^64, makes it a count from there.
        np.copyto(work.term.view(np.int64) if signed else work.term, values)
        np.add(work.term, _lowest(values.dtype), out=work.term)
        np.right_shift(work.term, low, out=work.term)
        np.bitwise_and(work.term, (1 << bits) - 1, out=work.term)
        np.multiply(work.term, weight, out=work.term)
        np.add(work.digit, work.term, out=work.digit)


def _round_up(work: _Work, total: int, *, ties_up: bool) -> None:
    """Add one to the quotient where the rest is above half of ``total``, or a tie that goes up."""
    # Twice the rest is compared with ``total``, since half of an odd total is no integer.
    np.left_shift(work.rest, 1, out=work.rest)
    if ties_up:
        np.add(work.rest, 1, out=work.rest)
    else:  # a tie goes up from an odd quotient
        np.bitwise_and(work.quotient, 1, out=work.term)
        np.add(work.rest, work.term, out=work.rest)
    np.greater(work.rest, total, out=work.term, casting="unsafe")
    np.add(work.quotient, work.term, out=work.quotient)


def _store_integers(quotient: _Counts, out: _Array) -> None:
    np.subtract(quotient, _lowest(out.dtype), out=quotient)
    np.copyto(out, quotient.view(np.int64) if out.dtype.kind == "i" else quotient, casting="unsafe")


def _lowest(dtype: np.dtype[Any]) -> int:
    """How far below zero a type begins; even, so that it does not change which way ties go."""
    return 1 << (8 * dtype.itemsize - 1) if dtype.kind == "i" else 0


def _mean_in_python(ratio: Sequence[int], inputs: Sequence[_Array], out: _Array) -> None:
    """Do the same for weights whose ratios do not fit 62 bits: rare, exact, and slow."""
    total, is_bool = sum(ratio), out.dtype.kind == "b"
    for start in range(0, out.size, _PYTHON_BLOCK):
        block = slice(start, start + _PYTHON_BLOCK)
        columns = zip(*(values[block].tolist() for values in inputs), strict=True)
        for index, column in enumerate(columns, start):
            weighed = sum(weight * int(value) for weight, value in zip(ratio, column, strict=True))
            quotient, rest = divmod(weighed, total)
            out[index] = quotient + (2 * rest + (is_bool or quotient & 1) > total)
