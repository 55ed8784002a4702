"""The values that the receiver must have after each lossy encoding, computed without streamlink.

Each function follows the rule that ``streamlink.encodings`` documents, in plain NumPy, for F32;
``int8`` applies to BF16, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ROUNDED", "to_bf16", "to_fp16", "to_int8"]

Values = npt.NDArray[np.float32]

_BLOCK, _STEPS, _SCALE_BITS = 256, 127, 16


def to_bf16(values: Values) -> Values:
    """Round to the nearest bfloat16, ties to even, as ``bf16`` does."""
    bits = values.view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    kept = (bits + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000)
    return kept.view(np.float32)


def to_fp16(values: Values) -> Values:
    """Round to the nearest float16, ties to even, as ``fp16`` does."""
    return values.astype(np.float16).astype(np.float32)


def to_int8(values: Values) -> Values:
    """Quantize blocks of 256 with the step ``max|x| / 127``, as ``int8`` does.

    The step is rounded up to 16 significant bits, so that each product is exact; in BF16, which has
    8 in all, to a power of two.
    """
    bits = _SCALE_BITS if values.itemsize == 4 else 1
    blocks = np.pad(values.astype(np.float32), (0, -values.size % _BLOCK)).reshape(-1, _BLOCK)
    fraction, exponent = np.frexp(np.abs(blocks).max(axis=1).astype(np.float64) / _STEPS)
    steps = np.ldexp(np.ceil(np.ldexp(fraction, bits)), exponent - bits)
    column: Any = np.where(steps, steps, 1.0).astype(np.float32)[:, None]
    kept: Values = (np.rint(blocks / column) * column).reshape(-1)[: values.size]
    kept += np.float32(0.0)  # int8 has no negative zero
    return kept.astype(values.dtype, copy=False)


ROUNDED: Mapping[str, Callable[[Values], Values]] = {
    "bf16": to_bf16,
    "fp16": to_fp16,
    "int8": to_int8,
}
"""By the name of the encoding."""
