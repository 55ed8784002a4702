"""Tensors that are read where they are stored, and models made of them or of arrays in memory.

For frameworks whose messages and aggregation take names with arrays or tensors.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink import CancelToken
from streamlink.model import GeneratedModel, ModelSink, ModelSource, ModelSpec, TensorSpec
from streamlink.objects import OpenObject
from streamlink.stores import ArrayModel, as_model, empty_bytes

__all__ = [
    "NUMPY",
    "TORCH",
    "StoredItems",
    "StoredTensor",
    "all_of",
    "ending_later",
    "fresh",
    "in_memory",
    "origin",
    "read",
    "stored",
    "whole",
]

NUMPY, TORCH = "numpy", "torch"  # what a decomposer of FLARE hands over
_PIECE_BYTES = 4 << 20


class StoredTensor:
    """Stands in FLARE's messages and models for a tensor that is read range by range.

    FLARE's weighted aggregation calls ``materialize`` of such values, one after another. Whoever
    needs the array calls it, too; whoever can work on ranges reads ``source``.
    """

    def __init__(self, source: ModelSource, name: str, kind: str) -> None:
        self.source, self.name, self.kind = source, name, kind
        index = source.spec.names[name]
        self.spec: TensorSpec = source.spec.tensors[index]
        self._start = source.spec.offset_of(index)

    def __repr__(self) -> str:
        return f"<{self.spec.dtype} {list(self.spec.shape)} of {self.name!r}, stored>"

    def __deepcopy__(self, memo: Any) -> StoredTensor:
        return (
            self  # FLARE copies a task's data, so that its filters may change it; nobody can here
        )

    def materialize(self) -> Any:
        """Read it whole into a new array or tensor."""
        (values, flat), *_ = _empty(ModelSpec((self.spec,)), self.kind).values()
        self.read_into(0, flat)
        return values

    def read_into(self, start: int, flat: npt.NDArray[np.uint8]) -> None:
        """Fill ``flat`` with the tensor's bytes from ``start`` on."""
        for done in range(0, len(flat), _PIECE_BYTES):
            piece = flat[done : done + _PIECE_BYTES]
            at = 0
            for view in self.source.read(self._start + start + done, len(piece)):
                piece[at : at + view.nbytes] = np.frombuffer(view, np.uint8)
                at += view.nbytes


class _Held:
    """A source that is closed when no tensor of it is used any more."""

    def __init__(self, source: ModelSource, closed: Callable[[], object]) -> None:
        end = ending_later(source)

        def close() -> None:
            end()
            closed()

        self.spec, self.read, self.close = source.spec, source.read, source.close
        weakref.finalize(self, close).atexit = False


def ending_later(source: ModelSource) -> Callable[[], object]:
    """Return what a finalizer calls to close ``source``: see ``OpenObject.close_later``."""
    return source.close_later if isinstance(source, OpenObject) else source.close


class StoredItems(Mapping[str, Any]):
    """What FLARE takes for the downloaded items: the tensors of ``source``, read one by one.

    Args:
        source: the model; closed when nobody holds this or a tensor of it any more.
        kind: ``NUMPY`` or ``TORCH``.
        closed: called then.
    """

    def __init__(
        self, source: ModelSource, kind: str, closed: Callable[[], object] = lambda: None
    ) -> None:
        self._source, self._kind = _Held(source, closed), kind

    def __getitem__(self, name: str) -> Any:
        return self.make_lazy_ref(name).materialize()

    def __contains__(self, name: object) -> bool:
        return name in self._source.spec.names  # without reading the tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._source.spec.names)

    def __len__(self) -> int:
        return len(self._source.spec.tensors)

    def make_lazy_ref(self, name: str) -> StoredTensor:
        """Return the tensor unread: what FLARE asks for where it keeps values on the disk."""
        return StoredTensor(self._source, name, self._kind)


def stored(source: ModelSource, kind: str) -> dict[str, StoredTensor]:
    """Return every tensor of ``source``, unread."""
    return {each.name: StoredTensor(source, each.name, kind) for each in source.spec.tensors}


def whole(items: Mapping[str, Any]) -> ModelSource:
    """Return arrays, tensors and stored tensors, by name, as one model without copying it.

    Raises:
        ModelError: a value is something else, or has a dtype that streamlink does not have.
    """
    if not any(isinstance(value, StoredTensor) for value in items.values()):
        model = as_model(items)
        # A model keeps only the first name of tensors that share memory, such as tied weights.
        if len(model.spec.tensors) == len(items):
            return model
    parts = {
        name: value
        if isinstance(value, StoredTensor)
        else StoredTensor(as_model({name: value}), name, NUMPY)
        for name, value in items.items()
    }
    specs = (TensorSpec(name, part.spec.dtype, part.spec.shape) for name, part in parts.items())
    spec = ModelSpec(tuple(specs))
    if (source := origin(items)) is not None:
        return _Renamed(source, spec)

    def fill(tensor: TensorSpec, start: int, out: npt.NDArray[Any]) -> None:
        parts[tensor.name].read_into(start * tensor.itemsize, out.view(np.uint8))

    return GeneratedModel(spec, fill)


def all_of(model: Any) -> ModelSource:
    """Return arrays or tensors by name, a module, a path or a store as a model with all its names.

    Raises:
        ModelError: it is none of these; see ``whole``.
        StoreError: there is no model at the path.
    """
    items = model.state_dict() if hasattr(model, "state_dict") else model
    return whole(items) if isinstance(items, Mapping) else as_model(items)


def origin(items: Mapping[str, Any]) -> ModelSource | None:
    """Return the source whose tensors, all of them and in its order, ``items`` are; or None."""
    tensors = [value for value in items.values() if isinstance(value, StoredTensor)]
    if not tensors or len(tensors) != len(items):
        return None
    source = tensors[0].source
    is_one = all(each.source is source for each in tensors)
    return (
        source if is_one and [each.spec for each in tensors] == list(source.spec.tensors) else None
    )


class _Renamed:
    """A source under other names: its bytes are passed on as they are, without a copy."""

    def __init__(self, source: ModelSource, spec: ModelSpec) -> None:
        # The source, and not its ``read`` alone: some are closed once nothing refers to them.
        self.spec, self.read, self._source = spec, source.read, source

    def close(self) -> None:
        """Do nothing: the tensors belong to whoever has them."""


def in_memory(items: Mapping[str, Any]) -> dict[str, Any]:
    """Return all values as arrays or tensors: those that are stored are read."""
    return {
        name: value.materialize() if isinstance(value, StoredTensor) else value
        for name, value in items.items()
    }


def read(items: Mapping[str, Any], cancel: CancelToken) -> dict[str, Any]:
    """Return all of the items, read one after another.

    Raises:
        Cancelled: the token was cancelled.
    """
    made = {}
    for name in items:
        cancel.check()
        made[name] = items[name]
    return made


def fresh(kind: str, into: dict[str, Any]) -> Callable[[ModelSpec], ModelSink]:
    """Return what makes new arrays or tensors for a spec, puts them ``into``, and fills them."""

    def make(spec: ModelSpec) -> ModelSink:
        made = _empty(spec, kind)
        into.update((name, values) for name, (values, _) in made.items())
        if kind == NUMPY:
            return ArrayModel(into)
        from streamlink.stores import TorchModel

        return TorchModel(into)

    return make


def _empty(spec: ModelSpec, kind: str) -> dict[str, tuple[Any, npt.NDArray[np.uint8]]]:
    """Return for each tensor a new array or tensor, and its bytes."""
    made: dict[str, tuple[Any, npt.NDArray[np.uint8]]] = {}
    for each in spec.tensors:
        flat = empty_bytes(each.nbytes)
        if kind == NUMPY:
            made[each.name] = flat.view(each.numpy_dtype).reshape(each.shape), flat
        else:
            import torch

            dtype = getattr(torch, each.numpy_dtype.name)  # NumPy and PyTorch use the same names
            # PyTorch views no bytes as elements where there are none.
            elements = (
                torch.from_numpy(flat).view(dtype) if len(flat) else torch.empty(0, dtype=dtype)
            )
            made[each.name] = elements.reshape(each.shape), flat
    return made
