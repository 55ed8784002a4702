"""Low-rank adapters (LoRA) in PyTorch: only the tensors ``*.lora_*`` are trained and come back.

``python work.py`` makes the first model; README.md has the commands that train it. A model of yours
has its adapters from a library such as PEFT: then name their tensors in ``part`` of job.yaml.
"""

import sys

import torch
from torch import nn

import streamlink

WIDTH, RANK = 64, 2
torch.set_num_threads(1)  # the module is tiny, and all clients may be on one machine
STEPS = 15  # of training, in each round


class AdaptedLinear(nn.Linear):
    """A frozen layer with a trained one of low rank beside it."""

    def __init__(self) -> None:
        super().__init__(WIDTH, WIDTH, bias=False)
        self.weight.requires_grad = False
        self.lora_a = nn.Parameter(torch.randn(RANK, WIDTH) / WIDTH**0.5)
        self.lora_b = nn.Parameter(torch.zeros(WIDTH, RANK))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return what the frozen layer gives, and what the adapter adds."""
        return super().forward(inputs) + inputs @ self.lora_a.T @ self.lora_b.T


def model() -> nn.Module:
    """Return the module: its base, which stays as it is, and its adapters."""
    return nn.Sequential(AdaptedLinear(), nn.Tanh(), AdaptedLinear())


def data(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the inputs of a site, and what the model shall give for them. Yours go here."""
    random = torch.Generator().manual_seed(sum(name.encode()))
    inputs = torch.randn(256, WIDTH, generator=random)
    return inputs, 2 * inputs[:, :1].expand(-1, WIDTH)


def site(name: str) -> streamlink.WholeExecutor:
    """Return what the client of this name does; it is called once, when the client starts."""
    inputs, wanted = data(name)
    seen, unseen = slice(0, 200), slice(200, None)

    def train(module: nn.Module, task: streamlink.Task) -> streamlink.TaskResult:
        adapters = [each for each in module.parameters() if each.requires_grad]
        optimizer = torch.optim.Adam(adapters, lr=float(task.metadata["lr"]))
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(module(inputs[seen]), wanted[seen])
            loss.backward()
            optimizer.step()
        return streamlink.TaskResult(weight=len(inputs[seen]), metrics={"loss": loss.item()})

    def evaluate(module: nn.Module, task: streamlink.Task) -> streamlink.TaskResult:
        with torch.no_grad():
            loss = nn.functional.mse_loss(module(inputs[unseen]), wanted[unseen])
        return streamlink.TaskResult(weight=len(inputs[unseen]), metrics={"loss": loss.item()})

    # The differences of the adapters are all that travels back.
    return streamlink.WholeExecutor(train, model(), returns="differences", evaluate=evaluate)


if __name__ == "__main__":
    torch.manual_seed(1)
    streamlink.copy_model(model(), sys.argv[1] if len(sys.argv) > 1 else "model")
