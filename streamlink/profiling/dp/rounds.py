"""Two clients that train privately in rounds: their peak as measured, and as computed.

``python -m streamlink.profiling.dp.rounds MODE [SEQ_LENGTH]`` prints a JSON object for each client.
Each client is a process of its own, so that its peak is its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

from streamlink.profiling.dp.experiment import Experiment, ExperimentError, Mode

__all__ = ["Rounds", "run_rounds"]

MODEL = "small"
_NAMES = ("site-1", "site-2")
_SAMPLES, _BATCH, _STEPS = 16, 4, 2
_LAST_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Rounds:
    """What the rounds have shown."""

    facts: list[Mapping[str, Mapping[str, str]]]
    """Of each round: what each client stated about its training."""
    metrics: list[Mapping[str, Mapping[str, float]]]
    """Of each round: what each client measured, such as ``epsilon`` spent until then."""
    clients: Mapping[str, Mapping[str, Any]]
    """Of each client: ``peak_bytes`` and ``base_bytes`` as measured, ``computed``."""


def run_rounds(mode: Mode, *, seq_length: int = 32, rounds: int = 2, sigma: float = 1.0) -> Rounds:
    """Run rounds with two clients, which train a small Llama in ``mode``.

    Raises:
        ExperimentError: a client has ended early.
        StreamlinkError: the job failed.
    """
    import torch

    from streamlink import RoundConfig, ScatterAndGather, Server, copy_model
    from streamlink.profiling.dp.models import build
    from streamlink.stores import MemoryStore

    torch.manual_seed(0)
    store = MemoryStore()
    copy_model(build(MODEL, seq_length), store)
    rules = RoundConfig(min_clients=2, num_rounds=rounds, wait_for_clients_seconds=600.0)
    with ExitStack() as processes:
        with Server("127.0.0.1:0") as server:
            order = {"address": server.address, "mode": mode.value, "seq_length": seq_length}
            clients = {}
            for name in _NAMES:
                clients[name] = _client({**order, "name": name, "sigma": sigma})
                processes.callback(_end, clients[name])
            reports = ScatterAndGather(server, store, rules).run()
        # A client ends when its server has said goodbye.
        figures = {name: _figures(name, client) for name, client in clients.items()}
    return Rounds(
        [each.metadata for each in reports],
        [each.client_metrics for each in reports],
        figures,
    )


def _client(order: Mapping[str, Any]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "streamlink.profiling.dp.rounds"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(order) + "\n")
    process.stdin.flush()
    return process


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def _figures(name: str, process: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        output, _ = process.communicate(timeout=_LAST_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise ExperimentError(
            f"client {name} has not ended {_LAST_SECONDS:g} s after its server"
        ) from error
    if process.returncode:
        raise ExperimentError(f"client {name} ended with exit code {process.returncode}")
    figures: dict[str, Any] = json.loads(output.splitlines()[-1])
    return figures


def _take_part(order: Mapping[str, Any]) -> dict[str, Any]:
    """Be one client until the job is done; return what its memory was."""
    import torch

    from streamlink import Client, StreamConfig, WholeExecutor
    from streamlink.profiling.dp.forecast import forecast
    from streamlink.profiling.dp.models import build, synthetic_batch
    from streamlink.profiling.dp.modes import Privacy
    from streamlink.profiling.dp.shapes import SHAPES
    from streamlink.profiling.dp.site import PrivateTraining
    from streamlink.profiling.memory import (
        give_back_freed_memory,
        peak_bytes,
        reset_peak,
        resident_bytes,
    )

    os.putenv("CUDA_VISIBLE_DEVICES", "")  # read when CUDA is loaded: FSDP2 would choose a GPU
    give_back_freed_memory()
    mode, length = Mode(order["mode"]), order["seq_length"]
    chance = torch.Generator().manual_seed(_NAMES.index(order["name"]))
    samples = synthetic_batch(_SAMPLES, length, SHAPES[MODEL].vocabulary, generator=chance)
    training = PrivateTraining(
        mode,
        samples,
        batch_size=_BATCH,
        steps=_STEPS,
        learning_rate=1e-3,
        privacy=Privacy(sigma=order["sigma"]),
    )
    _warm_up(mode)
    base = resident_bytes()
    reset_peak()
    model = build(MODEL, length)
    with Client(order["address"], order["name"], WholeExecutor(training, model)) as client:
        client.run()
    largest = max(1, training.largest_batch)  # Poisson sampling may draw none
    experiment = Experiment(mode=mode, seq_length=length, batch_size=largest, dtype="float32")
    expected = forecast(experiment, SHAPES[MODEL])
    window = StreamConfig().window_bytes
    computed = training.computed_bytes(model, expected.activations + expected.norms, window)
    return {"base_bytes": base, "peak_bytes": peak_bytes(), "computed": computed}


def _warm_up(mode: Mode) -> None:
    """Train once on next to nothing: the code that torch loads in its first step is no one's model.

    The base is measured after it, and so counts the program.
    """
    import torch

    from streamlink.profiling.dp.models import build, synthetic_batch
    from streamlink.profiling.dp.modes import Privacy
    from streamlink.profiling.dp.shapes import SHAPES
    from streamlink.profiling.dp.site import PrivateTraining

    one = synthetic_batch(1, 8, SHAPES["tiny"].vocabulary, generator=torch.Generator())
    PrivateTraining(mode, one, batch_size=1, steps=1, learning_rate=1e-3, privacy=Privacy()).train(
        build("tiny", 8)
    )


def main() -> None:
    """Be a client, as standard input says, or run the rounds that the command line asks for."""
    if len(sys.argv) == 1:
        print(json.dumps(_take_part(json.loads(sys.stdin.readline()))), flush=True)
        return
    length = int(sys.argv[2]) if len(sys.argv) > 2 else 32
    print(json.dumps(asdict(run_rounds(Mode(sys.argv[1]), seq_length=length)), indent=2))


if __name__ == "__main__":
    main()
