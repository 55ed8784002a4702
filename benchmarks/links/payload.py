"""The model that every peer moves: random arrays, the same in each run.

Imported in the environments of the peers: the standard library and NumPy only, but for bfloat16,
which NumPy has not and only streamlink itself moves here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

__all__ = ["Arrays", "Kind", "Payload", "digest"]

Arrays = dict[str, npt.NDArray[np.float32]]
Kind = Literal["uniform", "weights, F32", "weights, BF16", "computed"]
SEED, DEVIATION = 20261126, 0.02
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Payload:
    """A model of ``arrays`` equal arrays, 1-D, ``size_bytes`` altogether.

    Attributes:
        kind: ``uniform``: float32 from 0 to 1, whose bytes do not compress well. ``weights,
            F32``: normal numbers with a deviation of 0.02, as after the usual initialization of a
            transformer; also as bfloat16. ``computed``: see ``peers.ours_computed``; such a model
            is nowhere in memory.
    """

    size_bytes: int
    arrays: int = 1
    kind: Kind = "uniform"

    def __post_init__(self) -> None:
        if self.arrays < 1 or self.size_bytes < self.item_bytes * self.arrays:
            raise ValueError(
                f"a model needs an array, and each array an element, which {self.size_bytes} bytes "
                f"in {self.arrays} arrays have not; an example: 256MiB"
            )
        if self.size_bytes % (self.item_bytes * self.arrays):
            kind = "bfloat16" if self.item_bytes == 2 else "float32"
            raise ValueError(
                f"{self.size_bytes} bytes are not {self.arrays} {kind} arrays of equal length; an "
                "example: 256MiB"
            )

    @property
    def item_bytes(self) -> int:
        """The size of an element (bytes)."""
        return 2 if self.kind == "weights, BF16" else 4

    @property
    def length(self) -> int:
        """How many elements each array has."""
        return self.size_bytes // self.arrays // self.item_bytes

    def names(self) -> list[str]:
        """Return the names of the arrays, in order."""
        return [f"layer_{number:04d}" for number in range(self.arrays)]

    def model(self) -> Arrays:
        """Return the arrays."""
        random = np.random.default_rng(SEED)
        if self.kind == "uniform":
            return {name: random.random(self.length, np.float32) for name in self.names()}
        scale = np.float32(DEVIATION)
        drawn = (random.standard_normal(self.length, np.float32) * scale for _ in self.names())
        return {name: each.astype(self._dtype(), copy=False)
                for name, each in zip(self.names(), drawn, strict=True)}  # fmt: skip

    def blank(self) -> Arrays:
        """Return arrays to receive into, all of them in memory.

        On a virtual machine the first write to a page can take as long as receiving it, because
        the host has to provide the memory.
        """
        # ``np.zeros`` would leave the first write to the receiver.
        return {name: np.full(self.length, 0, self._dtype()) for name in self.names()}

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)

    def _dtype(self) -> Any:
        if self.item_bytes == 4:
            return np.float32
        import ml_dtypes

        return ml_dtypes.bfloat16

    def __str__(self) -> str:
        arrays = "1 array" if self.arrays == 1 else f"{self.arrays} arrays"
        kind = f" of {self.kind}" if self.kind.startswith("weights") else ""
        return f"{_size(self.size_bytes)} in {arrays}{kind}"


def _size(nbytes: int) -> str:
    # Sizes of either kind: those of the record are powers of two, those of computed models not.
    if nbytes % 1000:
        return f"{nbytes / MIB:g} MiB"
    return f"{nbytes / 1e9:g} GB" if nbytes >= 10**9 else f"{nbytes / 1e6:g} MB"


def digest(model: Mapping[str, Any]) -> str:
    """Return BLAKE2b of names, dtypes, shapes and bytes, in order of the names (hexadecimal)."""
    found = hashlib.blake2b(digest_size=16)
    for name in sorted(model):
        array = np.ascontiguousarray(model[name])
        found.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        found.update(array.reshape(-1).view(np.uint8).data)
    return found.hexdigest()
