"""From float64 to the dtype of a model's elements: rounded once, half to even."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

__all__ = ["add_shift", "default_nans", "round_into"]

_Array = npt.NDArray[Any]
_Floats = npt.NDArray[np.float64]
_Mask = npt.NDArray[np.bool_]


def round_into(
    values: _Floats, spare: _Floats, mask: _Mask, out: _Array, *, is_known_finite: bool = False
) -> bool:
    """Set ``out`` to ``values``, rounded once to its dtype; a NaN becomes the dtype's default one.

    Args:
        values: overwritten.
        spare: scratch memory, as long.
        mask: the same.
        out: of a floating point dtype; may be ``values`` itself.
        is_known_finite: the caller knows that all values are: they need not be looked at.

    Returns:
        Whether all values are finite; of float32 also as they were rounded.
    """
    if out.dtype == np.float32 and not is_known_finite:
        return _round_to_float32(values, mask, out)
    is_finite = is_known_finite or bool(np.isfinite(values, out=mask).all())
    if not is_finite:
        np.isnan(values, out=mask)
    if (grid := _GRIDS.get(out.dtype)) is not None:
        _round_to_grid(values, spare, grid)
    np.copyto(out, values, casting="unsafe")
    if not is_finite:
        np.copyto(out, np.array(np.nan, out.dtype), where=mask)
    return is_finite


def _round_to_float32(values: _Floats, mask: _Mask, out: _Array) -> bool:
    # The most frequent dtype. Half of the bytes are looked at: those of the result.
    np.copyto(out, values, casting="unsafe")
    return default_nans(out, mask)


def default_nans(values: _Array, mask: _Mask) -> bool:
    """Make every NaN of ``values`` the default one; return whether all values are finite.

    Args:
        values: float32 or float64.
        mask: scratch memory, as long.
    """
    is_finite = bool(np.isfinite(values, out=mask).all())
    if not is_finite:
        np.copyto(values, np.nan, where=np.isnan(values, out=mask), casting="same_kind")
    return is_finite


def add_shift(shift: _Array, target: _Array, mask: _Mask) -> None:
    """Add ``shift``, which is overwritten, to ``target``; a shift of zero keeps a zero's sign."""
    np.equal(shift, 0.0, out=mask)
    # Adding -0.0 leaves every number as it is; adding 0.0 would make 0.0 of -0.0.
    np.copyto(shift, -0.0, where=mask)
    np.add(target, shift, out=target)


class _Grid(NamedTuple):
    digits: int  # of the significand, with the leading one
    smallest_exponent: int  # of the normal numbers; those below share its spacing


# ml_dtypes converts float64 by way of float32 and so rounds twice; NumPy's own float16 does not.
_GRIDS: dict[np.dtype[Any], _Grid] = {
    np.dtype(ml_dtypes.bfloat16): _Grid(8, -126),
    np.dtype(ml_dtypes.float8_e4m3fn): _Grid(4, -6),
    np.dtype(ml_dtypes.float8_e5m2): _Grid(3, -14),
}


def _round_to_grid(values: _Floats, spare: _Floats, grid: _Grid) -> None:
    """Round ``values`` in place, half to even, to what ``grid`` can hold, so that casting is exact.

    Adding 1.5 * 2^52 times the spacing wanted leaves no room for finer bits: the addition itself
    rounds them away, correctly. Subtracting it again is exact.
    """
    exponents = np.uint64(0x7FF << 52)
    np.bitwise_and(values.view(np.uint64), exponents, out=spare.view(np.uint64))
    # The power of two at or below each value: not under the smallest, and finite for infinities.
    np.clip(spare, 2.0**grid.smallest_exponent, 2.0**512, out=spare)
    np.multiply(spare, 1.5 * 2.0 ** (53 - grid.digits), out=spare)
    np.copysign(spare, values, out=spare)
    np.add(values, spare, out=values)
    np.subtract(values, spare, out=values)
    np.copysign(values, spare, out=values)  # what became zero keeps its sign
