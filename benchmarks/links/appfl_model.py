"""The model of a measured transfer as APPFL wants it: a file with a module class."""

from __future__ import annotations

import torch

from benchmarks.links.handing import from_environment

__all__ = ["Model"]


class Model(torch.nn.Module):
    """Has the arrays of the payload as parameters."""

    def __init__(self) -> None:
        super().__init__()
        for name, array in from_environment().payload.model().items():
            tensor = torch.from_numpy(array)
            self.register_parameter(name, torch.nn.Parameter(tensor, requires_grad=False))
