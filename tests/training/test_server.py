"""The server: the same bits streamed or original, by stated weights; what each switch costs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from streamlink import Executor, StreamingExecutor, TaskResult, WholeExecutor, digest_of
from streamlink.certs import make_certificates
from streamlink.errors import StreamlinkError
from streamlink.model.spec import DTYPES
from streamlink.stores import MemoryStore
from streamlink.training.order import ORDER, SAMPLES, order_of
from streamlink.training.settings import (
    ClientOrder,
    ClientSettings,
    CommSettings,
    ModelSettings,
    ServerSettings,
)
from tests.support.training_job import peak_bytes, run_job, stored

pytestmark = pytest.mark.slow

Arrays = dict[str, npt.NDArray[Any]]
MiB = 1 << 20
_HELD = MiB // 2  # of each stream: few chunks, since each costs time where memory is traced

SWITCHES = [(True, True), (False, True), (True, False), (False, False)]
"""(agent, communicator): whether each is optimised."""


def settings(agent: bool, communicator: bool, **more: Any) -> ServerSettings:
    comm = CommSettings(optimize_memory=communicator, model_chunk_size="64KiB")
    return ServerSettings(optimize_memory=agent, comm=comm, **more)


def every_dtype(seed: int) -> Arrays:
    """Return an array of every dtype: counters of a module, and all that floats can be."""
    random = np.random.default_rng(seed)
    arrays = {}
    for name, dtype in DTYPES.items():
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            drawn = random.integers(info.min, info.max, 999, dtype, endpoint=True)
        else:
            drawn = (random.normal(size=999) * 3).astype(dtype)
        arrays[name] = drawn
    return arrays | {"num_batches_tracked": np.array(10 * seed + 1)}


def sends(values: Callable[[int], Arrays], samples: int) -> Executor:
    """A client that sends ``values(round)`` with the weight of so many samples."""

    def train(model: Arrays, task: Any) -> TaskResult:
        assert ORDER in task.metadata
        for name, array in values(task.round).items():
            model[name][...] = array
        metrics = {"loss": float(samples)}
        return TaskResult(float(samples), metrics, {SAMPLES: str(samples)})

    return WholeExecutor(train)


def clients(seeds: dict[str, int]) -> dict[str, tuple[ClientSettings, Executor]]:
    return {
        name: (ClientSettings(), sends(lambda number, s=seed: every_dtype(s + 100 * number), seed))  # type: ignore[misc]
        for name, seed in seeds.items()
    }


@pytest.fixture(scope="module")
def streamed() -> dict[str, tuple[str, dict[str, float]]]:
    """The digest and the metrics of a streamed job, by its weights."""
    found = {}
    for weights in ("equal", "sample_size"):
        store = MemoryStore(every_dtype(0))
        job = settings(True, True, num_clients=3, num_rounds=2, client_weights=weights)
        reports = run_job(job, store, clients({"a": 1, "b": 2, "c": 4}))
        found[weights] = digest_of(store), reports[-1].metrics
    return found


@pytest.mark.parametrize("weights", ["equal", "sample_size"])
@pytest.mark.parametrize(("agent", "communicator"), SWITCHES[1:])
def test_the_original_aggregate_has_the_same_bits_in_every_dtype(
    streamed: dict[str, tuple[str, dict[str, float]]],
    agent: bool,
    communicator: bool,
    weights: str,
) -> None:
    store = MemoryStore(every_dtype(0))
    job = settings(agent, communicator, num_clients=3, num_rounds=2, client_weights=weights)
    reports = run_job(job, store, clients({"a": 1, "b": 2, "c": 4}))
    assert (digest_of(store), reports[-1].metrics) == streamed[weights]
    assert [each.round for each in reports] == [0, 1]


def test_a_model_as_one_message_is_not_chunked_and_has_the_same_bits(
    streamed: dict[str, tuple[str, dict[str, float]]],
) -> None:
    comm = CommSettings(use_model_chunking=False)
    store = MemoryStore(every_dtype(0))
    job = ServerSettings(comm=comm, num_clients=3, num_rounds=2)
    run_job(job, store, clients({"a": 1, "b": 2, "c": 4}))
    assert digest_of(store) == streamed["equal"][0]


@pytest.mark.parametrize(("agent", "communicator"), SWITCHES)
@pytest.mark.parametrize(
    ("weights", "expected", "counter"), [("equal", 3.0, 30), ("sample_size", 3.5, 35)]
)
def test_the_mean_is_the_one_computed_by_hand_and_counters_are_rounded(
    agent: bool, communicator: bool, weights: str, expected: float, counter: int
) -> None:
    def values(value: int) -> Callable[[int], Arrays]:
        return lambda _: {"w": np.full(5, value, np.float32), "n": np.array(10 * value)}

    sites = {
        "a": (ClientSettings(), sends(values(2), 1)),
        "b": (ClientSettings(), sends(values(4), 3)),
    }
    store = MemoryStore({"w": np.zeros(5, np.float32), "n": np.array(0)})
    job = settings(agent, communicator, client_weights=weights)
    (report,) = run_job(job, store, sites)
    model = store.open()
    raw = b"".join(model.read(0, model.spec.nbytes))
    assert np.frombuffer(raw, np.float32, 5).tolist() == [expected] * 5
    assert np.frombuffer(raw, np.int64, 1, 20).tolist() == [counter]
    assert report.weights == ({"a": 1, "b": 1} if weights == "equal" else {"a": 1, "b": 3})


@pytest.mark.parametrize(("agent", "communicator"), SWITCHES)
def test_all_clients_begin_each_round_with_the_same_model_and_all_of_them_count(
    agent: bool, communicator: bool
) -> None:
    seen: dict[int, dict[str, str]] = {0: {}, 1: {}}

    def site(name: str, value: int) -> Executor:
        def train(model: Arrays, task: Any) -> TaskResult:
            seen[task.round][name] = digest_of(model)
            model["w"][...] = value
            return TaskResult(metadata={SAMPLES: "1"})

        return WholeExecutor(train)

    initial = {"w": np.zeros(5, np.float32)}
    sites = {name: (ClientSettings(), site(name, ord(name))) for name in "abc"}
    job = settings(agent, communicator, num_clients=3, num_rounds=2)
    reports = run_job(job, MemoryStore(initial), sites)
    assert seen[0] == dict.fromkeys("abc", digest_of({"w": np.zeros(5, np.float32)}))
    assert seen[1] == dict.fromkeys("abc", digest_of({"w": np.full(5, ord("b"), np.float32)}))
    assert [set(each.weights) for each in reports] == [set("abc")] * 2


def test_an_order_of_many_words_reaches_the_clients() -> None:
    order = ClientOrder(model=ModelSettings(kwargs={"note": "x" * 12_000}))
    store = MemoryStore({"w": np.zeros(2, np.float32)})

    def train(model: Arrays, task: Any) -> None:
        assert order_of(task.metadata) == order

    run_job(
        ServerSettings(order=order, num_clients=1),
        store,
        {"a": (ClientSettings(), WholeExecutor(train))},
    )


@pytest.mark.parametrize(("agent", "communicator"), SWITCHES)
def test_a_client_that_fails_ends_the_job_with_its_name_and_reason(
    agent: bool, communicator: bool
) -> None:
    def fail(model: Arrays, task: Any) -> None:
        raise RuntimeError("no more memory here")

    sites = {
        "good": (ClientSettings(), sends(every_dtype, 1)),
        "bad": (ClientSettings(), WholeExecutor(fail)),
    }
    store = MemoryStore(every_dtype(0))
    before = digest_of(store)
    with pytest.raises(StreamlinkError, match=r"bad.*no more memory here"):
        run_job(settings(agent, communicator), store, sites)
    assert digest_of(store) == before


def test_each_switch_of_the_server_costs_what_it_copies(tmp_path: Path) -> None:
    size = 12 * MiB
    array = np.zeros(size, np.uint8)

    def peak(agent: bool, communicator: bool) -> int:
        store = stored(tmp_path / f"{agent}{communicator}", {"a": array})
        small = ClientSettings(comm=CommSettings(model_chunk_size=_HELD))
        site = StreamingExecutor(lambda tensor, start, values: values)
        comm = CommSettings(optimize_memory=communicator, model_chunk_size=_HELD)
        # One client: a busy machine might not serve two at the same time, and the peak would vary.
        job = ServerSettings(optimize_memory=agent, comm=comm, num_rounds=2, num_clients=1)
        return peak_bytes(lambda: run_job(job, store, {"a": (small, site)}))

    found = {each: peak(*each) for each in SWITCHES}
    streamed = found[True, True]
    # The global model, the new one, and an update.
    assert found[False, True] > streamed + 2.5 * size
    # Three copies of a message that came, and three of one that is sent.
    assert found[True, False] > streamed + 5 * size


@pytest.mark.parametrize("is_optimized", [True, False])
def test_ends_with_different_chunk_sizes_agree(is_optimized: bool) -> None:
    own = ClientSettings(comm=CommSettings(model_chunk_size="1MiB", max_message_size="64KiB"))
    sites = {name: (own, sends(every_dtype, 1)) for name in ("a", "b")}
    store = MemoryStore(every_dtype(0))
    run_job(settings(is_optimized, is_optimized), store, sites)
    # Both clients send the same; the mean of the two is what each has sent.
    assert digest_of(store) == digest_of(every_dtype(0))


def test_a_job_runs_encrypted_with_the_certificates_of_its_files(tmp_path: Path) -> None:
    make_certificates(tmp_path, ["127.0.0.1"], ["a"], days=1)
    own = tmp_path / "server"
    files = {
        "server_certificate": str(own / "certificate.pem"),
        "server_certificate_key": str(own / "key.pem"),
    }
    site = ClientSettings(
        comm=CommSettings(use_ssl=True, root_certificate=str(tmp_path / "a" / "ca.pem"))
    )
    comm = CommSettings.model_validate({"use_ssl": True, **files})
    store = MemoryStore(every_dtype(0))
    job = ServerSettings(comm=comm, num_clients=1)
    (report,) = run_job(job, store, {"a": (site, sends(every_dtype, 1))})
    assert report.weights == {"a": 1}
