"""The formats of two bytes: IEEE 754's binary16 (``fp16``) and bfloat16 (``bf16``).

Each element is rounded by itself to the nearest value, half to even (IEEE 754-2019, 4.3.1), so the
error is at most half a unit in the last place: ``|x| / 2**11`` of fp16 and ``|x| / 2**8`` of bf16,
and below the smallest normal number half of the smallest subnormal one.

NaN and infinity stay what they are, and every NaN becomes the default one, since processors differ
in the payload that a conversion keeps. A finite number that would become infinity (from 65,520 on
in fp16) stays as it is: infinity would destroy the model, and to saturate would exceed any bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import numpy.typing as npt

from streamlink.encodings.packed import Array, Packed, same_bits

__all__ = ["Bf16", "Fp16"]


class _Half(Packed):
    dtypes = frozenset({"F32", "F64"})

    _narrow: ClassVar[np.dtype[Any]]
    _relative: ClassVar[float]
    """Most relative error of a normal number."""
    _least: ClassVar[float]
    """Most error of a number below those."""

    def rounded(self, values: Array) -> Array:
        """See ``Packed``."""
        with np.errstate(all="ignore"):
            result = self._narrowed(values).astype(values.dtype)
        if not np.isfinite(result).all():
            overflows = np.isinf(result) & np.isfinite(values)
            np.copyto(result, values, where=overflows)
        return result

    def bound(self, values: Array) -> npt.NDArray[np.float64]:
        """See ``Packed``."""
        with np.errstate(all="ignore"):  # a NaN may signal
            wide = np.abs(values.astype(np.float64))
            most = np.maximum(wide * self._relative, self._least)
            return np.where(np.isfinite(self._narrowed(values).astype(np.float64)), most, 0.0)

    def _pack(self, values: Array) -> Sequence[Array] | None:
        with np.errstate(all="ignore"):
            narrow = self._narrowed(values)
            return (narrow,) if same_bits(values, narrow.astype(values.dtype)) else None

    def _packed_bytes(self, count: int, dtype: np.dtype[Any]) -> int:
        return count * self._narrow.itemsize

    def _unpack(self, packed: memoryview, count: int, dtype: np.dtype[Any]) -> Array:
        with np.errstate(all="ignore"):  # a peer may send a signaling NaN
            return np.frombuffer(packed, self._narrow).astype(dtype)

    def _narrowed(self, values: Array) -> Array:
        with np.errstate(all="ignore"):
            narrow = values.astype(self._narrow)
        is_nan = np.isnan(values)
        if is_nan.any():
            np.copyto(narrow, np.array(np.nan, self._narrow), where=is_nan)
        return narrow


class Fp16(_Half):
    """Two bytes for each element of F32 and F64: 11 significant bits, up to 65,504."""

    name: ClassVar[str] = "fp16"
    _narrow = np.dtype("<f2")
    _relative, _least = 2.0**-11, 2.0**-25


class Bf16(_Half):
    """Two bytes for each element of F32 and F64: 8 significant bits, the range of F32."""

    name: ClassVar[str] = "bf16"
    _narrow = np.dtype(ml_dtypes.bfloat16)
    # An F64 is rounded twice, over F32: a little more than half a unit.
    _relative, _least = 2.0**-8 * (1 + 2.0**-15), 2.0**-134 * (1 + 2.0**-15)
