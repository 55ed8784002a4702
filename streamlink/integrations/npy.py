"""The bytes of a .npy file as an array, without a copy: what some frameworks send as an array."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from streamlink.errors import UnsupportedDtype

__all__ = ["npy_view"]


def npy_view(data: bytes, name: str) -> npt.NDArray[Any]:
    """Return the array whose .npy file ``data`` is, over that memory.

    Args:
        data: header and values.
        name: of the dtype; it counts where the file has raw bytes, as for bfloat16 and FP8.

    Raises:
        UnsupportedDtype: the header is of a version that only dtypes with fields need.
    """
    file = BytesIO(data)
    if np.lib.format.read_magic(file) != (1, 0):
        raise UnsupportedDtype(f"an array of {name!r} is serialized with fields")
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.kind == "V" and hasattr(ml_dtypes, name):
        dtype = np.dtype(getattr(ml_dtypes, name))
    order = "F" if is_fortran else "C"
    return np.ndarray(shape, dtype, data, file.tell(), order=order)  # type: ignore[arg-type]
