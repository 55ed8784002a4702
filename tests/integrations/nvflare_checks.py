"""Checks of the components and the sides, run by the python of FLARE's environment.

``python -m tests.integrations.nvflare_checks`` runs all of them and prints the names of those that
hold; ``test_nvflare`` asks for that. No job runs: the components get a context of FLARE's kind.
"""

from __future__ import annotations

import os
import socket
import tempfile
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.abstract.model import ModelLearnableKey

from streamlink import copy_model
from streamlink.errors import CorruptStore, ModelError, ObjectLimit
from streamlink.integrations.nvflare import StoreAggregator, StorePersistor
from streamlink.integrations.nvflare.sides import ServerSide, SiteSide, close_all, join
from streamlink.stores import SafetensorsStore

Values = dict[str, Any]
MODEL: Values = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.ones(3, np.float64),
    "narrow": np.ones(4, ml_dtypes.bfloat16),
}


class Job:
    """One job's components, over a first model on the disk."""

    def __init__(self, folder: Path) -> None:
        copy_model(MODEL, SafetensorsStore(folder / "model"))
        self.persistor = StorePersistor(str(folder / "model"))
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


def cell(name: str) -> Any:
    """Return what a side asks of FLARE's cell of that name."""
    return SimpleNamespace(
        get_fqcn=lambda: name,
        get_fobs_context=dict,
        get_root_url_for_child=lambda: "grpc://127.0.0.1:1",
    )


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


def check_a_site_whose_session_is_over_joins_again(folder: Path) -> None:
    source = SafetensorsStore(folder / "model")
    copy_model(MODEL, source)
    with socket.create_server(("127.0.0.1", 0)) as free:
        low = free.getsockname()[1]
    os.environ["NVFLARE_STREAMLINK_PORTS"] = f"{low}-{low + 39}"  # the same pair both times
    site = cell("site-1.a-job")
    first = ServerSide(cell("server.a-job"))
    port = first.objects.port
    with closing(source.open()) as model:
        side = join(site, first.offer(model, "site-1.a-job"))
        assert isinstance(side, SiteSide)
        assert join(site, first.offer(model, "site-1.a-job")) is side
        first.close()
        for _ in range(6000):  # the goodbye is on its way
            if side.client.is_over or Event().wait(0.01):
                break
        assert side.client.is_over
        again = ServerSide(cell("server.a-job"))
        assert again.objects.port == port
        other = join(site, again.offer(model, "site-1.a-job"))
        assert other is not side
        close_all()
        again.close()


def check_a_server_takes_no_more_than_streamlink_max_bytes(folder: Path) -> None:
    copy_model(MODEL, SafetensorsStore(folder / "model"))
    copy_model({"w": np.ones(1024, np.float64)}, SafetensorsStore(folder / "large"))
    server = ServerSide(cell("server.a-job"))
    try:
        with closing(SafetensorsStore(folder / "model").open()) as model:
            side = join(cell("site-1.a-job"), server.offer(model, "site-1.a-job"))
            assert side.offer(model, "server.a-job").reference
        with closing(SafetensorsStore(folder / "large").open()) as large:
            assert "4096" in refused(lambda: side.offer(large, "server.a-job"))
    finally:
        close_all()
        server.close()


def refused(offer: Callable[[], object]) -> str:
    try:
        offer()
    except ObjectLimit as error:
        return str(error)
    raise AssertionError("it was accepted")


def check_a_trainer_in_a_process_of_its_own_gets_flares_own_bytes(folder: Path) -> None:
    side = ServerSide(cell("server.a-job"))
    try:
        assert side.reaches("site-1.a-job")
        assert side.reaches("relay.site-1.a-job")
        assert not side.reaches("site-1.a-job.trainer")
        assert not side.reaches("site-1")
    finally:
        side.close()


def main() -> int:
    # Before all: FLARE reads each setting once.
    os.environ["NVFLARE_STREAMLINK_MAX_BYTES"] = "4KiB"
    failed = 0
    for name, check in [(n, c) for n, c in globals().items() if n.startswith("check_")]:
        try:
            with tempfile.TemporaryDirectory() as folder:
                check(Path(folder))
            print("holds", name)
        except Exception:
            failed += 1
            print("FAILS", name)
            traceback.print_exc()
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
