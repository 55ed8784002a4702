"""The model of a case as APPFL wants it: a file with a module class, which clients get as text."""

from __future__ import annotations

import torch

from benchmarks.integrations import inside


class ClosedForm(torch.nn.Module):
    """Has the arrays of the case as parameters, with the values of their closed form."""

    def __init__(self) -> None:
        super().__init__()
        dtype = getattr(torch, inside.facts()["dtype"])
        for name, array in inside.arrays("float32").items():
            tensor = torch.from_numpy(array).to(dtype)
            self.register_parameter(name, torch.nn.Parameter(tensor, requires_grad=False))
