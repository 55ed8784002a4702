"""What a lossy format leaves of numbers, computed apart from streamlink: what has to arrive.

Each is the format's rule as ``streamlink.encodings`` documents it, in plain NumPy and for F32 only.
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
    """Return the nearest values that bfloat16 has, ties to even: what ``bf16`` leaves of them."""
    bits = values.view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    kept = (bits + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000)
    return kept.view(np.float32)


def to_fp16(values: Values) -> Values:
    """Return the nearest values that float16 has, ties to even: what ``fp16`` leaves of them."""
    return values.astype(np.float16).astype(np.float32)


def to_int8(values: Values) -> Values:
    """Return what ``int8`` leaves: in each block of 256, multiples of the largest divided by 127.

    That step is rounded up to 16 significant bits, so that each product is exact.
    """
    blocks = np.pad(values, (0, -values.size % _BLOCK)).reshape(-1, _BLOCK)
    fraction, exponent = np.frexp(np.abs(blocks).max(axis=1).astype(np.float64) / _STEPS)
    steps = np.ldexp(np.ceil(np.ldexp(fraction, _SCALE_BITS)), exponent - _SCALE_BITS)
    column: Any = np.where(steps, steps, 1.0).astype(np.float32)[:, None]
    kept: Values = (np.rint(blocks / column) * column).reshape(-1)[: values.size]
    return kept + np.float32(0.0)  # int8 has no negative zero


ROUNDED: Mapping[str, Callable[[Values], Values]] = {
    "bf16": to_bf16,
    "fp16": to_fp16,
    "int8": to_int8,
}
"""By the name of the encoding."""
