"""The model that every peer moves: random float32 arrays, the same in each run.

Imported in the environments of the peers: the standard library and NumPy only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Arrays", "Payload", "digest"]

Arrays = dict[str, npt.NDArray[np.float32]]
ITEM_BYTES = 4


@dataclass(frozen=True, slots=True)
class Payload:
    """A model of ``arrays`` equal arrays, 1-D and float32, ``size_bytes`` altogether."""

    size_bytes: int
    arrays: int = 1

    def __post_init__(self) -> None:
        if self.arrays < 1 or self.size_bytes < ITEM_BYTES * self.arrays:
            raise ValueError(f"a model needs an array, and each array an element: {self!r}")
        if self.size_bytes % (ITEM_BYTES * self.arrays):
            raise ValueError(f"{self.arrays} float32 arrays of equal length do not fill {self!r}")

    @property
    def length(self) -> int:
        """How many elements each array has."""
        return self.size_bytes // self.arrays // ITEM_BYTES

    def names(self) -> list[str]:
        """Return the names of the arrays, in order."""
        return [f"layer_{number:04d}" for number in range(self.arrays)]

    def model(self) -> Arrays:
        """Return the arrays. Their bytes do not compress well, as those of trained weights."""
        random = np.random.default_rng(20261126)
        return {name: random.random(self.length, np.float32) for name in self.names()}

    def empty(self) -> Arrays:
        """Return arrays to receive into; their pages are not touched yet."""
        return {name: np.empty(self.length, np.float32) for name in self.names()}

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)


def digest(model: Mapping[str, Any]) -> str:
    """Return BLAKE2b of names, dtypes, shapes and bytes, in order of the names (hexadecimal)."""
    found = hashlib.blake2b(digest_size=16)
    for name in sorted(model):
        array = np.ascontiguousarray(model[name])
        found.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        found.update(array.data.cast("B"))
    return found.hexdigest()
