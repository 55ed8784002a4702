"""One byte for each element, and a scale for each block of 256: ``int8``.

Within a block an element ``x`` becomes ``q * s`` with ``q = round(x / s)``, half to even, and the
scale ``s = max|x| / 127``. This is block-wise quantization (Dettmers, Lewis, Shleifer and
Zettlemoyer, "8-bit Optimizers via Block-wise Quantization", ICLR 2022), with linear steps: one
outlier costs the precision of its own block only.

The scale is rounded up to so few significant bits that ``q * s`` is exact in the tensor's dtype: 16
in F32 and F64; in F16 and BF16, which have 11 and 8 in all, to a power of two. So what was rounded
has its scale in it: it is found again from the values, and to round a second time changes nothing.

* Error: at most ``s / 2``, and ``2**-16 * s`` for the division in F32. That is ``max|x| / 254`` of
  the block (F32, F64), and at most ``max|x| / 127`` (F16, BF16).
* A scale is never below the least that has its bits: 2**-134 in F32. Smaller numbers become zero.
* A block with NaN or infinity stays as it is, and so does one whose largest number rounds beyond
  the range of its dtype. Negative zero becomes zero.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import numpy.typing as npt

from streamlink.encodings.packed import Array, Packed, same_bits
from streamlink.model.spec import BLOCK_ELEMENTS

__all__ = ["Int8"]

_STEPS = 127
_WIDE = np.dtype(np.float32)


class Int8(Packed):
    """One byte for each element, and the block's scale in the tensor's dtype."""

    name: ClassVar[str] = "int8"
    dtypes = frozenset({"F32", "F64", "F16", "BF16"})
    block = BLOCK_ELEMENTS

    def rounded(self, values: Array) -> Array:
        """See ``Packed``."""
        blocks = _blocks(values)
        scales, fits = _scales(blocks, values.dtype)
        with np.errstate(all="ignore"):
            result = _products(_codes(blocks, scales), scales)
            if not fits.all():
                np.copyto(result, blocks, where=~fits[:, None])
            # A NaN that signals makes this cast tell, too.
            return result.reshape(-1)[: values.size].astype(values.dtype, copy=False)

    def bound(self, values: Array) -> npt.NDArray[np.float64]:
        """See ``Packed``."""
        scales, fits = _scales(_blocks(values), values.dtype)
        most = np.where(fits, scales.astype(np.float64) * (0.5 + 2.0**-16), 0.0)
        return np.repeat(most, BLOCK_ELEMENTS)[: values.size]

    def _pack(self, values: Array) -> Sequence[Array] | None:
        blocks = _blocks(values)
        scales, fits = _scales(blocks, values.dtype)
        if not fits.all():
            return None
        codes = _codes(blocks, scales)
        packed = codes.astype(np.int8).reshape(-1)[: values.size]
        back = _products(codes, scales).reshape(-1)[: values.size]
        if not same_bits(values, back.astype(values.dtype, copy=False)):
            return None
        return scales.astype(values.dtype), packed

    def _packed_bytes(self, count: int, dtype: np.dtype[Any]) -> int:
        return -(-count // BLOCK_ELEMENTS) * dtype.itemsize + count

    def _unpack(self, packed: memoryview, count: int, dtype: np.dtype[Any]) -> Array:
        split = packed.nbytes - count
        scales = np.frombuffer(packed[:split], dtype).astype(_wide(dtype))
        codes = _blocks(np.frombuffer(packed[split:], np.int8).astype(scales.dtype))
        with np.errstate(all="ignore"):  # a peer may send any scale
            return _products(codes, scales).reshape(-1)[:count].astype(dtype)


def _blocks(values: Array) -> Array:
    """Return whole blocks, one a row, in a dtype that computes; a short one is filled with 0."""
    wide = values.astype(_wide(values.dtype), copy=False)
    if missing := -wide.size % BLOCK_ELEMENTS:
        wide = np.concatenate([wide, np.zeros(missing, wide.dtype)])
    return wide.reshape(-1, BLOCK_ELEMENTS)


def _scales(blocks: Array, dtype: np.dtype[Any]) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return the scale of each block, and whether the block can be rounded with it."""
    bits, least, most = _limits(dtype)
    with np.errstate(all="ignore"):
        largest = np.maximum(blocks.max(axis=1), -blocks.min(axis=1)).astype(np.float64)
        fraction, exponent = np.frexp(largest / _STEPS)
        scales = np.ldexp(np.ceil(np.ldexp(fraction, bits)), exponent - bits)
        scales = np.maximum(scales, least)
        # False for NaN, too.
        fits = np.rint(largest / scales) * scales <= most
    return np.where(fits, scales, 1.0).astype(blocks.dtype), fits


@functools.cache
def _limits(dtype: np.dtype[Any]) -> tuple[int, float, float]:
    """Return the bits of a scale, the least scale that has them, and the largest number."""
    limits: Any = ml_dtypes.finfo
    found = limits(dtype)
    bits = 16 if dtype.itemsize >= _WIDE.itemsize else 1
    return bits, math.ldexp(float(found.smallest_subnormal), bits - 1), float(found.max)


def _codes(blocks: Array, scales: Array) -> Array:
    """Return whole numbers from -127 to 127, in the dtype of the blocks."""
    codes: Array = blocks / scales[:, None]
    return np.rint(codes, out=codes)


def _products(codes: Array, scales: Array) -> Array:
    """Return codes times scales, in the memory of the codes."""
    codes *= scales[:, None]
    codes += 0.0  # a code of -0.0 would give a negative zero, which int8 does not have
    return codes


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.itemsize >= _WIDE.itemsize and dtype.kind == "f" else _WIDE
