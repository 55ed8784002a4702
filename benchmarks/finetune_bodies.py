"""What the processes of ``finetune`` do: a server, and two clients that train.

The network is a small transformer, as language models are: tied embeddings, causal attention, GELU.
Its weights are bfloat16 and so are gradients and AdamW's moments. Products of matrices are computed
in float32 from these weights, since most processors have no bfloat16 of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

import streamlink
from benchmarks.worker import Port
from streamlink.stores import MemoryStore

__all__ = ["client", "serve"]

JOB = "finetune"
BATCH, TOKENS = 1, 16
DEVIATION, SEED = 0.02, 1
NOISE = 0.1  # the part of the tokens that follow no rule


class Block(nn.Module):
    """Attention and a network of two layers, each added to what comes in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = _weight(3 * width, width), _weight(width, width)
        self.up, self.down = _weight(4 * width, width), _weight(width, 4 * width)

    def forward(self, states: Tensor) -> Tensor:
        """Return new states of the same shape: (batch, tokens, width), float32."""
        batch, tokens, width = states.shape
        qkv = _linear(_normed(states, self.before), self.qkv)
        query, key, value = qkv.view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        states = states + _linear(mixed.transpose(1, 2).reshape(batch, tokens, width), self.out)
        hidden = functional.gelu(_linear(_normed(states, self.between), self.up))
        return states + _linear(hidden, self.down)


class Network(nn.Module):
    """Predicts the next of ``words`` tokens."""

    def __init__(self, words: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        torch.manual_seed(SEED)
        self.words = _weight(words, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.last = nn.LayerNorm(width)
        self.to(torch.bfloat16)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of each next token: (batch, tokens, words), float32."""
        states = functional.embedding(tokens, self.words).float()
        for block in self.blocks:
            states = block(states)
        return _linear(_normed(states, self.last), self.words)


def serve(
    port: Port, network: dict[str, int], rounds: int, stream: dict[str, Any], spool: str
) -> None:
    """Hold the model in memory, run the rounds when both clients are there, and report each."""
    arrays = {name: _array(each) for name, each in Network(**network).state_dict().items()}
    store = MemoryStore(arrays)
    rules = streamlink.RoundConfig(min_clients=2, num_rounds=rounds, gather="spool")

    moved: list[dict[str, Any]] = []

    def note(facts: streamlink.TransferFacts) -> None:
        assert facts.attempt is not None, "only rounds move models here"
        moved.append(
            {
                "round": facts.attempt.round,
                "client": facts.peer_name,
                "direction": facts.direction,
                "nbytes": facts.bytes,
                "wire_bytes": facts.wire_bytes,
                "seconds": facts.seconds,
            }
        )

    def on_event(event: streamlink.RoundEvent) -> None:
        if event.kind is streamlink.rounds.EventKind.ROUND_DONE:
            port.tell("round")  # the lines are counted between two rounds
            port.wait_for("go")

    config = streamlink.LinkConfig(stream=streamlink.StreamConfig(**stream))
    with streamlink.Server("127.0.0.1:0", config, on_transfer=note) as server:
        job = streamlink.ScatterAndGather(
            server, store, rules, spool=Path(spool), job=JOB, on_event=on_event
        )
        port.tell("listening", address=f"127.0.0.1:{server.port}")
        port.wait_for("go")
        reports = job.run()
    port.tell(
        "ran",
        moved=moved,
        digest=streamlink.digest_of(store),
        losses=[report.metrics["loss"] for report in reports],
        failures=[report.failures for report in reports if report.failures],
    )


def client(
    port: Port,
    number: int,
    network: dict[str, int],
    steps: int,
    learning_rate: float,
    stream: dict[str, Any],
) -> None:
    """Train with data of its own, which depends on ``number`` and the round alone."""
    torch.set_num_threads(1)  # the bits must not depend on what else runs
    torch.use_deterministic_algorithms(True)

    def train(model: Network, task: streamlink.Task) -> streamlink.TaskResult:
        generator = torch.Generator().manual_seed(1000 * number + task.round)
        optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, fused=True)
        loss = torch.zeros(())
        for _ in range(steps):
            loss = _loss(model, _tokens(generator, network["words"], number))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        model.zero_grad(set_to_none=True)
        return streamlink.TaskResult(metrics={"loss": loss.item()})

    executor = streamlink.WholeExecutor(train, Network(**network))
    config = streamlink.LinkConfig(stream=streamlink.StreamConfig(**stream))
    address = port.wait_for("server")["address"]
    with streamlink.Client(address, f"site-{number}", executor, config) as here:
        port.tell("joined")
        here.run()


def _weight(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(shape) * DEVIATION)


def _linear(states: Tensor, weight: Tensor) -> Tensor:
    return functional.linear(states, weight.float())


def _normed(states: Tensor, norm: nn.LayerNorm) -> Tensor:
    return functional.layer_norm(
        states, norm.normalized_shape, norm.weight.float(), norm.bias.float()
    )


def _tokens(generator: torch.Generator, words: int, number: int) -> Tensor:
    """Return texts in which each token gives the next one, by a rule of this client, or at times
    chance does."""
    chance = torch.randint(words, (BATCH, TOKENS + 1), generator=generator)
    is_noise = torch.rand(chance.shape, generator=generator) < NOISE
    tokens = chance.clone()
    for at in range(1, TOKENS + 1):
        following = ((2 * number + 1) * tokens[:, at - 1] + number) % words
        tokens[:, at] = torch.where(is_noise[:, at], chance[:, at], following)
    return tokens


def _loss(model: Network, tokens: Tensor) -> Tensor:
    scores = model(tokens[:, :-1])
    return functional.cross_entropy(scores.transpose(1, 2), tokens[:, 1:])


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    integers: npt.NDArray[Any] = tensor.view(torch.int16).numpy()  # which NumPy has, too
    return integers.view(ml_dtypes.bfloat16)
