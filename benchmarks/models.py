"""A global model that costs the server neither memory nor disk, and is checked to the last byte.

Programs that measure rounds must not measure a store. This one computes every model it is asked
for, and compares each model it is given with the one that the clients' work makes of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

import streamlink
from streamlink.model import GeneratedModel

__all__ = ["GrowingStore", "Layout"]

RAMP = np.arange(1 << 18, dtype=np.float32)  # exact with any small number or half added to it
APART = 977  # elements by which each tensor's ramp is shifted, so that no two tensors are alike


@dataclass(frozen=True)
class Layout:
    """How a model is cut: equal float32 tensors.

    Attributes:
        tensors: how many (count).
        tensor_bytes: of each (bytes).
        trains_one: work adds to the first element of each tensor only, not to all of them.
    """

    tensors: int
    tensor_bytes: int
    trains_one: bool = False

    @property
    def nbytes(self) -> int:
        """The model's size (bytes)."""
        return self.tensors * self.tensor_bytes

    @property
    def spec(self) -> streamlink.ModelSpec:
        """The tensors, 1-D."""
        shape = (self.tensor_bytes // 4,)
        names = (f"key_{number:03d}" for number in range(self.tensors))
        return streamlink.ModelSpec(
            tuple(streamlink.TensorSpec(name, "F32", shape) for name in names)
        )

    def model(self, grown: float) -> GeneratedModel:
        """Return the model to whose trained elements ``grown`` was added."""
        fill = _fill_first if self.trains_one else _fill_all
        return GeneratedModel(self.spec, partial(fill, grown))

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)


class GrowingStore:
    """A model store whose model grows by ``step`` with each commit.

    Args:
        layout: of the model.
        step: what each round's mean adds to the trained elements.

    Attributes:
        models: how many whole models were committed (count).
        wrong_bytes: length of the ranges that were not what they should be (bytes).
    """

    def __init__(self, layout: Layout, step: float) -> None:
        self.models = 0
        self.wrong_bytes = 0
        self._layout = layout
        self._step = step

    def open(self) -> GeneratedModel:
        """Return the present model."""
        return self._layout.model(self.models * self._step)

    def begin(self, spec: streamlink.ModelSpec) -> _Comparing:
        """Return a sink that expects the next model."""
        return _Comparing(self._layout.model((self.models + 1) * self._step), self._count)

    def _count(self, wrong_bytes: int) -> None:
        self.models += 1
        self.wrong_bytes += wrong_bytes


class _Comparing:
    """A sink that compares what it is given with a model, range by range, and drops it."""

    def __init__(self, expected: GeneratedModel, on_commit: Callable[[int], None]) -> None:
        self._expected = expected
        self._on_commit = on_commit
        self._taken_bytes = self._wrong_bytes = 0

    @property
    def spec(self) -> streamlink.ModelSpec:
        return self._expected.spec

    def write(self, offset: int, payload: memoryview) -> None:
        self._taken_bytes += payload.nbytes
        for view in self._expected.read(offset, payload.nbytes):
            piece, payload = payload[: view.nbytes], payload[view.nbytes :]
            if xxhash.xxh3_64_digest(piece) != xxhash.xxh3_64_digest(view):
                self._wrong_bytes += view.nbytes

    def commit(self, progress: Callable[[int], None] | None = None) -> None:
        if self._taken_bytes != self.spec.nbytes:
            raise streamlink.StreamlinkError(
                f"a model of {self.spec.nbytes} bytes was committed after {self._taken_bytes}"
            )
        self._on_commit(self._wrong_bytes)

    def discard(self) -> None:
        self._taken_bytes = self._wrong_bytes = 0


def _fill_all(
    grown: float, tensor: streamlink.TensorSpec, start: int, out: npt.NDArray[Any]
) -> None:
    shift, at = APART * int(tensor.name.removeprefix("key_")), 0
    while at < len(out):
        first = (shift + start + at) % len(RAMP)
        count = min(len(out) - at, len(RAMP) - first)
        np.add(RAMP[first : first + count], np.float32(grown), out=out[at : at + count])
        at += count


def _fill_first(
    grown: float, tensor: streamlink.TensorSpec, start: int, out: npt.NDArray[Any]
) -> None:
    _fill_all(0.0, tensor, start, out)
    if start == 0 and len(out):
        out[0] += np.float32(grown)
