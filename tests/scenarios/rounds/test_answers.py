"""Clients that answer twice, late, or for another round: nothing of it counts."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from streamlink.errors import AbortCode, StreamAborted, StreamlinkError
from streamlink.executors.executor import Task, TaskOutcome
from streamlink.link import Attempt, Update
from streamlink.link.assignment import Assignment
from streamlink.link.receive_model import receive_model
from streamlink.link.send_model import send_model
from streamlink.stores.memory import MemoryStore, spec_of
from tests.support.dialing import Dialing
from tests.support.jobs import Job
from tests.support.peers import WAIT, Array, initial, trained, until


def answer_of(number: int) -> dict[str, Array]:
    """The update of client ``number`` in one piece."""
    spec = spec_of(initial())
    return {
        tensor.name: trained(number)(tensor, 0, initial()[tensor.name].reshape(-1)).reshape(
            tensor.shape
        )
        for tensor in spec.tensors
    }


class Twice:
    """Sends its update, and then another one for the same task, of much greater weight."""

    def __init__(self, number: int) -> None:
        self._answer = MemoryStore(answer_of(number)).open()
        self.second: Future[None] = Future()

    def execute(self, task: Task, assignment: Assignment) -> TaskOutcome:
        received = receive_model(assignment.incoming(), lambda m: MemoryStore().begin(m.spec))
        first = assignment.outgoing(self._answer.spec)
        sent = send_model(first, self._answer)
        assignment.close(first)
        try:
            send_model(assignment.outgoing(self._answer.spec, Update(1e9)), self._answer)
        except StreamlinkError as error:
            self.second.set_exception(error)
        else:
            self.second.set_result(None)
        return TaskOutcome(task, received, sent)


def answering_for_the_round_before(dialing: Dialing, number: int) -> Callable[[Assignment], None]:
    """Return the work of a client whose update says that it belongs to the round before."""
    answer = MemoryStore(answer_of(number)).open()

    def serve(assignment: Assignment) -> None:
        receive_model(assignment.incoming(), lambda m: MemoryStore().begin(m.spec))
        now = assignment.attempt
        older = dialing.answer(answer.spec, Attempt(now.job, now.round - 1, now.attempt))
        with suppress(StreamlinkError):
            send_model(older, answer)

    return serve


@pytest.fixture(params=["lockstep", "spool"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with Job(gather=request.param, extras={"spool": tmp_path / "spool"}) as job:
        yield job


def test_a_second_answer_is_refused_and_the_first_counts_once(job: Job) -> None:
    twice = Twice(1)
    job.site(0)
    job.site(1, twice)
    job.start(2)
    report = job.report()
    job.assert_mean_of(0, 1)
    assert report.weights == {"site-0": 1.0, "site-1": 1.0}
    assert isinstance(twice.second.exception(WAIT), StreamlinkError)


def test_an_update_of_another_round_is_refused_by_name(job: Job) -> None:
    job.rules = job.rules.model_copy(update={"start_round": 7})
    job.site(0)
    dialing = Dialing()
    job.federation.link("site-1", answering_for_the_round_before(dialing, 1), dial=dialing)
    job.site(2)
    job.start(3)
    report = job.report()
    job.assert_mean_of(0, 2)
    assert "sent a model of job 'test' round 6" in report.failures["site-1"]


def test_a_late_client_hears_that_nobody_waits(tmp_path: Path) -> None:
    heard: Future[BaseException] = Future()

    class Late(Twice):
        def execute(self, task: Task, assignment: Assignment) -> TaskOutcome:
            receive_model(assignment.incoming(), lambda m: MemoryStore().begin(m.spec))

            def look() -> bool:
                task.progress()
                return False

            try:
                until(look)
            except StreamAborted as error:
                heard.set_result(error)
                raise
            raise AssertionError("not reached")

    rules: dict[str, Any] = {"gather": "spool", "wait_time_after_min_received": 0.2}
    with Job(extras={"spool": tmp_path / "spool"}, **rules) as job:
        job.site(0)
        job.site(1, Late(1))
        job.site(2)
        job.start(3)
        job.report()
        job.assert_mean_of(0, 2)
    error = heard.result(WAIT)
    assert isinstance(error, StreamAborted)
    assert error.code is AbortCode.STALE_ATTEMPT
    assert "no update of it came before the round's rule was met" in error.reason
