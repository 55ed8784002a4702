"""What becomes of a round when a client drops out, comes back, is late, fails or lies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from streamlink.config import RoundConfig
from streamlink.errors import (
    QuorumNotReached,
    SpecMismatch,
    StreamAborted,
    StreamTimeout,
)
from streamlink.executors.executor import Task, TaskOutcome
from streamlink.executors.streaming import StreamingExecutor
from streamlink.link import Update
from streamlink.link.assignment import Assignment
from streamlink.link.receive_model import receive_model
from streamlink.link.send_model import send_model
from streamlink.model.spec import TensorSpec
from streamlink.rounds.controller import ScatterAndGather
from streamlink.stores.memory import MemoryStore
from tests.support.jobs import Job
from tests.support.peers import (
    WAIT,
    Array,
    Site,
    config,
    initial,
)
from tests.support.slow_commit import SlowCommit
from tests.support.virtual_job import VirtualJob, acting_at

HOUR = 3600.0


def test_a_client_that_drops_out_is_left_out_after_the_grace_time() -> None:
    with Job(wait_time_after_min_received=0.3) as job:
        gate, leaving = job.gated(1)
        job.site(0)
        job.site(2)
        job.start(3)
        assert gate.reached.wait(WAIT)
        leaving.leave()
        report = job.report()
        job.assert_mean_of(0, 2)
    assert report.attempt == 2
    assert sorted(report.weights) == ["site-0", "site-2"]
    assert list(report.failures) == ["site-1"]
    assert "site-1" in report.failures["site-1"]


def test_a_client_that_comes_back_within_the_grace_time_takes_part() -> None:
    with Job(wait_time_after_min_received=WAIT) as job:
        gate, leaving = job.gated(1)
        job.site(0)
        job.start(2)
        assert gate.reached.wait(WAIT)
        leaving.leave()
        job.federation.wait_left("site-1")
        gate.opens.set()
        job.site(1)
        report = job.report()
        job.assert_mean_of(0, 1)
    assert report.attempt == 1
    assert report.failures == {}


def test_too_few_clients_left_leave_the_old_model_standing() -> None:
    with Job(wait_time_after_min_received=0.2) as job:
        gate, leaving = job.gated(1)
        job.site(0)
        job.start(2)
        assert gate.reached.wait(WAIT)
        leaving.leave()
        error = job.failure()
        job.assert_unchanged()
    assert isinstance(error, QuorumNotReached)
    assert list(error.failures) == ["site-1"]
    assert "1 of 2 clients left (min_clients)" in str(error)


def test_the_others_go_on_after_a_failed_round() -> None:
    with Job(wait_time_after_min_received=0.1, min_clients=3) as job:
        gate, leaving = job.gated(1)
        others = [job.site(0), job.site(2)]
        job.start(3)
        assert gate.reached.wait(WAIT)
        leaving.leave()
        job.failure()
        rules = RoundConfig(num_rounds=1, min_clients=2)
        ScatterAndGather(job.federation.server, job.store, rules).run()
        job.assert_mean_of(0, 2)
        assert not any(site.done.done() for site in others)


def test_a_client_that_drops_out_before_it_answers_is_left_out() -> None:
    with Job(wait_time_after_min_received=0.2) as job:
        gate, leaving = job.gated(1, "f64")
        job.site(0)
        job.site(2)
        job.start(3)
        assert gate.reached.wait(WAIT)
        leaving.leave()
        assert job.report().attempt == 2
        job.assert_mean_of(0, 2)


def boom(tensor: TensorSpec, start: int, values: Array) -> Array:
    raise ValueError("the data set is empty")


def short(tensor: TensorSpec, start: int, values: Array) -> Array:
    return values[:-1]


@pytest.mark.parametrize(
    ("work", "why"), [(boom, "the data set is empty"), (short, "expected float64 of shape")]
)
def test_a_client_whose_task_raises_is_left_out_by_name(
    work: Callable[[TensorSpec, int, Array], Array], why: str
) -> None:
    with Job() as job:
        job.site(0)
        job.site(1, StreamingExecutor(work))
        job.site(2)
        job.start(3)
        report = job.report()
        job.assert_mean_of(0, 2)
    assert report.attempt == 2
    assert why in report.failures["site-1"]


def test_a_task_that_raises_where_all_are_needed_ends_the_round() -> None:
    with Job() as job:
        job.site(0)
        failing = job.site(1, StreamingExecutor(boom))
        job.start(2)
        error = job.failure()
        job.assert_unchanged()
        assert not failing.done.done()  # the client itself stays
    assert "the data set is empty" in str(error)


class Answers:
    """An executor that receives the model and sends back another one."""

    def __init__(self, arrays: dict[str, Array], weight: float = 1.0) -> None:
        self._answer, self._weight = MemoryStore(arrays).open(), weight

    def execute(self, task: Task, assignment: Assignment) -> TaskOutcome:
        model = assignment.incoming()
        received = receive_model(model, lambda model: MemoryStore().begin(model.spec))
        outgoing = assignment.outgoing(self._answer.spec, Update(self._weight))
        return TaskOutcome(task, received, send_model(outgoing, self._answer))


def test_a_client_that_answers_with_another_model_is_left_out_by_name_at_once() -> None:
    with VirtualJob(min_clients=2) as job:
        job.site(0)
        job.site(1, Answers({"w": np.zeros(9, np.float32)}))
        job.site(2)
        report = job.run()
        job.assert_mean_of(0, 2)
        assert job.seconds == 0.0  # nobody has waited for a reason that it knows
    why = report.failures["site-1"]
    assert "site-1 has another model: it lacks tensors 'f64', 'flag', 'f32' and 8 more" in why
    assert "nobody asked for tensor 'w'" in why


def test_another_model_where_all_are_needed_ends_the_round() -> None:
    with Job() as job:
        job.site(0)
        job.site(1, Answers({"w": np.zeros(9, np.float32)}))
        job.start(2)
        assert isinstance(job.failure().failures["site-1"], SpecMismatch)
        job.assert_unchanged()


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_a_client_with_an_impossible_weight_is_left_out_by_name(weight: float) -> None:
    with Job() as job:
        job.site(0)
        job.site(1, Answers(initial(), weight))
        job.site(2)
        job.start(3)
        report = job.report()
        job.assert_mean_of(0, 2)
    assert "weight" in report.failures["site-1"]


def test_a_client_that_never_answers_is_named_with_its_stage() -> None:
    with VirtualJob(config(communication_timeout=60.0), wait_time_after_min_received=0.1) as job:

        def idle(assignment: Assignment) -> None:
            receive_model(assignment.incoming(), lambda model: MemoryStore().begin(model.spec))
            job.sleep(HOUR)

        job.site(0)
        job.site(1, serving=idle)
        job.site(2)
        report = job.run()
        job.assert_mean_of(0, 2)
    assert "stage processing: site-1 made no progress" in report.failures["site-1"]


def test_a_client_that_stops_in_the_middle_of_its_update_is_named_with_its_stage() -> None:
    with VirtualJob(config(communication_timeout=60.0), wait_time_after_min_received=0.1) as job:
        job.site(0)
        job.site(1, acting_at(1, lambda: job.sleep(HOUR)))
        job.site(2)
        report = job.run()
        job.assert_mean_of(0, 2)
    assert "site-1" in report.failures["site-1"]
    assert "stage" in report.failures["site-1"]


def test_a_client_lost_during_the_commit_has_given_its_update() -> None:
    sites: list[Site] = []

    def lose() -> None:
        sites[1].leave()
        job.federation.wait_left("site-1")

    with Job() as job:
        job.store = SlowCommit(lose)
        sites += [job.site(0), job.site(1)]
        job.start(2)
        report = job.report()
        job.assert_mean_of(0, 1)
    assert sorted(report.weights) == ["site-0", "site-1"]


def test_a_store_that_fails_is_the_servers_own_error() -> None:
    def full() -> None:
        raise OSError("no room")

    with Job() as job:
        job.store = SlowCommit(full)
        job.site(0)
        job.site(1)
        job.start(2)
        assert str(job.done.exception(WAIT)) == "no room"
        job.assert_unchanged()


def test_a_round_that_fails_again_and_again_ends() -> None:
    with Job(min_clients=1, max_attempts=2) as job:
        for number in range(3):
            job.site(number, StreamingExecutor(boom))
        job.start(3)
        error = job.failure()
        job.assert_unchanged()
    assert "round 0 failed 2 times (max_attempts)" in str(error)
    assert len(error.failures) == 2
    assert all(isinstance(each, StreamAborted | StreamTimeout) for each in error.failures.values())


def test_of_two_clients_that_are_lost_together_each_has_its_grace_time() -> None:
    with Job(wait_time_after_min_received=WAIT, min_clients=3) as job:
        gates = [job.gated(number) for number in (0, 1)]
        job.site(2)
        job.start(3)
        for gate, _ in gates:
            assert gate.reached.wait(WAIT)
        for number, (gate, leaving) in enumerate(gates):
            leaving.leave()
            job.federation.wait_left(f"site-{number}")
            gate.opens.set()
        job.site(0)
        job.federation.peer("site-0")
        job.site(1)
        assert job.report().attempt == 1
        job.assert_mean_of(0, 1, 2)


def test_both_of_two_clients_that_stay_away_are_named() -> None:
    with Job(wait_time_after_min_received=0.2, min_clients=1) as job:
        gates = [job.gated(number) for number in (0, 1)]
        job.site(2)
        job.start(3)
        for gate, _ in gates:
            assert gate.reached.wait(WAIT)
        for number, (_, leaving) in enumerate(gates):
            leaving.leave()
            job.federation.wait_left(f"site-{number}")
        report = job.report()
        job.assert_mean_of(2)
    assert sorted(report.failures) == ["site-0", "site-1"]
