"""One rank of one experiment: ``python -m streamlink.profiling.dp.worker``.

Standard input has the order, a line of JSON; standard output has a line of JSON for each step, and
a last one with the figures, or why it failed. That keeps a token out of the list of processes.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict

from streamlink.profiling.dp.experiment import Experiment, ExperimentError
from streamlink.profiling.dp.forecast import forecast
from streamlink.profiling.memory import available_bytes, give_back_freed_memory

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
    ignores_forecast: bool = False
    token: str | None = None


class _TooLarge(ExperimentError):
    """The forecast says that memory will run out."""


def main() -> int:
    """Run the rank that standard input asks for; returns its exit code."""
    order = Order.model_validate_json(sys.stdin.readline())
    try:
        _emit("result", **_run(order))
    except Exception as error:
        traceback.print_exc()
        _emit("failed", kind=_kind(error), text=_sentence(error))
        sys.stderr.flush()
        os._exit(1)  # at once: closing the group of ranks that wait for this one may block
    return 0


def _run(order: Order) -> dict[str, Any]:
    experiment = order.experiment
    if experiment.device == "cpu":
        # FSDP2 would choose a GPU if torch saw one; CUDA's library reads this when it is loaded.
        os.putenv("CUDA_VISIBLE_DEVICES", "")
        _require_memory(order)  # before PyTorch is loaded, which takes seconds
    give_back_freed_memory()
    import torch
    import torch.distributed as dist

    device = _device(order)
    if experiment.device == "cuda":
        _require_memory(order, device)
    dist.init_process_group(
        "nccl" if experiment.device == "cuda" else "gloo",
        f"file://{order.rendezvous}",
        rank=order.rank,
        world_size=experiment.world_size,
        timeout=timedelta(seconds=order.timeout_seconds),
    )
    # Not after an error: the other ranks would fail next, and might report that before this one
    # reports the cause.
    figures = _train(order, device)
    dist.destroy_process_group()
    import opacus
    import transformers

    versions = {each.__name__: each.__version__ for each in (torch, opacus, transformers)}
    return {**figures, "versions": versions}


def _device(order: Order) -> Any:
    import torch

    ranks = order.experiment.world_size
    if order.experiment.device == "cpu":  # ranks that share a machine share its cores
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // ranks))
        return torch.device("cpu")
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if there < ranks:
        raise ExperimentError(
            f"{ranks} GPUs are needed, one for each rank, and torch sees {there}; use --device "
            "cpu, fewer ranks (--world-size), or a build of torch for CUDA"
        )
    torch.cuda.set_device(order.rank)
    return torch.device("cuda", order.rank)


def _require_memory(order: Order, gpu: Any = None) -> None:
    from streamlink.profiling.dp.models import shape_of

    experiment = order.experiment
    expected = forecast(experiment, shape_of(experiment.model_name, order.token)).total
    _emit("forecast", bytes=expected)
    if gpu is not None:
        import torch

        there, of = torch.cuda.mem_get_info(gpu)[0], "this GPU"
    else:
        there, of = available_bytes() // experiment.world_size, "this machine for each rank"
    if expected > there and not order.ignores_forecast:
        raise _TooLarge(
            f"it would need about {expected / 1e9:.1f} GB, and {there / 1e9:.1f} GB are free on "
            f"{of}; use shorter sequences (--seq-length), fewer samples (--batch-size), more "
            "ranks, or --ignore-forecast"
        )


def _train(order: Order, device: Any) -> dict[str, Any]:
    import torch

    from streamlink.profiling.dp.measure import measured, profiled_bytes

    experiment = order.experiment
    made, model, batch = _made(order, device)
    steps = []
    for number in range(experiment.warmup_iter + experiment.num_iter):
        taken = measured(lambda: made.step(batch), device)
        _emit("step", number=number, seconds=taken.seconds, peak_bytes=taken.peak_bytes)
        steps.append(taken)
    kept, is_gpu = steps[experiment.warmup_iter :], device.type == "cuda"
    return {
        "seconds": [each.seconds for each in kept],
        "peak_bytes": [each.peak_bytes for each in kept],
        "held_bytes": [each.held_bytes for each in kept],
        "profiled_bytes": None if is_gpu else profiled_bytes(lambda: made.step(batch)),
        "parameters": sum(each.numel() for each in model.parameters()),
        "vocab_size": model.config.vocab_size,
        "device_name": torch.cuda.get_device_name(device) if is_gpu else "CPU",
    }


def _made(order: Order, device: Any) -> Any:
    """Return the trainer, its model, and this rank's batch."""
    import torch

    from streamlink.profiling.dp.models import build, synthetic_batch
    from streamlink.profiling.dp.modes import Privacy, trainer

    experiment = order.experiment
    torch.manual_seed(experiment.seed)
    model = build(experiment.model_name, experiment.seq_length, order.token).to(device)
    made = trainer(
        experiment.mode,
        model,
        experiment.batch_size,
        learning_rate=experiment.learning_rate,
        privacy=Privacy(experiment.sigma, experiment.max_grad_norm, experiment.seed),
        dtype=getattr(torch, experiment.dtype),
    )
    batch = synthetic_batch(
        experiment.batch_size,
        experiment.seq_length,
        model.config.vocab_size,
        generator=torch.Generator().manual_seed(
            experiment.seed * experiment.world_size + order.rank
        ),
    )
    return made, model, {name: each.to(device) for name, each in batch.items()}


def _kind(error: BaseException) -> str:
    torch = sys.modules.get("torch")  # not loaded for this alone
    if isinstance(error, MemoryError) or (torch and isinstance(error, torch.OutOfMemoryError)):
        return "out_of_memory"
    return "forecast" if isinstance(error, _TooLarge) else "error"


def _sentence(error: BaseException) -> str:
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return text if isinstance(error, ExperimentError) else f"{type(error).__name__}: {text}"


def _emit(event: str, **facts: Any) -> None:
    print(json.dumps({"event": event, **facts}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
