"""The aggregation loop by itself: updates that arrive over streams joined in memory."""

from __future__ import annotations

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.clock import running_time
from streamlink.errors import (
    AbortCode,
    ChecksumError,
    QuorumNotReached,
    SpecMismatch,
    StreamAborted,
)
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.model.copy import copy_model
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.protocol import frames as f
from streamlink.rounds.aggregate.combiner import ContributorFailed
from streamlink.rounds.aggregate.gather import TrainTimeout
from streamlink.rounds.lockstep.source import LiveSource
from streamlink.rounds.resume import Answer
from streamlink.stores.memory import MemoryStore
from tests.support.arriving import arrived
from tests.support.examples import examples
from tests.support.gathering import Gathering, updates
from tests.support.models import content, float_spec, model_specs, pattern_model
from tests.support.peers import ODD, SMALL, WAIT, assert_same, initial, mean_of


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
@examples(25)
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


def test_a_wait_notifies_only_the_two_that_change_places(opened: list[Gathering]) -> None:
    count: Counter[str] = Counter()

    class Counting(LiveSource):
        def wait_for(self, name: str) -> None:
            count["notices"] += 1
            super().wait_for(name)

        def fetch(self, seconds: float) -> bool:
            count["waits"] += 1
            return super().fetch(seconds)

        def release(self, nbytes: int) -> None:
            count["releases"] += 1
            super().release(nbytes)

    clients = 8
    opened.append(gathering := Gathering(updates(clients)))
    gathering.make_source = Counting
    for number in range(clients):
        gathering.send(number)
    gathering.gather(held_interval=WAIT).run()
    # To open and to finish are waits, too, one of each for each client.
    waits = count["waits"] + 2 * clients
    assert count["notices"] <= 2 * waits + count["releases"] + clients < clients * waits


def test_another_model_is_refused_by_name(opened: list[Gathering]) -> None:
    other = {"w": np.zeros(3, np.float32)}
    opened.append(gathering := Gathering([updates(1)[0], other]))
    gathering.send(0)
    gathering.send(1)
    with pytest.raises(ContributorFailed, match="site-1 has another model") as failed:
        gathering.gather().run()
    assert failed.value.peer_name == "site-1"
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
    assert failed.value.peer_name == "site-1"


def test_a_failure_known_from_elsewhere_is_raised_while_waiting() -> None:
    error = StreamAborted(AbortCode.TASK_FAILED, "no data", by_peer=True, who="site-1")
    model = ReceiveTransfer(
        SMALL, stream_id=1, peer_name="site-1", name="update", clock=running_time
    )
    contributor = LiveSource("site-1", Answer(model, failure=lambda: error))
    with pytest.raises(ContributorFailed, match="no data") as failed:
        contributor.open(WAIT)
    assert failed.value.__cause__ is error


def test_the_deadline_names_who_was_waited_for(opened: list[Gathering]) -> None:
    opened.append(gathering := Gathering(updates(2), deadline=0.3))
    gathering.send(0)
    with pytest.raises(TrainTimeout, match=r"of 0.3 s passed while waiting for site-1"):
        gathering.gather().run()


def test_a_wrong_digest_fails_the_update(opened: list[Gathering]) -> None:
    opened.append(gathering := Gathering(updates(1)))

    def lie(frame: f.Frame) -> f.Frame:
        return replace(frame, digest="0" * 64) if isinstance(frame, f.Finish) else frame

    gathering.transfers[0].carrier.change = lie
    gathering.send(0)
    with pytest.raises(ContributorFailed) as failed:
        gathering.gather().run()
    assert isinstance(failed.value.__cause__, ChecksumError)


def test_pieces_are_taken_across_any_views() -> None:
    data, dice = random.Random(5).randbytes(8_000), random.Random(7)
    contributor = arrived(data, 7)
    taken = bytearray()
    while len(taken) < len(data):
        taken += contributor.take(min(dice.choice([1, 7, 13, 900]), len(data) - len(taken)))
    assert taken == data


def test_a_piece_within_one_view_is_not_copied() -> None:
    data = bytearray(100)
    contributor = arrived(data, 100)
    view = contributor.take(10)
    data[3] = 9
    assert view[3] == 9


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
    assert error.peer_name == "site-1"


def test_updates_that_all_weigh_nothing_have_no_mean(opened: list[Gathering]) -> None:
    opened.append(gathering := Gathering(updates(1), weight=0.0))
    gathering.send(0)
    with pytest.raises(QuorumNotReached, match="weight 0"):
        gathering.gather().run()


# --- parts, weights, metrics ----------------------------------------------------------------


def test_clients_send_a_part_and_the_rest_is_the_base(opened: list[Gathering]) -> None:
    part = ModelSpec(tuple(ODD.tensors[n] for n in (1, 2, 7)))
    models = [{t.name: sent[t.name] for t in part.tensors} for sent in updates(2)]
    opened.append(gathering := Gathering(models))
    gathering.send(0)
    gathering.send(1)
    gathering.gather(part).run()
    means = mean_of(initial(), dict.fromkeys(range(2), 1.0))
    base = MemoryStore()
    copy_model(pattern_model(ODD), base.begin(ODD))
    assert_same(gathering.store.arrays, base.arrays | {name: means[name] for name in models[0]})


def test_a_whole_model_where_a_part_was_asked_for_is_refused(opened: list[Gathering]) -> None:
    opened.append(gathering := Gathering(updates(1)))
    gathering.send(0)
    with pytest.raises(ContributorFailed, match="site-0 has another part of the model: nobody as"):
        gathering.gather(ModelSpec(ODD.tensors[:1])).run()


def test_weights_may_be_overridden(opened: list[Gathering]) -> None:
    opened.append(gathering := Gathering(updates(2), weight=7.0, loss=2.0))
    gathering.terms = {"weigh": lambda given: given / 2}
    gathering.send(0)
    gathering.send(1)
    gather = gathering.gather()
    gather.run()
    assert gather.weights == {"site-0": 3.5, "site-1": 3.5}
    assert gather.metrics == {"loss": 2.0}


def test_metrics_that_are_not_finite_fail_the_update(opened: list[Gathering]) -> None:
    opened.append(gathering := Gathering(updates(1), loss=float("nan")))
    gathering.send(0)
    with pytest.raises(ContributorFailed, match="site-0 reported loss = nan") as failed:
        gathering.gather().run()
    assert failed.value.peer_name == "site-0"


def test_those_who_wait_while_the_base_is_copied_are_held(opened: list[Gathering]) -> None:
    opened.append(gathering := Gathering([{"c64": updates(1)[0]["c64"]}]))  # the last tensor
    held: list[f.Held] = []
    told = threading.Event()

    def watch(frame: f.Frame) -> bool:
        if isinstance(frame, f.Held):
            held.append(frame)
            told.set()
        return True

    gathering.transfers[0].carrier.watch = watch
    gathering.send(0)
    gathering.gather(ModelSpec(ODD.tensors[-1:])).run()
    assert told.wait(WAIT)
    assert held[0].waiting_for == "the server"
