"""Finds arrays that share memory (aliasing): filling one would silently change the other.

The bounds of two arrays may overlap although no byte is shared (two columns of one array); such
pairs are compared exactly. A comparison that would take too long counts as shared: to refuse is
safe, to fill is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.array_utils import byte_bounds

from streamlink.errors import ModelError

__all__ = ["first_overlap", "require_disjoint", "shares"]

Array = npt.NDArray[Any]

_MAX_WORK = 10_000  # of NumPy's search for a common byte of two arrays (steps)
_MAX_PAIRS = 1_000_000  # compared exactly, about a microsecond each


def require_disjoint(arrays: Mapping[str, Array]) -> None:
    """Check that no two elements of ``arrays``, which are to be filled, share a byte.

    It sorts their addresses: 0.2 s for 100,000 arrays, half of the time that their spec takes.

    Raises:
        ModelError: two arrays share memory, or one array has several elements at one address;
            names them.
    """
    filled = [(name, array) for name, array in arrays.items() if array.size]
    for name, array in filled:
        if not array.flags.c_contiguous and _may_self_overlap(array):
            raise ModelError(
                f"tensor {name!r} has several elements at the same address (it is a view with "
                "overlapping strides) and cannot be filled; pass a copy of it (array.copy())"
            )
    pair = first_overlap(
        [_bounds(array) for _, array in filled],
        lambda one, other: shares(filled[one][1], filled[other][1]),
    )
    if pair is not None:
        first, second = sorted(pair)
        raise ModelError(
            f"tensors {filled[first][0]!r} and {filled[second][0]!r} share memory, so filling one "
            "would change the other; pass one of them alone, or a copy of it (array.copy())"
        )


def first_overlap(
    bounds: Sequence[tuple[int, int]], is_shared: Callable[[int, int], bool]
) -> tuple[int, int] | None:
    """Return the numbers of two pieces of memory that overlap; None: no two do.

    Args:
        bounds: (first byte, byte after the last) of each piece of memory.
        is_shared: tells whether two pieces whose bounds overlap have a byte in common.
    """
    if not bounds:
        return None
    # Vectorized, because nearly every model has no overlap and 100,000 tensors are not rare; the
    # loop in ``_sweep`` runs only where some bounds do overlap.
    starts, stops = np.array(bounds, np.uint64).T
    order = np.argsort(starts, kind="stable")
    # The largest end so far, not the end of the neighbor: a long piece may reach over several.
    if (starts[order[1:]] >= np.maximum.accumulate(stops[order])[:-1]).all():
        return None
    return _sweep(bounds, order.tolist(), is_shared)


def _sweep(
    bounds: Sequence[tuple[int, int]], order: list[int], is_shared: Callable[[int, int], bool]
) -> tuple[int, int] | None:
    """Compare each piece with the earlier ones that end after it begins (a sweep line)."""
    before: list[int] = []
    pairs = 0
    for number in order:
        start = bounds[number][0]
        before = [each for each in before if bounds[each][1] > start]
        pairs += len(before)
        for other in before:
            # Arrays can be interleaved so that every pair has to be compared (columns of one
            # matrix). The bound keeps that from taking for ever.
            if pairs > _MAX_PAIRS or is_shared(other, number):
                return other, number
        before.append(number)
    return None


def shares(one: Array, other: Array) -> bool:
    """Tell whether two arrays have a byte in common; yes if that takes too long to find out."""
    try:
        return np.shares_memory(one, other, max_work=_MAX_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _bounds(array: Array) -> tuple[int, int]:
    if not array.flags.c_contiguous:
        return byte_bounds(array)
    start = array.ctypes.data  # three times as fast as byte_bounds
    return start, start + array.nbytes


def _may_self_overlap(array: Array) -> bool:
    """Tell whether two elements of an array may share memory; slices and transposes never do.

    They cannot if each stride is at least as long as the extent of all shorter strides together.
    """
    reach = array.itemsize
    for stride, size in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if size > 1:
            # Sufficient and not necessary: some exotic strides are refused without an overlap.
            if stride < reach:
                return True
            reach += (size - 1) * stride
    return False
