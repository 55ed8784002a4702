"""Whatever ends an experiment is its result."""

import os
import signal
from importlib.util import find_spec

import psutil
import pytest

from streamlink.profiling.dp.experiment import Experiment, Mode
from streamlink.profiling.dp.launch import run_experiment

pytestmark = [
    pytest.mark.skipif(find_spec("opacus") is None, reason="needs streamlink-fl[dp]"),
    pytest.mark.timeout(600),
    pytest.mark.processes,
]


def experiment(mode: Mode = Mode.FLASH, **settings: object) -> Experiment:
    facts = {"mode": mode, "seq_length": 16, "batch_size": 1, "num_iter": 1, "warmup_iter": 0}
    return Experiment.model_validate({**facts, **settings})


def test_an_experiment_of_two_ranks_has_figures_of_each_step() -> None:
    result = run_experiment(experiment(world_size=2, num_iter=2, warmup_iter=1))
    assert result.failure is None
    assert result.steps is not None
    assert len(result.steps.seconds) == len(result.steps.peak_bytes) == 2
    assert min(result.steps.peak_bytes) >= min(result.steps.held_bytes) > 0
    assert result.steps.profiled_bytes
    assert result.versions.keys() == {"torch", "opacus", "transformers"}


def test_a_model_that_is_not_there_is_named_with_what_can_be_used_instead() -> None:
    result = run_experiment(experiment(model_name="./no-such-model"))
    assert result.failure is not None
    assert "./no-such-model cannot be loaded" in result.failure.text
    assert "tiny, small, llama-1b, llama-8b" in result.failure.text


def test_an_experiment_that_would_not_fit_is_not_started() -> None:
    result = run_experiment(experiment(model_name="llama-8b", batch_size=4096))
    assert result.failure is not None
    assert result.failure.kind == "forecast"
    assert "it would need about" in result.failure.text
    assert result.forecast_bytes is not None
    assert result.forecast_bytes > 10**11


def test_more_gpus_than_there_are_is_said_with_the_remedy() -> None:
    import torch

    ranks = torch.cuda.device_count() + 1
    result = run_experiment(experiment(device="cuda", world_size=ranks))
    assert result.failure is not None
    assert f"{ranks} GPUs are needed" in result.failure.text
    assert "--device cpu" in result.failure.text


def test_a_rank_that_does_not_end_is_killed_and_said() -> None:
    result = run_experiment(experiment(), timeout_seconds=0.1)
    assert result.failure is not None
    assert (result.failure.kind, result.steps) == ("timeout", None)


def test_a_rank_that_dies_ends_the_experiment_with_what_killed_it() -> None:
    def kill_all(_: object) -> None:
        for child in psutil.Process(os.getpid()).children():
            child.send_signal(signal.SIGKILL)

    result = run_experiment(experiment(world_size=2), progress=kill_all)
    assert result.failure is not None
    assert result.failure.kind == "rank_died"
    assert "was killed by SIGKILL" in result.failure.text
