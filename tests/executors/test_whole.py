"""Whole models: received in place, trained, sent from there; what is told when that goes wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamlink.errors import AbortCode, ModelError, StreamAborted
from streamlink.executors.executor import Task, TaskResult
from streamlink.executors.whole import WholeExecutor
from streamlink.link import UpdateKind
from streamlink.link.peer_request import PeerRequest
from streamlink.link.send_model import send_model
from streamlink.model.difference import DifferenceSource
from streamlink.model.interfaces import ModelStore, Payload
from streamlink.model.part import part_of, part_source
from streamlink.protocol.frames import Attempt
from streamlink.stores.memory import ArrayModel, MemoryStore
from streamlink.stores.safetensors import SafetensorsStore
from tests.support.jobs import Job
from tests.support.models import arrays_of, content
from tests.support.peers import (
    ODD,
    WAIT,
    Array,
    Federation,
    assert_same,
    config,
    exchange_models,
    initial,
    trained,
)

Arrays = dict[str, Array]
PART = ("*16", "i*", "scalar")


def train(model: Arrays, task: Task) -> TaskResult:
    """Train in place, tensor by tensor, by what the task's round says."""
    for tensor in ODD.tensors:
        flat = model[tensor.name].reshape(-1)
        flat[:] = trained(task.round + 1)(tensor, 0, flat)
    return TaskResult(2.5, {"loss": 0.5}, {"site": "here"})


def after(round: int = 0) -> Arrays:
    """Return what ``train`` makes of the model ``initial()``."""
    model = initial()
    train(model, Task("train", "job", round, 1))
    return model


def expected_update(kind: str, part: Sequence[str], round: int = 0) -> bytes:
    source: Any = ArrayModel(after(round))
    if kind == "differences":
        source = DifferenceSource(source, ArrayModel(initial()))
    return content(part_source(source, part_of(ODD, part)))


def ask(federation: Federation, part: Sequence[str] = (), round: int = 0) -> PeerRequest:
    peer = federation.peer("site-1")
    return peer.request("train", ODD, attempt=Attempt("job", round, 1), part=part)


def run(
    federation: Federation, part: Sequence[str] = (), round: int = 0
) -> tuple[PeerRequest, bytes]:
    """Do one task; return the exchange and the bytes that came back."""
    store, exchange = MemoryStore(), ask(federation, part, round)
    exchange_models(exchange, ArrayModel(initial()), store)
    assert exchange.incoming.spec == part_of(ODD, part)
    return exchange, content(store.open())


KINDS = [
    "values",
    "differences",
    "differences on disk",
    "values beside",
    "values beside on disk",
]


def executor(kind: str, model: Any, path: Path, work: Any = train) -> WholeExecutor:
    """Return an executor of a kind; ``path`` is for its stores."""
    store = SafetensorsStore(path) if "disk" in kind else None
    beside: Any = (store or "memory") if "beside" in kind else None
    returns: Any = kind.split()[0]
    baseline = None if "beside" in kind else store
    return WholeExecutor(work, model, returns=returns, baseline=baseline, next_model=beside)


@pytest.mark.product
@pytest.mark.parametrize("part", [(), PART], ids=["all", "part"])
@pytest.mark.parametrize("kind", [*KINDS, "differences beside"])
@pytest.mark.parametrize("model", [None, "mine"])
def test_the_server_gets_what_training_made(
    federation: Federation, tmp_path: Path, kind: str, part: tuple[str, ...], model: str | None
) -> None:
    mine = {name: np.zeros_like(array) for name, array in initial().items()} if model else None
    federation.client("site-1", executor(kind, mine, tmp_path))
    for round in range(2):
        exchange, update = run(federation, part, round)
        assert update == expected_update(kind.split()[0], part, round)
        assert exchange.incoming.metrics == {"loss": 0.5}
        said = exchange.incoming.update
        assert (said.weight, said.takes_next) == (2.5, "beside" in kind)
        assert said.kind == UpdateKind["DIFFERENCES" if "differences" in kind else "VALUES"]
    if mine is not None:
        assert_same(mine, after(1))


def test_weight_metrics_and_facts_may_be_left_out(federation: Federation) -> None:
    federation.client("site-1", WholeExecutor(lambda model, task: None))
    exchange, update = run(federation)
    assert update == content(ArrayModel(initial()))
    assert exchange.incoming.update.weight == 1.0


def test_what_the_task_says_reaches_the_work_and_its_facts_the_server(
    federation: Federation,
) -> None:
    tasks: list[Task] = []

    def note(model: Arrays, task: Task) -> TaskResult:
        tasks.append(task)
        return TaskResult(metadata={"device": "cpu"})

    federation.client("site-1", WholeExecutor(note))
    peer = federation.peer("site-1")
    exchange = peer.request("train", ODD, attempt=Attempt("job", 4, 2), metadata={"lr": "0.1"})
    exchange_models(exchange, ArrayModel(initial()), MemoryStore())
    reply = exchange.wait_reply(WAIT)
    assert reply is not None
    assert reply.metadata["device"] == "cpu"
    (task,) = tasks
    assert (task.round, task.attempt, task.metadata) == (4, 2, {"lr": "0.1"})


def test_the_streams_of_the_running_task_can_be_watched(federation: Federation) -> None:
    received: list[int] = []

    def look(model: Arrays, task: Task) -> None:
        assert site.watched is not None
        incoming, outgoing = site.watched
        assert outgoing is None  # it is opened when the work is done
        received.append(incoming.stats.received_bytes)

    site = WholeExecutor(look)
    client = federation.client("site-1", site)
    run(federation)
    federation.server.close()
    client.done.result(WAIT)
    assert received == [ODD.nbytes]
    assert site.watched is None


def test_a_module_is_trained_as_it_is(federation: Federation) -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(5, 3)

    def step(model: Any, task: Task) -> None:
        with torch.no_grad():
            model.weight += 1

    before = {name: each.numpy().copy() for name, each in module.state_dict().items()}
    site = WholeExecutor(step, module, returns="differences")
    federation.client("site-1", site)
    store, source = MemoryStore(), ArrayModel(before)
    exchange = federation.peer("site-1").request("train", source.spec, attempt=Attempt("job", 0, 1))
    exchange_models(exchange, source, store)
    expected = (module.weight.detach().numpy() - before["weight"]).tobytes()
    assert store.arrays["weight"].tobytes() == expected
    assert not store.arrays["bias"].any()


# --- a module, and a store that others wrote -------------------------------------------


def tied_and_counting(torch: Any) -> Any:
    """Return a module with one weight under two names, and buffers of two dtypes."""
    module = torch.nn.Sequential(
        torch.nn.Embedding(7, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 7)
    )
    module[2].weight = module[0].weight
    with torch.no_grad():
        for number, tensor in enumerate(module.state_dict().values()):
            tensor.copy_(torch.arange(tensor.numel()).reshape(tensor.shape) + number)
    return module


def adding(step: int) -> Callable[[Any, Task], TaskResult]:
    """Return training that adds ``step`` to everything; its weight in the mean is ``step``."""

    def train(module: Any, task: Task) -> TaskResult:
        tensors = [*module.parameters(), *module.buffers()]  # each tied weight once
        for tensor in tensors:
            tensor.data += step
        return TaskResult(float(step))

    return train


@pytest.mark.parametrize("returns", ["values", "differences"])
@pytest.mark.parametrize("left_out", ["0.weight", "2.weight"])
def test_a_module_is_trained_whose_store_safetensors_has_sorted(
    tmp_path: Path, left_out: str, returns: Any
) -> None:
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    entries = tied_and_counting(torch).state_dict()
    del entries[left_out]  # safetensors refuses memory that two names share
    safetensors.save_file(entries, tmp_path / "model.safetensors")
    store = SafetensorsStore(tmp_path)
    spec = store.open().spec
    assert sorted(spec.names) == sorted(entries) != list(entries) != list(spec.names)

    modules = [tied_and_counting(torch) for _ in range(2)]
    with Job(num_rounds=2) as job:
        job.store = store  # type: ignore[assignment]
        for step, module in zip((1, 3), modules, strict=True):
            job.site(step, WholeExecutor(adding(step), module, returns=returns))
        job.start(2)
        job.reports()
    with closing(store.open()) as after:
        assert after.spec == spec
        found = arrays_of(spec, content(after))
    # In each round the mean of +1 and +3, weighted 1 and 3, is 10 / 4; integers round half to even,
    # so the count of batches goes from 5 by 2.5 to 8, and from there to 10.
    for name, before in entries.items():
        expected = 10 if before.dtype == torch.int64 else before.numpy() + 5
        assert np.array_equal(found[name], expected), name
    assert all(module[0].weight is module[2].weight for module in modules)


# --- what goes wrong -----------------------------------------------------------------


def raising(model: Arrays, task: Task) -> None:
    raise KeyError("learning_rate")


def reshaping(model: Arrays, task: Task) -> None:
    model["f32"] = model["f32"].T


def misreporting(model: Arrays, task: Task) -> Any:
    return {"loss": 0.5}


def diverging(model: Arrays, task: Task) -> TaskResult:
    return TaskResult(metrics={"loss": float("nan")})


@pytest.mark.product
@pytest.mark.parametrize(
    ("work", "why"),
    [
        (raising, "KeyError: 'learning_rate'"),
        (reshaping, r"made tensor 'f32' F32 of shape \(41, 37\); it was F32 of shape \(37, 41\)"),
        (misreporting, "returned a dict; it must return a TaskResult, or nothing"),
        (diverging, "metric 'loss' is nan"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_work_that_fails_is_told_and_the_next_task_goes_well(
    federation: Federation, tmp_path: Path, work: Callable[..., Any], why: str, kind: str
) -> None:
    works = [work, train]
    site = executor(kind, None, tmp_path, lambda model, task: works[task.round](model, task))
    federation.client("site-1", site)
    failing = ask(federation)
    with pytest.raises(StreamAborted, match=why):
        exchange_models(failing, ArrayModel(initial()), MemoryStore())
    assert why.split("'")[0].split("\\")[0] in str(failing.failure or failing.wait_reply(WAIT))
    assert run(federation, round=1)[1] == expected_update(kind.split()[0], (), 1)


def test_a_bug_in_the_work_comes_with_its_traceback(federation: Federation) -> None:
    federation.client("site-1", WholeExecutor(raising))
    exchange = ask(federation)
    with pytest.raises(StreamAborted):
        exchange_models(exchange, ArrayModel(initial()), MemoryStore())
    reply = exchange.wait_reply(WAIT)
    assert reply is not None
    assert "in raising" in reply.traceback


def test_an_error_of_the_work_is_logged_even_if_nobody_is_there_to_hear_it(
    federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    def leave(model: Arrays, task: Task) -> None:
        site.leave()
        raise KeyError("learning_rate")

    site = federation.client("site-1", WholeExecutor(leave))
    with suppress(StreamAborted):  # it may leave before its commit is heard
        send_model(ask(federation).outgoing, ArrayModel(initial()))
    with pytest.raises(StreamAborted, match="left: the client is closing"):
        site.done.result(WAIT)
    assert "KeyError: 'learning_rate'" in caplog.text


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_other_tensors_is_refused_before_it_comes(
    federation: Federation, tmp_path: Path, kind: str
) -> None:
    mine = initial() | {"i8": np.zeros(6, "i1")}
    federation.client("site-1", executor(kind, mine, tmp_path))
    with pytest.raises(
        StreamAborted, match=r"the server has another model: tensor 'i8' differs in shape"
    ):
        exchange_models(ask(federation), ArrayModel(initial()), MemoryStore())


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_there_is_not_is_refused_before_the_model_comes(
    federation: Federation, tmp_path: Path, kind: str
) -> None:
    federation.client("site-1", executor(kind, None, tmp_path))
    with pytest.raises(StreamAborted, match=r"pattern 'lora\*'"):
        exchange_models(ask(federation, ["f32", "lora*"]), ArrayModel(initial()), MemoryStore())


class Failing(ArrayModel):
    """A model whose second half cannot be read."""

    def read(self, offset: int, length: int) -> Payload:
        if offset > ODD.nbytes // 2:
            raise OSError("the disk is gone")
        return super().read(offset, length)


def test_a_model_that_came_in_part_is_neither_trained_on_nor_sent(federation: Federation) -> None:
    rounds: list[int] = []

    def note(model: Arrays, task: Task) -> None:
        rounds.append(task.round)

    mine = initial()
    federation.client("site-1", WholeExecutor(note, mine))
    exchange = ask(federation)
    with pytest.raises(OSError, match="the disk is gone"):
        send_model(exchange.outgoing, Failing(initial()))
    assert exchange.wait_reply(WAIT) is not None
    assert rounds == []
    assert run(federation, round=1)[1] == content(ArrayModel(initial()))
    assert rounds == [1]


def test_work_that_nobody_waits_for_hears_it_and_is_called_off(federation: Federation) -> None:
    is_at_work, heard = threading.Event(), Future[BaseException]()

    def work(model: Arrays, task: Task) -> None:
        if task.round == 0:
            is_at_work.set()
            try:
                while not heard.done():
                    task.progress()
            except StreamAborted as error:
                heard.set_result(error)
                raise

    site = federation.client("site-1", WholeExecutor(work, reports_progress=True))
    exchange = ask(federation)
    send_model(exchange.outgoing, ArrayModel(initial()))
    assert is_at_work.wait(WAIT)
    exchange.end(AbortCode.STALE_ATTEMPT, "a new attempt began")
    assert "a new attempt began" in str(heard.result(WAIT))
    assert run(federation, round=1)[1] == content(ArrayModel(initial()))
    federation.server.close()
    assert [outcome.task.round for outcome in site.done.result(WAIT)] == [1]


def test_settings_that_say_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="a baseline serves differences"):
        WholeExecutor(train, baseline=MemoryStore())
    with pytest.raises(ValueError, match="returns must be"):
        WholeExecutor(train, returns="gradients")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="next_model must be 'memory' or a store"):
        WholeExecutor(train, next_model="/data/next")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="a list is not a model"):
        WholeExecutor(train, [1, 2])


# --- room for the next model -----------------------------------------------------------


def exchanging(exchange: PeerRequest, store: ModelStore, source: Any) -> Future[bytes]:
    """Do an exchange in a thread of its own; gives the bytes that came."""

    def both() -> bytes:
        assert isinstance(store, MemoryStore)
        exchange_models(exchange, source, store)
        return content(store.open())

    pool = ThreadPoolExecutor(1)
    done = pool.submit(both)
    pool.shutdown(wait=False)
    return done


class Stopped(MemoryStore):
    """A store that takes no byte until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.goes_on = threading.Event(), threading.Event()

    def begin(self, spec: Any) -> Any:
        sink = super().begin(spec)
        write = sink.write

        def wait(offset: int, payload: memoryview) -> None:
            self.reached.set()
            assert self.goes_on.wait(WAIT)
            write(offset, payload)

        sink.write = wait  # type: ignore[method-assign]
        return sink


@pytest.mark.parametrize("kind", ["values beside", "differences beside", "values beside on disk"])
def test_the_next_model_comes_while_the_update_still_goes(
    federation: Federation, tmp_path: Path, kind: str
) -> None:
    federation.client("site-1", executor(kind, None, tmp_path))
    slow = Stopped()
    first = exchanging(ask(federation), slow, ArrayModel(initial()))
    assert slow.reached.wait(WAIT)
    next_one = ask(federation, round=1)
    send_model(next_one.outgoing, ArrayModel(initial()))  # all of it, and it is committed
    assert not first.done()
    slow.goes_on.set()
    assert first.result(WAIT) == expected_update(kind.split()[0], ())


def test_a_third_model_waits_and_the_server_is_told() -> None:
    # A quarter of it is how often a held stream says so; all of it is for a busy machine.
    with Federation(config(open_timeout=8.0)) as federation:
        check_a_third_model(federation)


def check_a_third_model(federation: Federation) -> None:
    at_work, goes_on = threading.Event(), threading.Event()
    told: Future[str] = Future()

    def work(model: Arrays, task: Task) -> TaskResult | None:
        if task.round == 0:
            at_work.set()
            assert goes_on.wait(WAIT)
        return train(model, task)

    federation.client("site-1", WholeExecutor(work, next_model="memory"))
    first = exchanging(ask(federation), MemoryStore(), ArrayModel(initial()))
    assert at_work.wait(WAIT)
    send_model(ask(federation, round=1).outgoing, ArrayModel(initial()))
    third = ask(federation, round=2)

    def note(reason: str, waiting_for: str) -> None:
        if not told.done():
            told.set_result(f"{reason}: {waiting_for}")

    third.outgoing.when_held(note)
    last = exchanging(third, MemoryStore(), ArrayModel(initial()))
    assert told.result(WAIT) == "busy: the model before"
    goes_on.set()
    assert first.result(WAIT) == expected_update("values", ())
    assert not last.done()  # the second update was not taken yet


def test_tasks_may_overlap_where_there_is_room_for_two_models() -> None:
    assert not WholeExecutor(train).overlaps
    assert WholeExecutor(train, next_model="memory").overlaps
