"""A tiny Llama trained privately for one step, and the same step from explicit gradients.

``python -m tests.support.private_training`` is one process; ``trained`` starts them all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from streamlink.profiling.dp.shapes import SHAPES
from tests.support.waiting import WAIT

__all__ = ["DEFAULTS", "batches", "explicit_step", "initial", "trained"]

BOUND = 0.7
_GUARD_SECONDS = 5 * WAIT  # a test's own limit is the other guard
DEFAULTS = {
    "samples": 2,
    "seq_length": 24,
    "sigma": 0.0,
    "seed": 0,
    "bound": BOUND,
    "device": "cpu",
}
"""Of a step of ``trained``."""


def initial(seq_length: int) -> nn.Module:
    from streamlink.profiling.dp.models import build  # seconds, which no collection should cost

    torch.manual_seed(3)
    return build("tiny", seq_length)


def batches(world: int, samples: int, seq_length: int) -> list[dict[str, Tensor]]:
    """Return a batch for each rank; every second sample is padded."""
    from streamlink.profiling.dp.models import synthetic_batch

    generator = torch.Generator().manual_seed(5)
    lengths = [seq_length - (number % 2) * (seq_length // 3) for number in range(samples)]
    vocabulary = SHAPES["tiny"].vocabulary
    return [
        synthetic_batch(samples, seq_length, vocabulary, generator=generator, lengths=lengths)
        for _ in range(world)
    ]


def explicit_step(
    seq_length: int, given: list[dict[str, Tensor]], bound: float = BOUND
) -> dict[str, Tensor]:
    """Return the mean of the clipped gradients, one sample after the other, without Opacus."""
    torch.set_num_threads(1)  # as the ranks; several would wait for each other, and spin meanwhile
    model = initial(seq_length).train()
    total = {name: torch.zeros_like(each) for name, each in model.named_parameters()}
    count = 0
    for batch in given:
        for row in range(len(batch["labels"])):
            one = {name: each[row : row + 1] for name, each in batch.items()}
            for name, gradient in _clipped(model, one, bound):
                total[name] += gradient
            count += 1
    return {name: each / count for name, each in total.items()}


def _clipped(model: nn.Module, one: dict[str, Tensor], bound: float) -> list[tuple[str, Tensor]]:
    model.zero_grad()
    out = model(input_ids=one["input_ids"], attention_mask=one["attention_mask"]).logits
    nn.functional.cross_entropy(out, one["labels"]).backward()
    found = [(name, each.grad) for name, each in model.named_parameters()]
    norm = torch.stack([each.norm() for _, each in found if each is not None]).norm()
    factor = (bound / (norm + 1e-6)).clamp(max=1.0)
    return [(name, each * factor) for name, each in found if each is not None]


def trained(folder: Path, *steps: Mapping[str, Any], world: int = 1) -> list[dict[str, Tensor]]:
    """Return the gradients that each step trains with: clipped, summed, noisy, mean.

    The same processes take all steps, each with a new model: to start one costs seconds.

    Args:
        folder: of this call alone.
        steps: ``mode``, and what differs from ``DEFAULTS``; with ``ranks`` those processes alone
            take the step, as a group of their own.
        world: how many processes there are; all of them are ranks of each other step.
    """
    from safetensors.torch import load_file

    folder.mkdir(parents=True, exist_ok=True)
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.support.private_training", str(folder), str(number)],
            stdin=subprocess.PIPE,
            text=True,
        )
        for number in range(world)
    ]
    for each in processes:
        assert each.stdin is not None
        each.stdin.write(json.dumps([{**DEFAULTS, "ranks": [*range(world)], **s} for s in steps]))
        each.stdin.close()
    try:
        assert [each.wait(_GUARD_SECONDS) for each in processes] == [0] * world
    finally:
        for each in processes:
            each.kill()
            each.wait()
    return [load_file(folder / f"{number}.safetensors") for number in range(len(steps))]


def _one_process(folder: Path, process: int) -> None:
    torch.set_num_threads(1)
    for number, given in enumerate(json.load(sys.stdin)):
        if process in given["ranks"]:
            _one_step(folder / str(number), given["ranks"].index(process), given)


def _one_step(place: Path, rank: int, given: Mapping[str, Any]) -> None:
    import torch.distributed as dist
    from safetensors.torch import save_file

    from streamlink.profiling.dp.experiment import Mode
    from streamlink.profiling.dp.modes import Privacy, trainer

    device, world = given["device"], len(given["ranks"])
    if device == "cpu":
        # FSDP2 would choose a GPU if torch saw one; CUDA's library reads this when it is loaded.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    dist.init_process_group(
        "gloo" if device == "cpu" else "nccl",
        f"file://{place}.rendezvous",
        rank=rank,
        world_size=world,
    )
    model = initial(given["seq_length"]).to(device)
    made = trainer(
        Mode(given["mode"]),
        model,
        given["samples"],
        learning_rate=0.5,
        privacy=Privacy(given["sigma"], given["bound"], given["seed"]),
        dtype=torch.float32,
    )
    batch = batches(world, given["samples"], given["seq_length"])[rank]
    made.step({name: each.to(device) for name, each in batch.items()})
    gradients = {
        name.removeprefix("_module."): each.grad.full_tensor().cpu()
        for name, each in made.model.named_parameters()
    }
    if rank == 0:
        save_file(gradients, f"{place}.safetensors")
    dist.destroy_process_group()


if __name__ == "__main__":
    _one_process(Path(sys.argv[1]), int(sys.argv[2]))
