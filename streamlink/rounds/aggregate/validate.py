"""What may be aggregated: an update's tensors, weight and metrics, checked before it counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink.errors import ModelError, SpecMismatch, UnsupportedDtype
from streamlink.link import Update
from streamlink.model.spec import DTYPES, ModelSpec, dtype_name

__all__ = [
    "WEIGHTS_ALLOWED",
    "check_announced",
    "check_arrays",
    "check_metrics",
    "check_norm",
    "check_state",
    "check_weight",
    "first_non_finite",
    "is_weight",
    "known_dtype",
    "state_dtype",
]

WEIGHTS_ALLOWED = "a weight is 0, for an update that must not count, or between 1e-100 and 1e+100"
"""The rule of ``is_weight``, for error messages."""

# So that no product of a weight and an element is too large or too small for float64.
_SMALLEST_WEIGHT, _LARGEST_WEIGHT = 1e-100, 1e100

_BLOCK = 32 * 1024  # elements looked at together: their flags stay in the cache
_NAMES_TOLD = 3  # a refusal names this many tensors, and counts the rest


def is_weight(number: float) -> bool:
    """Return whether an update may have such a weight; see ``WEIGHTS_ALLOWED``."""
    return number == 0 or _SMALLEST_WEIGHT <= number <= _LARGEST_WEIGHT


def check_announced(
    peer_name: str, sent: ModelSpec, update: Update, part: ModelSpec, whole: ModelSpec
) -> None:
    """Check what a client announces of its update, before a byte of it counts.

    Raises:
        SpecMismatch: its tensors are not those of ``part``; says which is missing, extra or wrong.
        ModelError: its weight is not allowed (see ``is_weight``), or its norm is no norm.
    """
    # Identity first: it is often the same object, and comparing 100,000 tensors takes milliseconds.
    if sent is not part and sent != part:
        what = "another model" if part == whole else "another part of the model"
        raise SpecMismatch(f"{peer_name} has {what}: {_difference(part, sent, peer_name)}")
    check_weight(peer_name, update.weight)
    check_norm(peer_name, update.norm)


def check_weight(peer_name: str, weight: float) -> None:
    """Raise ``ModelError`` unless an update may have this weight."""
    if not is_weight(weight):
        raise ModelError(f"{peer_name} gave its update the weight {weight}; {WEIGHTS_ALLOWED}")


def check_norm(peer_name: str, norm: float | None) -> None:
    """Raise ``ModelError`` unless an update may have this norm: infinity where an element is."""
    if norm is not None and not norm >= 0:
        raise ModelError(
            f"{peer_name} declared the norm {norm} for its update; a norm is 0 or more"
        )


def check_metrics(peer_name: str, metrics: Mapping[str, float]) -> None:
    """Raise ``ModelError`` naming the first metric that is not finite."""
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise ModelError(
                f"{peer_name} reported {name} = {value}; metrics are averaged, so they must be "
                "finite"
            )


def _difference(ours: ModelSpec, theirs: ModelSpec, peer_name: str) -> str:
    missing = [name for name in ours.names if name not in theirs.names]
    extra = [name for name in theirs.names if name not in ours.names]
    differences = [
        f"{words} {_listed(names)}"
        for words, names in (("it lacks", missing), ("nobody asked for", extra))
        if names
    ]
    return " and ".join(differences) or ours.difference(theirs, "the server", peer_name)


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(repr(name) for name in names[:_NAMES_TOLD])
    more = len(names) - _NAMES_TOLD
    word = "tensor" if len(names) == 1 else "tensors"
    return f"{word} {listed}" + (f" and {more} more" if more > 0 else "")


def first_non_finite(values: npt.NDArray[Any]) -> int:
    """Return the position of the first NaN or infinity in a 1-D array of any dtype; -1: none."""
    if values.dtype.kind in "iub":
        return -1
    with np.errstate(all="ignore"):
        for start in range(0, values.size, _BLOCK):
            is_finite: npt.NDArray[np.bool_] = np.isfinite(values[start : start + _BLOCK])
            if not is_finite.all():
                return int(start + is_finite.argmin())
    return -1


def known_dtype(dtype: str | np.dtype[Any]) -> np.dtype[Any]:
    """Return NumPy's dtype for a name of safetensors, or for itself.

    Raises:
        UnsupportedDtype: no model may have it.
    """
    if isinstance(dtype, str):
        if dtype not in DTYPES:
            raise UnsupportedDtype(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}")
        return DTYPES[dtype]
    return DTYPES[dtype_name(dtype)]


def check_arrays(
    count: int,
    dtype: np.dtype[Any],
    inputs: Sequence[npt.NDArray[Any]],
    out: npt.NDArray[Any],
    base: npt.NDArray[Any] | None,
) -> None:
    """Check what an aggregation is given: ``count`` inputs, all arrays alike.

    Raises:
        ModelError: they do not fit each other or ``dtype``, or ``out`` cannot be written.
    """
    if len(inputs) != count:
        raise ModelError(f"{len(inputs)} inputs for {count} weights")
    arrays = [(f"input {number}", values) for number, values in enumerate(inputs)]
    if base is not None:
        arrays.append(("base", base))
    for name, values in [*arrays, ("out", out)]:
        if values.dtype != dtype:
            raise ModelError(f"{name} has dtype {values.dtype}, expected {dtype}")
        if values.shape != (out.size,):
            raise ModelError(f"{name} has shape {values.shape}, expected ({out.size},)")
    if not out.flags.writeable:
        raise ModelError("out is read-only")


def state_dtype(dtype: str | np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the dtype of an aggregator's state for elements of ``dtype``; None: they have none."""
    elements = known_dtype(dtype)
    if elements.kind in "iub":
        return None
    is_kept = elements.kind == "c" or elements == np.float64
    return elements if is_kept else np.dtype(np.float32)


def check_state(
    count: int, dtype: np.dtype[Any], state: Sequence[npt.NDArray[Any]], size: int
) -> None:
    """Check the state that an aggregation is given for ``size`` elements: one array a slot.

    Raises:
        ModelError: there are fewer or more, or one does not fit.
    """
    if len(state) != count:
        raise ModelError(f"{len(state)} arrays of state for {count} slots")
    for number, values in enumerate(state):
        if values.dtype != state_dtype(dtype) or values.shape != (size,):
            raise ModelError(
                f"state {number} has shape {values.shape} of {values.dtype}, expected ({size},) of "
                f"{state_dtype(dtype)}"
            )
        if not values.flags.writeable:
            raise ModelError(f"state {number} is read-only")
