"""A classifier in PyTorch: the module, the data of a site, its training, its evaluation.

``python work.py`` makes the first model; README.md has the commands that train it.
"""

import sys

import torch
from torch import nn

import streamlink

torch.set_num_threads(1)  # the module is tiny, and all clients may be on one machine
STEPS = 10  # of training, in each round


def model() -> nn.Module:
    """Return the module. Its state_dict travels, buffers included."""
    return nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))


def data(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the inputs and the classes of a site. Yours go here."""
    random = torch.Generator().manual_seed(sum(name.encode()))
    points = torch.randn(500, 2, generator=random)
    return points, (points.norm(dim=1) > 1).long()  # inside or outside of a circle


def site(name: str) -> streamlink.WholeExecutor:
    """Return what the client of this name does; it is called once, when the client starts."""
    points, classes = data(name)
    seen, unseen = slice(0, 400), slice(400, None)

    def train(module: nn.Module, task: streamlink.Task) -> streamlink.TaskResult:
        module.train()
        optimizer = torch.optim.SGD(module.parameters(), lr=float(task.metadata["lr"]))
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(module(points[seen]), classes[seen])
            loss.backward()
            optimizer.step()
        return streamlink.TaskResult(weight=len(points[seen]), metrics={"loss": loss.item()})

    def evaluate(module: nn.Module, task: streamlink.Task) -> streamlink.TaskResult:
        module.eval()
        is_right = (module(points[unseen]).argmax(dim=1) == classes[unseen]).float()
        return streamlink.TaskResult(
            weight=len(is_right), metrics={"accuracy": is_right.mean().item()}
        )

    return streamlink.WholeExecutor(train, model(), evaluate=evaluate)


if __name__ == "__main__":
    torch.manual_seed(1)
    streamlink.copy_model(model(), sys.argv[1] if len(sys.argv) > 1 else "model")
