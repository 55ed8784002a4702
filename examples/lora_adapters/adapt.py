"""Fine-tune low-rank adapters over two sites: only the adapters come back, as differences.

Each site gets the whole model and trains its adapters (``*.lora_a``, ``*.lora_b``) on samples of
its own. The server asks for just those tensors; all others of the new model are the old bytes.

    python examples/lora_adapters/adapt.py

runs the server and the sites as threads of one process, and checks that the base has not changed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from pathlib import Path

import streamlink

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit(
        "this example trains with PyTorch, which is an extra: pip install 'streamlink-fl[torch]'"
    )

RANK = 2
SAMPLES = {"site-1": 384, "site-2": 128}  # what a site has seen counts as much as it has seen


class AdaptedLinear(nn.Linear):
    """A frozen layer with a trained one of low rank beside it."""

    def __init__(self, width: int) -> None:
        super().__init__(width, width, bias=False)
        self.weight.requires_grad = False
        self.lora_a = nn.Parameter(torch.randn(RANK, width) / width**0.5)
        self.lora_b = nn.Parameter(torch.zeros(width, RANK))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return super().forward(inputs) + inputs @ self.lora_a.T @ self.lora_b.T


def make_module(width: int) -> nn.Module:
    return nn.Sequential(AdaptedLinear(width), nn.Tanh(), AdaptedLinear(width))


def samples_of(site: str, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs of this site's own, and what the model shall learn: the first of them, doubled."""
    seeded = torch.Generator().manual_seed(int(site.removeprefix("site-")))
    inputs = torch.randn(SAMPLES[site], width, generator=seeded)
    return inputs, 2 * inputs[:, :1].expand(-1, width)


# --- a site -----------------------------------------------------------------


def take_part(server: str, site: str, width: int, sent: list[int]) -> None:
    """Train the adapters whenever the server asks; note how many bytes went back."""
    inputs, wanted = samples_of(site, width)

    def train(module: nn.Module, task: streamlink.Task) -> streamlink.TaskResult:
        adapters = [each for each in module.parameters() if each.requires_grad]
        optimizer = torch.optim.Adam(adapters, lr=0.01)
        losses = []
        for _ in range(15):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(module(inputs), wanted)
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        return streamlink.TaskResult(weight=len(inputs), metrics={"loss": losses[0]})

    executor = streamlink.WholeExecutor(train, make_module(width), returns="differences")
    with streamlink.Client(server, site, executor) as client:
        sent += [outcome.sent.stats.total_bytes for outcome in client.run()]


# --- the server -------------------------------------------------------------


def serve(width: int, rounds: int, folder: Path) -> None:
    """Run the rounds, then say what moved, what was learned and what stayed as it was."""
    torch.manual_seed(1)
    first = make_module(width)
    streamlink.copy_model(first, folder)  # the store begins with the module's own tensors

    sent: list[int] = []
    with streamlink.Server() as server:
        threads = [
            threading.Thread(target=take_part, args=(server.address, site, width, sent))
            for site in SAMPLES
        ]
        for thread in threads:
            thread.start()
        rules = streamlink.RoundConfig(min_clients=len(SAMPLES), num_rounds=rounds, part="*.lora_*")
        reports = streamlink.ScatterAndGather(server, folder, rules).run()
    for thread in threads:
        thread.join()

    for report in reports:
        print(f"round {report.round}: loss {report.metrics['loss']:.3f}, weights {report.weights}")
    down, up = streamlink.open_model(folder).spec.nbytes, max(sent)
    print(f"an update: {up} bytes, {up / down:.2%} of the model's {down}")
    final = make_module(width)
    streamlink.copy_model(folder, final)
    for kind, wanted in (("base", False), ("adapter", True)):
        same = [
            is_same(old, new)
            for old, new in zip(first.parameters(), final.parameters(), strict=True)
            if old.requires_grad is wanted
        ]
        print(f"{kind} tensors that are bit for bit what they were: {sum(same)} of {len(same)}")


def is_same(old: torch.Tensor, new: torch.Tensor) -> bool:
    """Compare bits: a zero of the other sign is another value here."""
    return bool(torch.equal(old.detach().view(torch.int32), new.detach().view(torch.int32)))


def main() -> None:
    options = argparse.ArgumentParser(description="Fine-tune adapters over two sites.")
    options.add_argument("--width", type=int, default=512, help="of the layers")
    options.add_argument("--rounds", type=int, default=4)
    given = options.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        serve(given.width, given.rounds, Path(folder) / "model")


if __name__ == "__main__":
    main()
