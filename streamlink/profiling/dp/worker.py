"""One rank of one experiment: ``python -m streamlink.profiling.dp.worker``.

Standard input has the order, a line of JSON (so a token appears in no list of processes); standard
output has a line of JSON for each step, and a last one with what was found, or why it ended.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict

from streamlink.profiling.dp.experiment import Experiment, ExperimentError

__all__ = ["Order"]


class Order(BaseModel):
    """What one rank is started with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    experiment: Experiment
    rank: int
    rendezvous: str
    """A file of the machine, where the ranks find each other."""
    timeout_seconds: float
    """After which a rank gives up one that does not answer."""
    token: str | None = None


def main() -> int:
    """Run the rank that standard input asks for; returns its exit code."""
    order = Order.model_validate_json(sys.stdin.readline())
    try:
        _say("found", **_run(order))
    except ExperimentError as error:
        _say("failed", kind="error", text=str(error))
        return 1
    except Exception as error:
        if not _is_out_of_memory(error):
            raise
        _say("failed", kind="out_of_memory", text=str(error).strip().splitlines()[0])
        return 1
    return 0


def _run(order: Order) -> dict[str, Any]:
    import torch
    import torch.distributed as dist

    from streamlink.profiling.memory import give_back_freed_memory

    give_back_freed_memory()
    asked = order.experiment
    device = torch.device(asked.device, *([order.rank] if asked.device == "cuda" else []))
    if device.type == "cuda":
        torch.cuda.set_device(device)
    else:  # ranks that share a machine share its cores
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // asked.world_size))
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        f"file://{order.rendezvous}",
        rank=order.rank,
        world_size=asked.world_size,
        timeout=timedelta(seconds=order.timeout_seconds),
    )
    try:
        return _train(order, device)
    finally:
        dist.destroy_process_group()


def _train(order: Order, device: Any) -> dict[str, Any]:
    import torch

    from streamlink.profiling.dp.measure import measured, profiled_bytes
    from streamlink.profiling.dp.models import build, synthetic_batch
    from streamlink.profiling.dp.modes import Privacy, trainer

    asked = order.experiment
    torch.manual_seed(asked.seed)
    model = build(asked.model_name, asked.seq_length, order.token)
    parameters = sum(each.numel() for each in model.parameters())
    vocabulary, padding = model.config.vocab_size, model.config.pad_token_id
    made = trainer(
        asked.mode,
        model.to(device),
        asked.batch_size,
        learning_rate=asked.learning_rate,
        privacy=Privacy(asked.sigma, asked.max_grad_norm, asked.seed),
        dtype=getattr(torch, asked.dtype),
    )
    generator = torch.Generator().manual_seed(asked.seed * asked.world_size + order.rank)
    batch = synthetic_batch(
        asked.batch_size, asked.seq_length, vocabulary, generator=generator, padding=padding
    )
    there = {name: each.to(device) for name, each in batch.items()}

    def step() -> Any:
        return made.step(there)

    steps = []
    for number in range(asked.warmup_iter + asked.num_iter):
        taken = measured(step, device)
        _say("step", number=number, seconds=taken.seconds, peak_bytes=taken.peak_bytes)
        steps.append(taken)
    kept = steps[asked.warmup_iter :]
    return {
        "seconds": [each.seconds for each in kept],
        "peak_bytes": [each.peak_bytes for each in kept],
        "held_bytes": [each.held_bytes for each in kept],
        "profiled_bytes": None if device.type == "cuda" else profiled_bytes(step),
        "parameters": parameters,
        "vocab_size": vocabulary,
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
    }


def _is_out_of_memory(error: BaseException) -> bool:
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    # Torch's allocator on a CPU has no class of its own for it.
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in "".join(
        map(str, error.args)
    )


def _say(event: str, **facts: Any) -> None:
    print(json.dumps({"event": event, **facts}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
