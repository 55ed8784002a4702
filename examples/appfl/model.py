"""A large linear model, and data of its own for each client: 64 MB, no download."""

from __future__ import annotations

import numpy as np
import torch

INPUTS, OUTPUTS = 4000, 4000


class Linear(torch.nn.Module):
    """One layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(INPUTS, OUTPUTS, bias=False)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Return the layer's answer."""
        return self.layer(values)


def data(number: int) -> tuple[torch.utils.data.Dataset, torch.utils.data.Dataset]:
    """Return made-up data for training and for validation; another set for each client."""
    made = torch.Generator().manual_seed(number)
    inputs = torch.randn(32, INPUTS, generator=made)
    targets = torch.randint(OUTPUTS, (32,), generator=made)
    whole = torch.utils.data.TensorDataset(inputs, targets)
    return whole, whole


def accuracy(targets: np.ndarray, outputs: np.ndarray) -> float:
    """Return how many answers are right (percent)."""
    return 100.0 * float((outputs.argmax(axis=1) == targets.reshape(-1)).mean())
