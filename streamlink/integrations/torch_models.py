"""Models as name → torch tensor, for frameworks that read and write them so."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink import ModelSource
from streamlink.integrations.tensors import ending_later
from streamlink.model import ModelSink, ModelSpec, Payload
from streamlink.objects import OpenObject
from streamlink.stores import as_model

__all__ = ["IntoTensors", "Tensors", "as_tensor"]


class Tensors(Mapping[str, Any]):
    """A source as name → torch tensor; each is read when it is asked for, and not kept.

    The source is closed when nobody has this any more, since an aggregator may keep a model beyond
    the call that it came with.
    """

    def __init__(self, source: ModelSource) -> None:
        self._opened = OpenObject(source, lambda _: source.close())
        weakref.finalize(self, ending_later(source))

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._opened.spec

    def read(self, offset: int, length: int) -> Payload:
        """Return logical bytes ``[offset, offset + length)``; raises as the source does."""
        return self._opened.read(offset, length)

    def close(self) -> None:
        """Do nothing: others may read it still."""

    def __getitem__(self, name: str) -> Any:
        return as_tensor(self._opened[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._opened)

    def __len__(self) -> int:
        return len(self._opened)


def as_tensor(array: npt.NDArray[Any]) -> Any:
    """Return an array as a torch tensor over the same memory, also of bfloat16 and FP8."""
    import torch

    flat = torch.from_numpy(array.reshape(-1).view(np.uint8))  # it takes no bfloat16 of NumPy's
    return flat.view(getattr(torch, array.dtype.name)).reshape(array.shape)


class IntoTensors:
    """What a model is received into: tensors that are there already, if they are its own.

    Args:
        module: a torch module; where it has the model's tensors, they are filled in place, else new
            ones are made. Of tensors that share memory the first is filled. None: new ones.
    """

    def __init__(self, module: Any = None) -> None:
        self._module = module
        self.tensors: dict[str, Any] = {}
        """What was received, by name."""

    def __call__(self, spec: ModelSpec) -> ModelSink:
        """Return the sink for a model."""
        import torch

        own = {} if self._module is None else dict(self._module.state_dict())
        made = {name: (tuple(each.shape), each.dtype) for name, each in own.items()}
        wanted = {each.name: (each.shape, getattr(torch, each.numpy_dtype.name))
                  for each in spec.tensors}  # fmt: skip
        # In the order of what arrives: APPFL's trainers put buffers behind all parameters.
        self.tensors = {name: own[name] for name in wanted} if made == wanted else {
            name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in wanted.items()
        }  # fmt: skip
        sink = as_model(self.tensors)
        # A model keeps the first name of tensors that share memory, such as tied weights, and both
        # names arrive: the others get memory of their own.
        if len(sink.spec.tensors) < len(wanted):
            kept = sink.spec.names
            self.tensors = {
                name: each if name in kept else torch.empty_like(each)
                for name, each in self.tensors.items()
            }
            sink = as_model(self.tensors)
        return sink
