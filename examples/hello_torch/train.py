"""Train a torch module over two sites, each of which sees half of the data.

The module has what real ones have: an embedding tied to the output, a batch norm with its running
statistics, and an integer counter. All of it travels, the tied weight once.

    python examples/hello_torch/train.py

runs the server and both sites as threads of one process. By hand, on three machines, it is

    python train.py --listen 0.0.0.0:8517 --config server.yaml
    python train.py --server HOST:8517 --config site-1.yaml --site 1          (and 2)

where the files say in their section ``security`` whom to believe (docs/security.md).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import streamlink
from streamlink.config import JobConfig

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit(
        "this example trains with PyTorch, which is an extra: pip install 'streamlink-fl[torch]'"
    )

from streamlink.stores import TorchModel

TOKENS, WIDTH = 64, 32
SITES = (1, 2)
STEPS = 10  # of training, in each round


class NextToken(nn.Module):
    """Guesses the token that follows another one."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.hidden = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.output = nn.Linear(WIDTH, TOKENS, bias=False)
        self.output.weight = self.embedding.weight  # tied: one tensor under two names

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.output(torch.relu(self.norm(self.hidden(self.embedding(tokens)))))


def data(half: slice) -> tuple[torch.Tensor, torch.Tensor]:
    """The tokens of one site, and what follows each; neither site has seen the other's."""
    tokens = torch.arange(TOKENS)[half]
    return tokens, (tokens * 5 + 3) % TOKENS


def loss_of(module: nn.Module, half: slice) -> float:
    tokens, following = data(half)
    module.eval()
    with torch.no_grad():
        return float(nn.functional.cross_entropy(module(tokens), following))


# --- a site -----------------------------------------------------------------


def take_part(server: str, site: int, config: streamlink.LinkConfig) -> None:
    """Train on this site's half whenever the server asks, until it says goodbye."""
    half = slice(site - 1, None, 2)
    tokens, following = data(half)

    def train(module: nn.Module, task: streamlink.Task) -> streamlink.TaskResult:
        before = loss_of(module, half)
        module.train()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.2)
        for _ in range(STEPS):
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(tokens), following).backward()
            optimizer.step()
        return streamlink.TaskResult(weight=len(tokens), metrics={"loss": before})

    # The module is the place where models arrive, and what is sent back.
    executor = streamlink.WholeExecutor(train, NextToken())
    with streamlink.Client(server, f"site-{site}", executor, config) as client:
        client.run()


# --- the server -------------------------------------------------------------


def serve(
    listen: str, here: Sequence[int], rounds: int, folder: Path, config: streamlink.LinkConfig
) -> None:
    """Give the model out, average what returns, and load the result into a module again."""
    torch.manual_seed(1)
    store, first = streamlink.open_store(folder), NextToken()
    streamlink.copy_model(first, store)
    print(f"model: {len(first.state_dict())} names, tied: {TorchModel(first).tied}")

    with streamlink.Server(listen, config) as server:
        sites = [threading.Thread(target=take_part, args=(server.address, n, config)) for n in here]
        for site in sites:
            site.start()
        rules = streamlink.RoundConfig(min_clients=len(SITES), num_rounds=rounds)
        reports = streamlink.ScatterAndGather(server, store, rules).run()
    for site in sites:
        site.join()

    for report in reports:
        print(f"round {report.round}: loss {report.metrics['loss']:.3f} before training")
    final = NextToken()
    streamlink.copy_model(store, final)
    is_same = streamlink.digest_of(final) == streamlink.digest_of(store)
    print(f"the module has the stored model: {is_same}")
    print(f"batches seen by the norm: {int(final.norm.num_batches_tracked)}")
    print(f"final loss over all tokens: {loss_of(final, slice(None)):.3f}")


def main() -> None:
    options = argparse.ArgumentParser(description="Train a torch module over two sites.")
    options.add_argument("--rounds", type=int, default=8)
    options.add_argument("--listen", metavar="HOST:PORT", help="be the server of sites elsewhere")
    options.add_argument("--server", metavar="HOST:PORT", help="be a site of this server")
    options.add_argument("--site", type=int, default=1, choices=SITES)
    options.add_argument("--config", metavar="FILE.yaml", help="settings of this end")
    given = options.parse_args()
    config = JobConfig.assemble(given.config)
    torch.set_num_threads(1)  # the model is tiny
    if given.server:
        take_part(given.server, given.site, config)
        return
    with tempfile.TemporaryDirectory() as folder:
        listen, here = (given.listen, ()) if given.listen else ("127.0.0.1:0", SITES)
        serve(listen, here, given.rounds, Path(folder) / "model", config)


if __name__ == "__main__":
    main()
