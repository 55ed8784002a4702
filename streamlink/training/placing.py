"""Has a module on the device that trains it, and then back in the memory that it came from.

``Module.to`` gives a module new memory. Whoever receives into the old one, as a client's executor
does, would keep a second copy of the model alive, and after training that fails it would fill
tensors that are no longer the module's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["placed"]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One parameter or buffer, and where in its module it stands."""

    owned: dict[str, Any]
    name: str
    tensor: Tensor
    host: Tensor
    """The memory of ``tensor``."""

    def copy_back(self) -> None:
        now = self.owned[self.name]
        if now is not None:
            self.host.copy_(now.data)

    def restore(self) -> None:
        self.tensor.data = self.host
        self.owned[self.name] = self.tensor


@contextmanager
def placed(module: nn.Module, device: torch.device) -> Iterator[None]:
    """Have ``module`` on ``device`` for a time; then its own host memory has what it has become.

    After an error the module has the values from before, as if nothing had been done. What is free
    then of a GPU's memory is given back, for others that train on it.

    Args:
        module: on the CPU, and without gradients. Tied weights stay tied, and all its parameters
            and buffers the same objects.
        device: where to; the CPU: nothing is copied.
    """
    if device.type == "cpu":
        yield
        return
    entries = [
        _Entry(owned, name, tensor, tensor.data)
        for each in module.modules()
        for owned in (each._parameters, each._buffers)
        for name, tensor in owned.items()
        if tensor is not None
    ]
    try:
        module.to(device)
        yield
        for entry in entries:
            entry.copy_back()
    finally:
        module.zero_grad(set_to_none=True)  # after an error they may be there, on the device
        for entry in entries:
            entry.restore()
        if device.type == "cuda":
            torch.cuda.empty_cache()
