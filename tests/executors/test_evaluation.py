"""Evaluation by each executor: where the model is while the user's function looks at it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from streamlink.executors.executor import Executor, Task, TaskResult
from streamlink.executors.ondisk import OnDiskExecutor
from streamlink.executors.streaming import StreamingExecutor
from streamlink.executors.whole import WholeExecutor
from streamlink.rounds.evaluate.report import Evaluation
from tests.support.jobs import Job
from tests.support.peers import Array

MODEL: dict[str, Array] = {"w": np.zeros((5, 700), np.float32), "n": np.zeros(77, np.int64)}


def add_one(model: dict[str, Array], task: Task) -> TaskResult:
    for array in model.values():
        array += 1
    return TaskResult(2.0)


def mean_of_arrays(model: dict[str, Array], task: Task) -> TaskResult:
    return TaskResult(3.0, {"mean": float(model["w"].mean()), "round": float(task.round)})


def evaluations(executor: Executor, rounds: int = 1, **rules: Any) -> list[Evaluation | None]:
    """Run rounds with one client, and return what it found of each."""
    arrays = {name: array.copy() for name, array in MODEL.items()}
    rules = {"evaluate_every": 1, "min_clients": 1, "num_rounds": rounds, **rules}
    with Job(arrays=arrays, **rules) as job:
        job.site(1, executor)
        job.start(1)
        return [report.evaluation for report in job.reports()]


def found_by(executor: Executor) -> Evaluation:
    (found,) = evaluations(executor)
    assert found is not None
    assert not found.failures
    return found


def test_a_streaming_client_evaluates_a_dict_of_arrays() -> None:
    work = StreamingExecutor(lambda tensor, start, values: values + 1, evaluate=mean_of_arrays)
    found = found_by(work)
    assert (found.metrics, found.weights) == ({"mean": 1.0, "round": 0.0}, {"site-1": 3.0})


@pytest.mark.parametrize("returns", ["values", "differences"])
def test_a_whole_model_is_evaluated_where_it_is_trained(returns: Any) -> None:
    model = {name: array.copy() for name, array in MODEL.items()}

    def evaluate(given: dict[str, Array], task: Task) -> dict[str, float]:
        assert given is model
        return {"mean": float(given["w"].mean())}

    found = found_by(WholeExecutor(add_one, model, returns=returns, evaluate=evaluate))
    assert (found.metrics, found.weights) == ({"mean": 1.0}, {"site-1": 1.0})


def test_a_torch_module_is_evaluated_as_it_is() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(700, 5)
    arrays = {
        name: np.zeros(value.shape, np.float32) for name, value in module.state_dict().items()
    }

    def train(model: Any, task: Task) -> None:
        with torch.no_grad():
            model.weight.fill_(0.5)

    def evaluate(model: Any, task: Task) -> dict[str, Any]:
        assert model is module
        return {"mean": model.weight.mean()}  # a tensor of one element

    rules: dict[str, Any] = {"evaluate_every": 1, "min_clients": 1}
    with Job(arrays=arrays, **rules) as job:
        job.site(1, WholeExecutor(train, module, evaluate=evaluate))
        job.start(1)
        found = job.report().evaluation
    assert found is not None
    assert found.metrics == {"mean": 0.5}


def test_a_model_on_disk_is_evaluated_in_its_directory(tmp_path: Path) -> None:
    def work(model_dir: Path, update_dir: Path, task: Task) -> None:
        (file,) = model_dir.glob("*.safetensors")
        (update_dir / "model.safetensors").write_bytes(file.read_bytes())

    def evaluate(model_dir: Path, task: Task) -> dict[str, float]:
        (file,) = model_dir.glob("*.safetensors")
        return {"tensors": len(load_file(file))}

    assert found_by(OnDiskExecutor(work, tmp_path, evaluate=evaluate)).metrics == {"tensors": 2.0}


def test_rounds_in_duplex_evaluate_each_model_before_it_is_trained_further() -> None:
    work = WholeExecutor(add_one, next_model="memory", evaluate=mean_of_arrays)
    found = evaluations(work, rounds=4, duplex_bytes=1 << 20, evaluate_every=2)
    means = [each.metrics["mean"] if each else None for each in found]
    assert means == [None, 2.0, None, 4.0]
