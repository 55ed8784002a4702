"""The example projects with ``flwr run``: in Flower's simulation, and in processes of Flower."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks.integrations.cases import Case
from benchmarks.integrations.flower_processes import (
    Federation,
    flwr_run,
    flwr_variables,
    simulated,
)
from benchmarks.integrations.running import CaseFailed, Running, run_case
from streamlink import open_model
from tests.support.framework_environments import environment_of

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.processes,
    pytest.mark.timeout(1200),
]

EXAMPLES = Path(__file__).parents[2] / "examples" / "flower"
ROUNDS = 2
CONFIG = f'num-server-rounds={ROUNDS} streamlink-listen="127.0.0.1:0" streamlink-server="127.0.0.1"'


python = environment_of("flower")


def run_example(name: str, running: Running) -> str:
    """Run a project to its end, in the mode of the case; return what ``flwr run`` printed."""
    app, env = running.folder / name, flwr_variables(running)
    shutil.copytree(EXAMPLES / name, app, ignore=shutil.ignore_patterns("__pycache__"))
    words = ["--run-config", CONFIG]
    if running.case.mode == "simulation":
        simulated(running, app, env | {"PYTHONPATH": ""}, *words)  # so streamlink is installed
        return (running.folder / "driver.log").read_text("utf-8")
    federation = Federation(running, env)
    federation.start_link()
    for number in range(running.case.clients):
        federation.start_node(f"partition-id={number}")
    running.finish(flwr_run(running, app, env, *words), seconds=900)
    federation.close()
    return (running.folder / "driver.log").read_text("utf-8")


def numpy_example(running: Running) -> None:
    """Run it, and check the file that it leaves: ones, and one more with each round."""
    said = run_example("quickstart_numpy", running)
    [path] = running.folder.rglob("final_model.npz")
    with np.load(path) as model:
        if not all((array == 1 + ROUNDS).all() for array in model.values()):
            raise CaseFailed("the final model is another one")
    require(f"every value is {1 + ROUNDS}: True" in said, "the ServerApp did not check its model")


def pytorch_example(running: Running) -> None:
    """Run it, and check that it learns, and the store that it leaves."""
    said = run_example("quickstart_pytorch", running)
    metrics = said.rpartition("ServerApp-side Evaluate Metrics")[2]
    losses = [float(each) for each in re.findall(r"'loss': '([^']+)'", metrics)]
    require(len(losses) == 1 + ROUNDS and losses[-1] < losses[0], f"losses {losses}")
    [path] = running.folder.rglob("final_model")
    names = {"conv1", "conv2", "fc1", "fc2", "fc3"}
    found = {tensor.name.partition(".")[0] for tensor in open_model(path).spec.tensors}
    require(found == names, f"the final model has {found}")


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise CaseFailed(otherwise)


@pytest.mark.parametrize("mode", ["simulation", "processes"])
@pytest.mark.parametrize("example", [numpy_example, pytorch_example])
def test_a_quickstart_ends_with_its_model_and_leaves_nothing(
    python: Path, example: object, mode: str
) -> None:
    assert callable(example)
    case = Case("flower", mode=mode)
    outcome = run_case(case, example, python, limit_bytes=8_000_000_000, timeout=1000)
    assert outcome.ended == "done", outcome.said
    assert not outcome.left_behind
