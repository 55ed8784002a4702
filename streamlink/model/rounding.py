"""What rounding has changed in a model, measured while the model was read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["RoundingError", "RoundingMeter", "meter_of"]

_Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class RoundingError:
    """By how much the values that were sent differ from those that were to be sent."""

    formats: tuple[str, ...]
    """The lossy formats that tensors of the model were rounded to."""
    elements: int
    """How many finite elements were rounded (count)."""
    max_abs: float
    """The largest difference of one element (the model's unit)."""
    relative_rms: float
    """The L2 norm of all differences, as a share of that of the values; 0 where those are zero, or
    beyond the range of a float64."""

    def __str__(self) -> str:
        names = "+".join(self.formats)
        return f"{names} max_abs={self.max_abs:.3g} relative_rms={self.relative_rms:.3g}"


class RoundingMeter:
    """Adds up differences in float64, each element once, though a range may be read again."""

    def __init__(self, formats: Sequence[str]) -> None:
        self._formats = tuple(formats)
        self._position = 0
        self._elements, self._max_abs = 0, 0.0
        self._error_squares = self._value_squares = 0.0

    def add(self, position: int, values: _Array, rounded: _Array) -> None:
        """Compare elements before and after.

        Args:
            position: of their first byte in the model. Ranges come in order; what was measured
                already is left out.
            values: 1-D.
            rounded: the same number, of the same dtype.
        """
        itemsize = values.dtype.itemsize
        known = max(0, self._position - position) // itemsize
        if known >= values.size:
            return
        self._position = position + values.size * itemsize
        wide = values[known:].astype(np.float64)
        with np.errstate(all="ignore"):
            error = rounded[known:].astype(np.float64) - wide
        # One sum finds NaN and infinity, which are rare and have no difference.
        squares = _sum_of_squares(error)
        if not math.isfinite(squares):
            is_finite = np.isfinite(error)
            error, wide = error[is_finite], wide[is_finite]
            squares = _sum_of_squares(error)
        self._elements += error.size
        self._max_abs = max(
            self._max_abs, float(error.max(initial=0)), -float(error.min(initial=0))
        )
        self._error_squares += squares
        self._value_squares += _sum_of_squares(wide)

    @property
    def measured(self) -> RoundingError:
        """What was measured so far."""
        errors, values = self._error_squares, self._value_squares
        # Squares of very large F64 exceed the range of float64: then there is no share to tell.
        share = math.sqrt(errors / values) if values and math.isfinite(values) else 0.0
        return RoundingError(self._formats, self._elements, self._max_abs, share)


def _sum_of_squares(values: npt.NDArray[np.float64]) -> float:
    # Not ``np.dot``: BLAS has threads of its own, which wait for each other by spinning, so
    # several streams that measure at once take a hundred times as long.
    with np.errstate(all="ignore"):
        return float(np.square(values).sum())


def meter_of(source: object) -> RoundingMeter | None:
    """Return the ``meter`` of a source that rounds what it reads; None: it rounds nothing.

    It does not keep the source alive.
    """
    # By its type: a source of the user's may call something else its meter.
    meter = getattr(source, "meter", None)
    return meter if isinstance(meter, RoundingMeter) else None
