"""Checks of the components and the sides, run by the python of FLARE's environment.

``python -m tests.integrations.nvflare_checks`` runs all of them and prints the names of those that
hold; ``test_nvflare`` asks for that. No job runs: the components get a context of FLARE's kind.
"""

from __future__ import annotations

import json
import os
import resource
import select
import socket
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from unittest import TestCase
from unittest.mock import patch

import ml_dtypes
import numpy as np
import torch
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.abstract.model import ModelLearnableKey
from nvflare.app_common.np.np_downloader import ArrayConsumer, ArrayDownloadable
from nvflare.fuel.f3.streaming.download_service import ProduceRC
from nvflare.fuel.f3.streaming.transfer_outcome import DownloadStatus
from nvflare.fuel.utils.config_service import ConfigService

from streamlink import CancelToken, ModelSource, ModelSpec, copy_model
from streamlink.errors import (
    AuthenticationFailed,
    Cancelled,
    CorruptStore,
    ModelError,
    ObjectLimit,
    ObjectRefused,
    SecurityError,
    StreamlinkError,
    UnknownObject,
)
from streamlink.integrations.nvflare import StoreAggregator, StorePersistor
from streamlink.integrations.nvflare.riding import ReferenceDownloadable, reference_consumer
from streamlink.integrations.nvflare.sides import (
    Offer,
    ServerSide,
    SiteSide,
    check,
    close_all,
    join,
    side_of,
)
from streamlink.integrations.tensors import TORCH
from streamlink.stores import SafetensorsStore, as_model

Values = dict[str, Any]
MODEL: Values = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.ones(3, np.float64),
    "narrow": np.ones(4, ml_dtypes.bfloat16),
}


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


# --- the two ends of a job ---------------------------------------------------


def cell(name: str) -> Any:
    """Return what a side asks of FLARE's cell of that name."""
    return SimpleNamespace(
        get_fqcn=lambda: name,
        get_fobs_context=dict,
        get_root_url_for_child=lambda: "grpc://127.0.0.1:1",
    )


@contextmanager
def settings(**values: object) -> Iterator[None]:
    """Set some of the integration's settings; FLARE would read each of them only once."""
    names = {f"NVFLARE_STREAMLINK_{name.upper()}": str(each) for name, each in values.items()}
    with patch.dict(os.environ, names):
        ConfigService.reset()
        yield
    ConfigService.reset()


@contextmanager
def a_job(**values: object) -> Iterator[ServerSide]:
    """Yield a job's server; all sites of the job leave it at the end."""
    with settings(**values), closing(ServerSide(cell("server.a-job"))) as server:
        try:
            yield server
        finally:
            close_all()


def offered(server: ServerSide, site: str) -> Offer:
    """Return what the job's process at ``site`` gets in a message: ``MODEL``."""
    assert server.reaches(f"{site}.a-job")
    return server.offer(as_model(MODEL), f"{site}.a-job", CancelToken())


def joined(offer: Offer, site: str = "site-1") -> SiteSide:
    side = join(cell(f"{site}.a-job"), offer, CancelToken())
    assert isinstance(side, SiteSide)
    return side


def error_of(action: Callable[[], object], kind: type[Exception] = StreamlinkError) -> Exception:
    """Return the error that an action ends with."""
    try:
        action()
    except kind as error:
        return error
    raise AssertionError("it was accepted")


def check_a_site_whose_session_is_over_joins_again(folder: Path) -> None:
    with settings(ports=free_range()), closing(ServerSide(cell("server.a-job"))) as first:
        side = joined(offered(first, "site-1"))
        assert joined(offered(first, "site-1")) is side
        first.close()
        for _ in range(6000):  # the goodbye is on its way
            if side.client.is_over or Event().wait(0.01):
                break
        assert side.client.is_over
        with closing(ServerSide(cell("server.a-job"))) as again:
            assert again.objects.port == first.objects.port
            assert joined(offered(again, "site-1")) is not side
            close_all()


def free_range() -> str:
    """Return a range of ports, whose first pair is the same one each time."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        low = free.getsockname()[1]
    return f"{low}-{low + 39}"


def check_more_than_sixteen_sites_are_in_one_job_with_1024_descriptors(folder: Path) -> None:
    names = [f"site-{number}" for number in range(1, 21)]
    with a_job() as server:
        sides = {name: joined(offered(server, name), name) for name in names}
        for name, side in sides.items():  # while all of them are there
            got = side.fetch(offered(server, name), "numpy", CancelToken(), lazy=False)
            assert np.array_equal(got["w"], MODEL["w"])


def check_models_of_sites_beyond_streamlink_max_clients_stay_with_flare(folder: Path) -> None:
    with a_job(max_clients=2) as server:
        reached = [each for each in "abcab" if server.reaches(f"{each}.a-job")]
        assert reached == ["a", "b", "a", "b"]
        for name in "ab":
            joined(offered(server, name), name)


def check_a_server_takes_no_more_than_streamlink_max_bytes(folder: Path) -> None:
    with a_job(max_bytes="4KiB") as server:
        side = joined(offered(server, "site-1"))
        assert side.offer(as_model(MODEL), "server.a-job", CancelToken()).reference
        large = as_model({"w": np.ones(1024, np.float64)})
        error = error_of(lambda: side.offer(large, "server.a-job", CancelToken()))
        assert isinstance(error, ObjectLimit)
        assert "4096" in str(error)


def check_objects_may_live_for_longer_than_a_week(folder: Path) -> None:
    with a_job(ttl=30 * 24 * 3600) as server:
        assert (
            joined(offered(server, "site-1"))
            .offer(as_model(MODEL), "server.a-job", CancelToken())
            .reference
        )


def check_a_server_with_settings_that_cannot_be_used_leaves_models_to_flare(folder: Path) -> None:
    (folder / "file").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for name, value in {
            "ports": taken.getsockname()[1],  # none is free
            "spool": folder / "file",
            "listen": "no such host",
            "max_bytes": "4 elephants",
            "max_clients": "many",
            "ttl": "a day",
        }.items():
            with settings(**{name: value}), TestCase().assertLogs(level="ERROR") as logs:
                assert side_of(cell("server.a-job")) is None
                assert side_of(cell("server.a-job")) is None  # and is not tried again
            assert "FLARE carries its models itself" in logs.output[0], name
            assert len(logs.output) == 1
            close_all()
    with settings(ports="84a3-8452"), TestCase().assertLogs(level="ERROR"):
        assert side_of(cell("server.a-job")) is None
        close_all()


def check_a_site_dials_no_port_outside_of_its_range(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        for ports in (f"{port + 1}-{port + 2}", f"{port - 2}-{port - 1}"):
            with settings(ports=ports):
                error = error_of(partial(joined, Offer("none", port, "site-1", "none")))
            assert isinstance(error, SecurityError)
            assert f"port {port}, and this client may dial 127.0.0.1:{ports} only" in str(error)
        assert not select.select([stranger], [], [], 0.0)[0]  # nobody has dialled


def check_a_site_needs_its_own_token_of_this_job(folder: Path) -> None:
    with a_job() as server, closing(ServerSide(cell("server.another-job"))) as other:
        own, beside = offered(server, "site-1"), offered(server, "site-2")
        elsewhere = other.offer(as_model(MODEL), "site-1.another-job", CancelToken())
        for token in ("made-up-and-long-enough", beside.token, elsewhere.token):
            error = error_of(partial(joined, replace(own, token=token)))
            assert isinstance(error, AuthenticationFailed), error
        joined(own)


def check_a_site_reads_no_object_of_another_site(folder: Path) -> None:
    with a_job() as server:
        side, others = joined(offered(server, "site-1")), offered(server, "site-2")
        error = error_of(lambda: side.fetch(others, "numpy", CancelToken(), lazy=False))
        assert isinstance(error, ObjectRefused)
        got = joined(others, "site-2").fetch(others, "numpy", CancelToken(), lazy=False)
        assert np.array_equal(got["w"], MODEL["w"])


def check_a_trainer_in_a_process_of_its_own_gets_flares_own_bytes(folder: Path) -> None:
    with a_job() as server:
        assert server.reaches("site-1.a-job")
        assert server.reaches("relay.site-1.a-job")
        assert not server.reaches("site-1.a-job.trainer")
        assert not server.reaches("site-1")


# --- one download, driven as FLARE drives it ----------------------------------


class Own(ArrayDownloadable):
    """FLARE's own chunks, outside of a transaction of its service."""

    def set_transaction(self, tx_id: str, ref_id: str) -> None:
        self.num_receivers = 1


def riding(side: Any, source: ModelSource | None = None) -> ReferenceDownloadable:
    """Return ``MODEL`` as the one end of a job offers it; ``source``: what travels beside it."""
    values = {name: values for name, values in MODEL.items() if name != "narrow"}
    made = ReferenceDownloadable(source or as_model(values), side, lambda: Own(values, 1 << 20))
    made.set_transaction("transaction", "reference")
    return made


def receiver(name: str) -> Any:
    """Return what consumes a download at the cell of that name."""

    def fetch(offer: Offer, cancel: CancelToken) -> Any:
        return join(cell(name), offer, cancel).fetch(offer, "numpy", cancel, lazy=False)

    return reference_consumer(ArrayConsumer, fetch)


def download(sent: ReferenceDownloadable, name: str, until: Any = None) -> Any:
    """Drive a download to its end, or until the receiver's state has it; return the consumer."""
    consumer, state = receiver(name), None
    for _ in range(1000):
        rc, data, state = sent.produce(state, name)
        if rc == ProduceRC.EOF:
            consumer.download_completed("reference")
            return consumer
        state = consumer.consume("reference", state, data)
        if until is not None and state == until:
            return consumer
    raise AssertionError("the download has no end")


def has_arrived(consumer: Any) -> bool:
    return bool(
        np.array_equal(consumer.result["w"], MODEL["w"])
        and np.array_equal(consumer.result["b"], MODEL["b"])
    )


FETCHING = {"streamlink": 2}


def check_a_site_that_may_not_dial_the_port_gets_the_model_flares_own_way(folder: Path) -> None:
    with a_job() as server:
        for _ in range(2):  # and the next model, too
            with settings(ports="1-2"), TestCase().assertLogs(level="WARNING") as logs:
                assert has_arrived(download(riding(server), "site-1.a-job"))
            at_site, at_server = logs.output
            for line, end in ((at_site, "this end"), (at_server, "site-1.a-job")):
                assert f"{end} reports: the server listens at port {server.port}, and" in line, line
                assert f"at port {server.port} of the server" in line
                assert "open that port and the next one, or set streamlink_ports" in line
        assert side_of(cell("site-1.a-job")) is None  # so its results go FLARE's way as well
        assert has_arrived(download(riding(server), "site-2.a-job"))


def check_a_site_that_nobody_answers_waits_once_and_not_for_each_model(folder: Path) -> None:
    with a_job(server="127.0.0.9") as server:  # it listens at 127.0.0.1
        assert has_arrived(download(riding(server), "site-1.a-job"))
        with TestCase().assertLogs(level="WARNING") as logs:
            assert has_arrived(download(riding(server), "site-1.a-job"))
        assert f"site-1.a-job at port {server.port} tries again in " in logs.output[0]


def check_a_site_without_streamlink_gets_the_task_flares_own_way_when_it_asks_again(
    folder: Path,
) -> None:
    with a_job() as server:
        sent, consumer = riding(server), ArrayConsumer(None, {})
        _, data, state = sent.produce(None, "site-1.a-job")
        sent.produce(state, "site-1.a-job")  # FLARE's consumers ask on before they read a chunk
        error_of(lambda: consumer.consume("reference", state, data), Exception)
        with TestCase().assertLogs(level="WARNING") as logs:
            sent.downloaded_to_one("site-1.a-job", DownloadStatus.FAILED)
        assert "site-1.a-job cannot read a reference; set NVFLARE_NVFLARE_D" in logs.output[0]
        _, data, state = riding(server).produce(None, "site-1.a-job")
        consumer.consume("reference", state, data)
        assert has_arrived(consumer)
        assert server.reaches("site-2.a-job")


def check_a_site_that_could_read_references_before_still_gets_them(folder: Path) -> None:
    with a_job() as server:
        download(riding(server), "site-1.a-job")
        sent = riding(server)
        sent.produce(None, "site-1.a-job")
        sent.downloaded_to_one("site-1.a-job", DownloadStatus.FAILED)
        assert server.reaches("site-1.a-job")


def check_a_result_that_cannot_be_put_goes_flares_own_way(folder: Path) -> None:
    with a_job(max_bytes="60") as server:
        side = joined(offered(server, "site-1"))  # which leaves no room for another one
        with TestCase().assertLogs(level="WARNING") as logs:
            assert has_arrived(download(riding(side), "server.a-job"))
        assert "this end reports: an object of " in logs.output[0]
        assert "max_bytes" in logs.output[0]


def check_a_reference_to_an_object_that_is_gone_fails_the_download(folder: Path) -> None:
    with a_job() as server:
        joined(offered(server, "site-1"))
        consumer = receiver("site-1.a-job")
        sent = riding(server)
        _, data, state = sent.produce(None, "site-1.a-job")
        server.objects.drop(json.loads(data[0].split(b":", 1)[1])["reference"])
        error = error_of(lambda: [consumer.consume("reference", state, data) for _ in range(100)])
        assert isinstance(error, UnknownObject)


def check_an_upload_that_nobody_opens_goes_with_flares_transaction(folder: Path) -> None:
    with a_job() as server:
        side = joined(offered(server, "site-1"))
        before = len(server.objects)
        sent, state = riding(side), None
        while state != {"streamlink": 1}:
            _, _, state = sent.produce(state, "server.a-job")
        assert len(server.objects) == before + 1
        sent.release()
        eventually(lambda: len(server.objects) == before)
        error = error_of(lambda: sent.produce(None, "server.a-job"))
        assert "this model was released" in str(error)


def eventually(holds: Callable[[], bool]) -> None:
    for _ in range(6000):
        if holds() or Event().wait(0.01):
            return
    raise AssertionError("it never held")


class Stuck:
    """A model whose first read waits until the end of the check."""

    spec: ModelSpec = as_model({"w": np.ones(1 << 20, np.float32)}).spec

    def __init__(self) -> None:
        self.is_read, self.goes_on = Event(), Event()

    def read(self, offset: int, length: int) -> tuple[memoryview, ...]:
        self.is_read.set()
        assert self.goes_on.wait(60)
        return (memoryview(bytes(length)),)

    def close(self) -> None:
        """Nothing is open."""


def check_a_fetch_ends_when_flare_gives_up_its_download(folder: Path) -> None:
    stuck = Stuck()
    with a_job() as server:
        consumer = download(riding(server, stuck), "site-1.a-job", until=FETCHING)
        consumer.download_failed("reference", "FLARE gives up")
        assert isinstance(consumer.fetched.exception(timeout=60), Cancelled)
        stuck.goes_on.set()


def check_an_upload_ends_and_leaves_nothing_when_flare_gives_up_its_transaction(
    folder: Path,
) -> None:
    stuck = Stuck()
    with a_job() as server:
        side = joined(offered(server, "site-1"))
        before, sent = len(server.objects), riding(side, stuck)
        sent.produce(None, "server.a-job")
        assert stuck.is_read.wait(60)
        sent.release()
        stuck.goes_on.set()
        eventually(lambda: len(server.objects) == before)


def check_a_setting_of_a_site_that_cannot_be_used_is_refused_by_its_name(folder: Path) -> None:
    check()
    wrong = {"ports": "84a3", "min_bytes": "one", "reconnect_timeout": "soon"}
    for name, value in {**wrong, "rejoin_timeout": "-1"}.items():
        with settings(**{name: value}):
            error = error_of(check, ImportError)
        assert f"streamlink_{name} (NVFLARE_STREAMLINK_{name.upper()}) is" in str(error)


def main() -> int:
    # As under ``ulimit -n 1024``: a job of many sites must not need more descriptors.
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
    failed = 0
    for name, run in [(n, c) for n, c in globals().items() if n.startswith("check_")]:
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
