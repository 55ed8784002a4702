"""Whole rounds over real gRPC: the mean is exactly right, whatever the timing and the chunks."""

from __future__ import annotations

import logging
import math
import random
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamlink.config import LinkConfig, RoundConfig
from streamlink.errors import ModelError, RoundError, StoreError
from streamlink.executors.client import Client
from streamlink.executors.streaming import StreamingExecutor
from streamlink.model.computed import RangeFunction
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.rounds.aggregate.optimizers import FedAvgM
from streamlink.rounds.controller import ScatterAndGather
from streamlink.rounds.report import RoundReport
from streamlink.stores.memory import MemoryStore, spec_of
from tests.support.examples import scaled
from tests.support.jobs import Job
from tests.support.peers import (
    ODD,
    SMALL,
    STREAM,
    WAIT,
    Array,
    Federation,
    Site,
    assert_same,
    config,
    executor,
    initial,
    mean_of,
    trained,
)

KINDS = ["F32", "F64", "F16", "BF16", "I64", "BOOL"]


def run(
    store: MemoryStore,
    weights: Sequence[float],
    *,
    works: Sequence[RangeFunction] | None = None,
    configs: Sequence[LinkConfig] | None = None,
    rounds: int = 1,
) -> list[RoundReport]:
    """Run rounds with a client for each weight and return their reports."""
    rules = RoundConfig(min_clients=len(weights), num_rounds=rounds)
    with Federation() as federation:
        for number, weight in enumerate(weights):
            work = works[number] if works else trained(number)
            site = StreamingExecutor(work, weight=weight)
            federation.client(f"site-{number}", site, configs[number] if configs else None)
        return ScatterAndGather(federation.server, store, rules, job="test").run()


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_of_one_dtype_is_exactly_right(kind: str) -> None:
    spec = ModelSpec((TensorSpec("u", "U8", (1,)), TensorSpec("w", kind, (53, 97))))
    store, weights = MemoryStore(initial(spec)), [1.0, 2.5]
    (report,) = run(store, weights)
    assert_same(store.arrays, mean_of(initial(spec), dict(enumerate(weights))))
    assert report.weights == {"site-0": 1.0, "site-1": 2.5}


@pytest.mark.parametrize("weights", [[3.0], [1.0, 1.0], [1.0, 0.3, 7.0], [5.0, 0.0, 2.0, 1e-9]])
def test_the_mean_of_a_mixed_model_is_exactly_right(weights: list[float]) -> None:
    store = MemoryStore(initial())
    run(store, weights)
    assert_same(store.arrays, mean_of(initial(), dict(enumerate(weights))))


def test_the_mean_is_the_one_computed_by_hand() -> None:
    store = MemoryStore({"w": np.zeros(5000, np.float32), "n": np.zeros(77, np.int64)})

    def adds(much: int) -> RangeFunction:
        return lambda tensor, start, values: values + values.dtype.type(much)

    run(store, [1.0, 3.0], works=[adds(2), adds(10)])
    assert (store.arrays["w"] == 8.0).all()  # (1 × 2 + 3 × 10) / 4
    assert (store.arrays["n"] == 8).all()


def late(number: int, seed: int) -> RangeFunction:
    """Return a client's work with waits of up to 4 ms here and there."""
    never, dice, work = threading.Event(), random.Random(seed), trained(number)

    def function(tensor: TensorSpec, start: int, values: Array) -> Array:
        if dice.random() < 0.3:
            never.wait(dice.uniform(0, 0.004))
        return work(tensor, start, values)

    return function


@pytest.mark.parametrize("seed", range(4))
def test_the_bits_do_not_depend_on_timing_and_chunk_sizes(seed: int) -> None:
    dice, store, weights = random.Random(seed), MemoryStore(initial()), [0.1, 0.7, 1.9]
    configs = [config(stream={"chunk_bytes": dice.randrange(4096, 9000)}) for _ in weights]
    works = [late(number, seed * 10 + number) for number in range(3)]
    run(store, weights, works=works, configs=configs)
    assert_same(store.arrays, mean_of(initial(), dict(enumerate(weights))))


def test_rounds_build_on_each_other() -> None:
    store, expected = MemoryStore(initial()), initial()
    reports = run(store, [1.0, 2.0], rounds=3)
    for _ in range(3):
        expected = mean_of(expected, {0: 1.0, 1: 2.0})
    assert_same(store.arrays, expected)
    assert [(report.round, report.attempt) for report in reports] == [(0, 1), (1, 1), (2, 1)]


@pytest.mark.parametrize("spec", [ModelSpec(()), ModelSpec((TensorSpec("none", "F32", (0, 3)),))])
def test_a_model_without_bytes_goes_round(spec: ModelSpec) -> None:
    store = MemoryStore(initial(spec))
    run(store, [1.0, 1.0])
    assert spec_of(store.arrays) == spec


def test_metrics_are_averaged_with_the_models_weights() -> None:
    store = MemoryStore(initial())
    with Federation() as federation:
        federation.client("site-0", executor(0, 1.0, loss=1.0, only_here=5.0))
        federation.client("site-1", executor(1, 3.0, loss=3.0))
        rules = RoundConfig(min_clients=2, num_rounds=1)
        (report,) = ScatterAndGather(federation.server, store, rules).run()
    assert report.metrics == {"loss": 2.5, "only_here": 5.0}
    assert report.client_metrics == {
        "site-0": {"loss": 1.0, "only_here": 5.0},
        "site-1": {"loss": 3.0},
    }
    assert report.failures == {}


@pytest.mark.sampled
def test_every_client_knows_that_its_last_update_counted() -> None:
    # The goodbye must not overtake the end of the last round, which comes on another connection.
    for _ in range(scaled(8)):
        with Federation() as federation:
            sites = [federation.client(f"site-{n}", executor(n)) for n in range(3)]
            rules = RoundConfig(min_clients=3, num_rounds=2)
            ScatterAndGather(federation.server, MemoryStore(initial()), rules).run()
            federation.server.close("the job is done")
            assert [len(site.done.result(WAIT)) for site in sites] == [2, 2, 2]


def test_outcomes_tell_what_moved() -> None:
    with Federation() as federation:
        site: Site = federation.client("site-0", executor(0))
        rules = RoundConfig(min_clients=1, num_rounds=1, start_round=4)
        ScatterAndGather(federation.server, MemoryStore(initial()), rules, job="j").run()
        federation.server.close("the job is done")
        (outcome,) = site.done.result(WAIT)
    assert (outcome.task.name, outcome.task.job, outcome.task.round) == ("train", "j", 4)
    assert outcome.received.stats.consumed_bytes == outcome.sent.stats.consumed_bytes == ODD.nbytes


def test_a_client_keeps_the_last_outcomes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamlink.executors.client.KEPT_OUTCOMES", 2)
    with Federation() as federation:
        site: Site = federation.client("site-0", executor(0))
        rules = RoundConfig(min_clients=1, num_rounds=3)
        ScatterAndGather(federation.server, MemoryStore(initial()), rules).run()
        federation.server.close("the job is done")
        outcomes = site.done.result(WAIT)
    assert [outcome.task.round for outcome in outcomes] == [1, 2]
    assert site.client.tasks_done == 3


def test_standings_tell_how_far_each_client_is() -> None:
    with Federation() as federation:
        job = ScatterAndGather(federation.server, MemoryStore(initial()), RoundConfig())
        assert job.client_progress() == []
        seen: list[tuple[str, int]] = []

        def look(tensor: TensorSpec, start: int, values: Array) -> Array:
            seen.extend((each.peer_name, each.total) for each in job.client_progress())
            return values

        for number in range(2):
            federation.client(f"site-{number}", StreamingExecutor(look))
        job.run()
        left = job.client_progress()
    assert set(seen) == {("site-0", ODD.nbytes), ("site-1", ODD.nbytes)}
    whole = {(each.phase, each.sent, each.received, each.total) for each in left}
    assert whole == {("done", ODD.nbytes, ODD.nbytes, ODD.nbytes)}
    assert sorted(each.peer_name for each in left) == ["site-0", "site-1"]


def test_too_few_clients_at_the_start_are_counted() -> None:
    with Federation() as federation:
        federation.client("site-0", executor(0))
        rules = RoundConfig(min_clients=2, wait_for_clients_seconds=0.2)
        with pytest.raises(RoundError, match=r"1 of 2 clients came within 0\.2 s"):
            ScatterAndGather(federation.server, MemoryStore(initial()), rules).run()


def test_a_job_that_waits_for_more_clients_than_are_admitted_is_refused_at_once() -> None:
    with Federation() as federation:
        rules = RoundConfig(min_clients=17)
        with pytest.raises(ValueError, match=r"raise grpc\.max_clients to 17"):
            ScatterAndGather(federation.server, MemoryStore(initial()), rules)


def test_a_part_that_the_model_does_not_have_is_refused_at_once() -> None:
    with Federation() as federation:
        rules = RoundConfig(part=("nowhere.*",))
        with pytest.raises(ModelError, match=r"matches the pattern 'nowhere\.\*'"):
            ScatterAndGather(federation.server, MemoryStore(initial()), rules)


def test_what_the_server_buffers_never_exceeds_a_window_for_each_client() -> None:
    most: list[int] = []
    spec = ModelSpec((TensorSpec("w", "F32", (60_000,)),))
    window = SMALL.stream.window_bytes
    with Federation() as federation:
        rules = RoundConfig(min_clients=3, num_rounds=1)
        job = ScatterAndGather(federation.server, MemoryStore(initial(spec)), rules)

        def sample(tensor: TensorSpec, start: int, values: Array) -> Array:
            held = federation.server.traffic.totals().items()
            most.append(sum(each.in_flight_bytes for (_, way), each in held if way == "received"))
            return values

        for number in range(3):
            slow = late(number, number) if number == 1 else sample
            federation.client(f"site-{number}", StreamingExecutor(slow))
        job.run()
    assert 0 < max(most) <= 3 * window


def test_the_stated_peak_grows_with_clients_and_windows_only() -> None:
    with Federation() as federation:
        job = ScatterAndGather(federation.server, MemoryStore(initial()))
        one, two, four = (job.peak_bytes(clients) for clients in (1, 2, 4))
    assert four - two == 2 * (two - one)
    assert two - one >= 2 * SMALL.stream.stream_bytes


def test_the_stated_peak_holds_one_shared_memory_however_many_clients_there_are() -> None:
    memory = 64 << 20
    config = LinkConfig(stream={**STREAM.model_dump(), "memory_bytes": memory})
    with Federation() as ours, Federation(config) as shared:
        each_its_own, one = (
            ScatterAndGather(each.server, MemoryStore(initial())) for each in (ours, shared)
        )
    for clients in (1, 2, 300):
        windows = 2 * clients * SMALL.stream.stream_bytes
        assert one.peak_bytes(clients) == each_its_own.peak_bytes(clients) - windows + memory


@pytest.mark.parametrize("which", ["store", "spool", "ledger"])
def test_what_a_job_cannot_write_is_refused_before_it_waits_for_clients(
    which: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    places: dict[str, Any] = {"store": MemoryStore(initial()), which: tmp_path / "file" / "below"}
    with Federation() as federation, pytest.raises(StoreError, match=r"file/below: .*directory"):
        ScatterAndGather(federation.server, **places)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (trained(0), r"has no method execute.*pass StreamingExecutor\(function\)"),
        (StreamingExecutor, "StreamingExecutor is a class"),
        (7, "a int is not an executor"),
    ],
)
def test_a_client_whose_work_is_no_executor_never_connects(work: Any, words: str) -> None:
    with Federation() as federation:
        with pytest.raises(TypeError, match=words):
            Client(federation.address, "site-1", work)
        assert federation.server.peers() == []


@pytest.mark.parametrize("gather", ["lockstep", "spool"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_update_that_is_not_finite_is_left_out_by_default_and_that_is_reported(
    gather: Any, value: float, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore({"n": np.zeros(10, np.int64), "w": np.zeros(5000, np.float32)})

    def diverges(tensor: TensorSpec, start: int, values: Array) -> Array:
        changed: Array = values + values.dtype.type(1)
        if tensor.name == "w" and start <= 4321 < start + values.size:
            changed[4321 - start] = value
        return changed

    def adds(tensor: TensorSpec, start: int, values: Array) -> Array:
        more: Array = values + values.dtype.type(3)
        return more

    rules = RoundConfig(min_clients=2, num_rounds=1, gather=gather)
    with Federation() as federation, caplog.at_level(logging.WARNING):
        for number, work in enumerate((adds, diverges, adds)):
            federation.client(f"site-{number}", StreamingExecutor(work))
            federation.peer(f"site-{number}")
        (report,) = ScatterAndGather(federation.server, store, rules, spool=tmp_path).run()
    assert (store.arrays["w"] == 3.0).all()
    assert (store.arrays["n"] == 3).all()
    assert report.weights == {"site-0": 1.0, "site-2": 1.0}
    why = "element 4321 of tensor 'w' in the update of site-1 is NaN or infinite"
    assert list(report.failures) == ["site-1"]
    assert why in report.failures["site-1"]
    assert why in caplog.text


def test_a_weight_that_cannot_count_is_refused_with_its_value() -> None:
    with Federation() as federation, pytest.raises(ModelError, match="weight of site-1 is 1e-310"):
        ScatterAndGather(federation.server, MemoryStore(initial()), weights={"site-1": 1e-310})


@pytest.mark.parametrize("gather", ["lockstep", "spool"])
def test_rounds_of_an_optimizer_are_those_of_its_formulas(gather: str, tmp_path: Path) -> None:
    aggregator = FedAvgM(eta=0.5, beta=0.75)
    extras = {"aggregator": aggregator, "state": tmp_path / "state", "spool": tmp_path / "spool"}
    with Job(extras=extras, gather=gather, num_rounds=3) as job:
        for number in (0, 1):
            job.site(number, executor(number))
        job.start(2)
        job.reports()
        found = job.store.arrays["f64"]
    tensor = next(each for each in ODD.tensors if each.name == "f64")
    model, momentum = initial()["f64"], np.zeros(tensor.shape)
    for _ in range(3):
        moved = [trained(number)(tensor, 0, model) - model for number in (0, 1)]
        momentum = 0.75 * momentum + sum(moved) / 2
        model = model + 0.5 * momentum
    np.testing.assert_array_equal(found, model)


def test_an_aggregator_with_a_state_needs_a_directory_at_once(tmp_path: Path) -> None:
    with Job() as job:
        server, file = job.federation.server, tmp_path / "file"
        file.touch()
        with pytest.raises(ValueError, match="keeps its momentum and second_moment from round"):
            ScatterAndGather(server, job.store, aggregator="fedadam")
        with pytest.raises(StoreError, match="the state of the aggregator cannot be stored"):
            ScatterAndGather(server, job.store, aggregator="fedadam", state=file)


def test_a_resumed_job_whose_state_is_missing_is_refused(tmp_path: Path) -> None:
    with Job() as job:
        place: Any = {"state": tmp_path / "state", "ledger": tmp_path / "ledger", "resume": True}
        rules = RoundConfig(num_rounds=1, min_clients=1)
        job.site(0, executor(0))
        server, aggregator = job.federation.server, FedAvgM()
        ScatterAndGather(server, job.store, rules, aggregator=aggregator, **place).run()
        shutil.rmtree(tmp_path / "state")
        with pytest.raises(RoundError, match="the state after round 1 of this run is missing"):
            ScatterAndGather(server, job.store, rules, aggregator=aggregator, **place)


def test_the_memory_that_is_stated_has_that_of_a_state(tmp_path: Path) -> None:
    with Job() as job:
        server = job.federation.server
        mean = ScatterAndGather(server, job.store)
        adam = ScatterAndGather(server, job.store, aggregator="fedadam", state=tmp_path)
        assert 16 << 20 < adam.peak_bytes(2) - mean.peak_bytes(2) < 64 << 20
