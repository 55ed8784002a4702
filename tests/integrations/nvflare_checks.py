"""Checks of the components and the sides, run by the python of FLARE's environment.

``python -m tests.integrations.nvflare_checks`` runs all of them and prints the names of those that
hold; ``test_nvflare`` asks for that. No job runs: the components get a context of FLARE's kind.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.abstract.model import ModelLearnableKey

from streamlink import copy_model
from streamlink.errors import CorruptStore, ModelError
from streamlink.integrations.nvflare import StoreAggregator, StorePersistor
from streamlink.integrations.tensors import TORCH
from streamlink.stores import SafetensorsStore
from tests.integrations import nvflare_download_checks, nvflare_side_checks
from tests.integrations.nvflare_side_checks import MODEL

Values = dict[str, Any]
MODULES = (sys.modules[__name__], nvflare_side_checks, nvflare_download_checks)


class Job:
    """One job's components, over a first model on the disk."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        copy_model(MODEL, SafetensorsStore(folder / "model"))
        self.persistor = StorePersistor(str(folder / "model"), **settings)
        self.aggregator = StoreAggregator()
        engine = SimpleNamespace(get_component=lambda name: self.persistor)
        self.context: Any = SimpleNamespace(
            get_engine=lambda: engine, get_job_id=lambda: "job", get_prop=lambda *_, **__: None
        )
        self.aggregator.fl_ctx = self.context

    def mean(self, kind: ParamsType, *updates: Values) -> Values:
        for number, each in enumerate(updates):
            meta = {"client_name": f"site-{number}", "NUM_STEPS_CURRENT_ROUND": 1}
            self.aggregator.accept_model(FLModel(params_type=kind, params=each, meta=meta))
        params = self.aggregator.aggregate_model().params
        return {name: value.materialize() for name, value in params.items()}


def check_differences_of_another_dtype_and_of_some_tensors_are_added(folder: Path) -> None:
    job = Job(folder)
    halves: list[Values] = [
        {"w": np.full((2, 3), by, np.float16), "narrow": np.full(4, by, np.float32)}
        for by in (1, 3)
    ]
    for number in (1, 2):  # the second time to the model that the first has stored
        seen = job.mean(ParamsType.DIFF, *halves)
        assert {name: value.dtype for name, value in seen.items()} == {
            name: value.dtype for name, value in MODEL.items()
        }
        assert np.array_equal(seen["w"], MODEL["w"] + 2 * number)
        assert np.array_equal(seen["narrow"], np.full(4, 1 + 2 * number))
        assert np.array_equal(seen["b"], MODEL["b"])


def refusal(job: Job, kind: ParamsType, update: Values) -> str:
    """Return why an update is refused."""
    try:
        job.mean(kind, update)
    except ModelError as error:
        return str(error)
    raise AssertionError("it was not refused")


def check_differences_of_what_the_model_does_not_have_are_refused(folder: Path) -> None:
    for strange in ({"v": np.ones(3, np.float32)}, {"w": np.ones((3, 2), np.float32)}):
        assert next(iter(strange)) in refusal(Job(folder), ParamsType.DIFF, strange)


def check_models_beside_differences_are_refused(folder: Path) -> None:
    job = Job(folder)
    job.aggregator.accept_model(FLModel(params_type=ParamsType.FULL, params=dict(MODEL)))
    assert "models from others" in refusal(job, ParamsType.DIFF, dict(MODEL))


def check_an_update_that_is_not_finite_is_refused_by_its_site_unless_accepted(folder: Path) -> None:
    job, diverged = Job(folder), {"w": np.full((2, 3), np.inf, np.float32)}
    for kind in (ParamsType.FULL, ParamsType.DIFF):
        assert "'w' in the update of site-0" in refusal(job, kind, diverged)
        job.aggregator.reset_stats()
    accepting = StoreAggregator(accept_non_finite=True)
    accepting.fl_ctx, job.aggregator = job.context, accepting
    assert np.isinf(job.mean(ParamsType.FULL, diverged)["w"]).all()


def check_steps_and_metrics_count_as_in_flares_own_average(folder: Path) -> None:
    """Steps that are no number, or none that can be a weight, count as one."""
    job = Job(folder)
    for number, steps in enumerate((3, None, "abc", float("nan"), -1)):
        meta = {"client_name": f"site-{number}", "NUM_STEPS_CURRENT_ROUND": steps}
        values = {name: value + number for name, value in MODEL.items()}
        model = FLModel(params=values, meta=meta, metrics={"loss": float(number)})
        job.aggregator.accept_model(model)
    mean = job.aggregator.aggregate_model()
    expected = (0 * 3 + 1 + 2 + 3 + 4) / 7
    assert abs(mean.metrics["loss"] - expected) < 1e-12
    assert np.allclose(mean.params["w"].materialize(), MODEL["w"] + expected)
    job.aggregator.accept_model(FLModel(params=dict(MODEL), meta={"client_name": "a"}))
    assert job.aggregator.aggregate_model().metrics is None  # not all have sent some


def check_a_damaged_model_of_a_job_is_no_first_round(folder: Path) -> None:
    job = Job(folder)
    job.mean(ParamsType.FULL, dict(MODEL))
    for path in (folder / "model-jobs").rglob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:-5])
    try:
        job.persistor.load_model(job.context)
    except CorruptStore:
        return
    raise AssertionError("the job would begin anew")


def check_a_job_begins_with_the_first_model(folder: Path) -> None:
    job = Job(folder)
    weights = job.persistor.load_model(job.context)[ModelLearnableKey.WEIGHTS]
    assert np.array_equal(weights["w"].materialize(), MODEL["w"])


def check_clients_get_tensors_where_the_persistor_is_told_so(folder: Path) -> None:
    job = Job(folder, kind=TORCH)
    first = job.persistor.load_model(job.context)[ModelLearnableKey.WEIGHTS]
    first = {name: value.materialize() for name, value in first.items()}
    mean = job.mean(ParamsType.FULL, first, {name: value + 2 for name, value in first.items()})
    for values, more in ((first, 0), (mean, 1)):
        assert {name: value.dtype for name, value in values.items()} == {
            "w": torch.float32, "b": torch.float64, "narrow": torch.bfloat16
        }  # fmt: skip
        for name, value in values.items():
            assert value.tolist() == (MODEL[name] + more).tolist()


def checks_of(module: ModuleType) -> list[tuple[str, Callable[[Path], None]]]:
    """Return the checks of a module, by name."""
    return [(name, each) for name, each in vars(module).items() if name.startswith("check_")]


def main() -> int:
    # As under ``ulimit -n 1024``: a job of many sites must not need more descriptors.
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
    failed = 0
    for name, run in [found for where in MODULES for found in checks_of(where)]:
        try:
            with tempfile.TemporaryDirectory() as folder:
                run(Path(folder))
            print("holds", name)
        except Exception:
            failed += 1
            print("FAILS", name)
            traceback.print_exc()
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
