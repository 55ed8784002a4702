"""The lockstep gather by itself: updates that arrive over streams joined in memory."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlink.errors import (
    AbortCode,
    ChecksumError,
    QuorumNotReached,
    SpecMismatch,
    StreamAborted,
)
from streamlink.link import Update
from streamlink.link.incoming import IncomingModel
from streamlink.link.outgoing import send_model
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.protocol import frames as f
from streamlink.rounds.gather import (
    Contributor,
    ContributorFailed,
    LockstepGather,
    OutOfTime,
    weighted_metrics,
)
from streamlink.stores.memory import MemoryStore
from tests.support.memory_carrier import Transfer
from tests.support.models import content, float_spec, model_specs, pattern_model
from tests.support.peers import (
    ODD,
    SMALL,
    WAIT,
    Array,
    assert_same,
    config,
    initial,
    mean_of,
    trained,
)


def updates(count: int) -> list[dict[str, Array]]:
    """Return what ``count`` clients would send for the model ``initial()``."""
    before = initial()
    return [
        {
            tensor.name: trained(number)(tensor, 0, before[tensor.name].reshape(-1)).reshape(
                tensor.shape
            )
            for tensor in ODD.tensors
        }
        for number in range(count)
    ]


class Gathering:
    """Clients that send their updates, joined in memory to a gather into ``store``."""

    def __init__(
        self, models: Sequence[dict[str, Array]], spec: ModelSpec = ODD, **limits: float
    ) -> None:
        self.store, self._stack = MemoryStore(), ExitStack()
        weight = limits.pop("weight", 1.0)
        self._spec, self._limits = spec, limits
        self.transfers = [
            self._stack.enter_context(
                Transfer(
                    MemoryStore(model).open().spec,
                    config(stream={"chunk_bytes": 4096 + n}),
                    update=Update(weight),
                )
            )
            for n, model in enumerate(models)
        ]
        self._models = models
        self._threads: list[threading.Thread] = []

    def send(self, number: int) -> None:
        """Let client ``number`` begin to send."""
        self.transfers[number].carrier.join()
        thread = threading.Thread(target=self._send, args=(number,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _send(self, number: int) -> None:
        with suppress(StreamAborted):  # the gather's side says why
            send_model(self.transfers[number].outgoing, MemoryStore(self._models[number]).open())

    def gather(self) -> LockstepGather:
        """Return the gather, ready to run."""
        contributors = [
            Contributor(f"site-{n}", transfer.incoming) for n, transfer in enumerate(self.transfers)
        ]
        deadline = self._limits.get("deadline")
        return LockstepGather(
            self._spec,
            contributors,
            self.store.begin(self._spec),
            held_interval=0.05,
            deadline=None if deadline is None else time.monotonic() + deadline,
            train_timeout=deadline or 0.0,
        )

    def close(self) -> None:
        self._stack.close()
        for thread in self._threads:
            thread.join(WAIT)


@pytest.fixture
def opened() -> Iterator[list[Gathering]]:
    made: list[Gathering] = []
    yield made
    for gathering in made:
        gathering.close()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_order_of_arrival_changes_no_bit(
    order: tuple[int, ...], opened: list[Gathering]
) -> None:
    opened.append(gathering := Gathering(updates(3)))
    for number in order:
        gathering.send(number)
    gather = gathering.gather()
    gather.run()
    assert gather.weights == {"site-0": 1.0, "site-1": 1.0, "site-2": 1.0}
    assert_same(gathering.store.arrays, mean_of(initial(), dict.fromkeys(range(3), 1.0)))


@given(model_specs(), st.integers(1, 2))  # of three, float64 may be off by its last bit
@settings(max_examples=25)
def test_equal_updates_of_any_model_give_that_model(spec: ModelSpec, count: int) -> None:
    whole = MemoryStore()
    sink = whole.begin(spec)
    if spec.nbytes:
        sink.write(0, memoryview(content(pattern_model(spec, seed=1))))
    sink.commit()
    if any(np.isnan(array.astype(np.complex128)).any() for array in whole.arrays.values()):
        return  # every NaN comes out as the default one, by promise
    gathering = Gathering([whole.arrays] * count, spec)
    try:
        for number in range(count):
            gathering.send(number)
        gathering.gather().run()
        assert content(gathering.store.open()) == content(whole.open())
    finally:
        gathering.close()


def test_those_ahead_hear_whom_they_wait_for(opened: list[Gathering]) -> None:
    opened.append(gathering := Gathering(updates(2)))
    held: list[f.Held] = []
    told = threading.Event()

    def watch(frame: f.Frame) -> bool:
        if isinstance(frame, f.Held):
            held.append(frame)
            told.set()
        return True

    gathering.transfers[0].carrier.watch = watch
    gathering.send(0)
    running = threading.Thread(target=gathering.gather().run)
    running.start()
    assert told.wait(WAIT)
    gathering.send(1)
    running.join(WAIT)
    assert (held[0].reason, held[0].waiting_for) == ("lockstep", "site-1")
    assert [frame.counter for frame in held] == list(range(1, len(held) + 1))


def test_another_model_is_refused_by_name(opened: list[Gathering]) -> None:
    other = {"w": np.zeros(3, np.float32)}
    opened.append(gathering := Gathering([updates(1)[0], other]))
    gathering.send(0)
    gathering.send(1)
    with pytest.raises(ContributorFailed, match="site-1 has another model") as failed:
        gathering.gather().run()
    assert failed.value.peer == "site-1"
    assert isinstance(failed.value.__cause__, SpecMismatch)


def test_an_update_that_breaks_off_is_named(opened: list[Gathering]) -> None:
    opened.append(gathering := Gathering(updates(2)))

    def break_off(frame: f.Frame) -> bool:
        if isinstance(frame, f.Chunk) and frame.offset > 10_000:
            gathering.transfers[1].outgoing.abort(AbortCode.TASK_FAILED, "out of memory")
        return True

    gathering.transfers[1].carrier.watch = break_off
    gathering.send(0)
    gathering.send(1)
    with pytest.raises(ContributorFailed, match="out of memory") as failed:
        gathering.gather().run()
    assert failed.value.peer == "site-1"


def test_a_failure_known_from_elsewhere_is_raised_while_waiting() -> None:
    error = StreamAborted(AbortCode.TASK_FAILED, "no data", by_peer=True, who="site-1")
    model = IncomingModel(SMALL, stream_id=1, peer="site-1", name="update")
    contributor = Contributor("site-1", model, failure=lambda: error)
    with pytest.raises(ContributorFailed, match="no data") as failed:
        contributor.open(WAIT)
    assert failed.value.__cause__ is error


def test_the_deadline_names_who_was_waited_for(opened: list[Gathering]) -> None:
    opened.append(gathering := Gathering(updates(2), deadline=0.3))
    gathering.send(0)
    with pytest.raises(OutOfTime, match=r"train_timeout of 0.3 s passed while waiting for site-1"):
        gathering.gather().run()


def test_a_wrong_digest_fails_the_update(opened: list[Gathering]) -> None:
    opened.append(gathering := Gathering(updates(1)))
    model = gathering.transfers[0].incoming
    gathering.send(0)
    gather = gathering.gather()
    assert model.open(WAIT)
    finish = model._check_digest
    model._check_digest = lambda sent: finish("0" * len(sent))  # type: ignore[method-assign]
    with pytest.raises(ContributorFailed) as failed:
        gather.run()
    assert isinstance(failed.value.__cause__, ChecksumError)


def test_pieces_are_taken_across_any_views() -> None:
    data, dice = random.Random(5).randbytes(40_000), random.Random(7)
    contributor = Contributor(
        "site-1", IncomingModel(SMALL, stream_id=1, peer="site-1", name="update")
    )
    contributor._views.extend(memoryview(data)[at : at + 7] for at in range(0, len(data), 7))
    taken = bytearray()
    while len(taken) < len(data):
        taken += contributor.take(min(dice.choice([1, 7, 13, 9000]), len(data) - len(taken)))
    assert taken == data


def test_a_piece_within_one_view_is_not_copied() -> None:
    data = bytearray(100)
    contributor = Contributor("a", IncomingModel(SMALL, stream_id=1, peer="a", name="update"))
    contributor._views.append(memoryview(data))
    view = contributor.take(10)
    data[3] = 9
    assert view[3] == 9


def test_metrics_are_averaged_over_those_who_gave_them() -> None:
    reports = [(1.0, {"loss": 2.0, "n": 1.0}), (3.0, {"loss": 6.0})]
    assert weighted_metrics(reports) == {"loss": 5.0, "n": 1.0}
    assert weighted_metrics([(0.0, {"loss": 1.0})]) == {}
    assert weighted_metrics([]) == {}


def test_a_model_without_bytes_is_gathered(opened: list[Gathering]) -> None:
    spec = ModelSpec((TensorSpec("none", "F32", (0,)),))
    opened.append(gathering := Gathering([initial(spec)] * 2, spec))
    gathering.send(0)
    gathering.send(1)
    gathering.gather().run()
    assert gathering.store.open().spec == spec
    assert float_spec(0).nbytes == 0


def test_a_lost_client_is_noticed_while_another_is_waited_for(opened: list[Gathering]) -> None:
    opened.append(gathering := Gathering(updates(2)))
    gathering.send(1)  # and never 0, which the gather waits for
    with ThreadPoolExecutor(1) as pool:
        gathered = pool.submit(gathering.gather().run)
        gathering.transfers[1].incoming.abort(AbortCode.SESSION_LOST, "site-1 is gone")
        error = gathered.exception(WAIT)
    assert isinstance(error, ContributorFailed)
    assert error.peer == "site-1"


def test_updates_that_all_weigh_nothing_have_no_mean(opened: list[Gathering]) -> None:
    opened.append(gathering := Gathering(updates(1), weight=0.0))
    gathering.send(0)
    with pytest.raises(QuorumNotReached, match="weight 0"):
        gathering.gather().run()
