"""Rounds whose next model goes down while the updates still come up, over real gRPC."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np

from streamlink.errors import RoundError
from streamlink.executors.executor import Task, TaskResult
from streamlink.executors.streaming import StreamingExecutor
from streamlink.executors.whole import WholeExecutor
from streamlink.rounds.events import EventKind, RoundEvent
from tests.support.jobs import Job
from tests.support.peers import WAIT, Array, assert_same, config
from tests.support.virtual_job import VirtualJob

KiB = 1 << 10
MODEL: dict[str, Array] = {"w": np.arange(20_000, dtype=np.float32), "b": np.zeros(3, np.float64)}
"""About five windows of the test's streams."""


def adding(step: float, weight: float = 1.0, **options: Any) -> WholeExecutor:
    """Return an executor whose work adds ``step`` to every element."""

    def train(model: dict[str, Array], task: Task) -> TaskResult:
        for array in model.values():
            array += array.dtype.type(step)
        return TaskResult(weight)

    return WholeExecutor(train, **options)


def duplex(rounds: int = 3, **rules: Any) -> Job:
    return Job(arrays=MODEL, num_rounds=rounds, duplex_bytes=32 * KiB, **rules)


def plus(step: float) -> dict[str, Array]:
    return {name: array + array.dtype.type(step) for name, array in MODEL.items()}


def run(job: Job, *executors: Any) -> list[RoundEvent]:
    events: list[RoundEvent] = []
    job.extras["on_event"] = events.append
    for number, executor in enumerate(executors):
        job.site(number, executor)
    job.start(len(executors))
    job.reports()
    return events


def offers_before_the_model_was_whole(events: list[RoundEvent]) -> set[tuple[int, str]]:
    """Return (round, peer) of the tasks that were offered while the round before still ran."""
    early, done = set(), -1
    for event in events:
        if event.kind is EventKind.AFTER_PERSIST:
            done = event.attempt.round
        elif event.kind is EventKind.TASK_OFFERED and done < event.attempt.round - 1:
            early.add((event.attempt.round, event.peer_name))
    return early


def test_the_next_model_goes_down_early_and_every_mean_is_exact() -> None:
    with duplex(rounds=4) as job:
        events = run(job, *[adding(step, next_model="memory") for step in (1, 3)])
        assert_same(job.store.arrays, plus(4 * 2))
    assert offers_before_the_model_was_whole(events) == {
        (number, peer) for number in (1, 2, 3) for peer in ("site-0", "site-1")
    }


def test_clients_without_room_are_given_the_next_model_when_it_is_whole() -> None:
    with duplex() as job:
        events = run(job, adding(1, next_model="memory"), adding(3))
        assert_same(job.store.arrays, plus(3 * 2))
    assert {peer for _, peer in offers_before_the_model_was_whole(events)} == {"site-0"}


def test_a_streaming_client_may_take_part() -> None:
    def plus_three(tensor: Any, start: int, values: Array) -> Array:
        result: Array = values + values.dtype.type(3)
        return result

    with duplex() as job:
        run(job, adding(1, next_model="memory"), StreamingExecutor(plus_three))
        assert_same(job.store.arrays, plus(3 * 2))


def test_nothing_goes_down_early_unless_memory_is_granted_for_it() -> None:
    with duplex() as job:
        job.rules = job.rules.model_copy(update={"duplex_bytes": 0})
        events = run(job, *[adding(step, next_model="memory") for step in (1, 3)])
        assert_same(job.store.arrays, plus(3 * 2))
    assert offers_before_the_model_was_whole(events) == set()


def test_differences_are_of_the_model_that_came() -> None:
    options: dict[str, Any] = {"next_model": "memory", "returns": "differences"}
    with duplex() as job:
        run(job, *[adding(step, **options) for step in (1, 3)])
        assert_same(job.store.arrays, plus(3 * 2))


def test_filters_see_whole_elements_on_the_way_down() -> None:
    def twice(tensor: Any, start: int, values: Array) -> Array:
        result: Array = values * values.dtype.type(2)
        return result

    with duplex(rounds=2) as job:
        job.extras["filters_down"] = [twice]
        run(job, *[adding(1, next_model="memory")] * 1, adding(1, next_model="memory"))
        assert_same(job.store.arrays, {name: (a * 2 + 1) * 2 + 1 for name, a in MODEL.items()})


def test_a_round_that_fails_takes_back_what_went_down_early() -> None:
    trained = []

    def veto(event: RoundEvent) -> None:
        if event.kind is EventKind.BEFORE_PERSIST and event.attempt.round == 1:
            raise RoundError("the new model is worse")

    def train(model: dict[str, Array], task: Task) -> None:
        trained.append(task.round)

    with duplex(rounds=3) as job:
        job.extras["on_event"] = veto
        for number in range(2):
            job.site(number, WholeExecutor(train, next_model="memory"))
        job.start(2)
        assert "worse" in str(job.failure())
        assert_same(job.store.arrays, MODEL)
    assert sorted(trained) == [0, 0, 1, 1]  # nobody was given a model that never was


def test_a_client_that_fails_costs_an_attempt_and_the_others_go_on() -> None:
    tries = threading.Semaphore(1)

    def train(model: dict[str, Array], task: Task) -> None:
        if task.round == 1:
            raise ValueError("the data set is empty")
        for array in model.values():
            array += array.dtype.type(5)

    assert tries.acquire(timeout=WAIT)
    with duplex(rounds=3) as job:
        job.site(0, adding(1, next_model="memory"))
        job.site(1, adding(3, next_model="memory"))
        job.site(2, WholeExecutor(train, next_model="memory"))
        job.start(3)
        reports = job.reports()
        # The third is in rounds 0 and 2: the mean of 1, 3 and 5, or of 1 and 3.
        assert_same(job.store.arrays, plus(3 + 2 + 3))
    assert [report.attempt for report in reports] == [1, 2, 1]
    assert "the data set is empty" in reports[1].failures["site-2"]


def test_memory_for_one_byte_is_enough_to_go_on() -> None:
    with Job(arrays=MODEL, num_rounds=3, duplex_bytes=1) as job:
        run(job, *[adding(step, next_model="memory") for step in (1, 3)])
        assert_same(job.store.arrays, plus(3 * 2))


def test_clients_that_wait_for_their_next_round_are_told_so() -> None:
    def evaluate(event: RoundEvent) -> None:
        if event.kind is EventKind.ROUND_DONE:
            job.sleep(30.0)  # thrice their limits

    link = config(open_timeout=10.0, communication_timeout=10.0)
    with VirtualJob(link, arrays=MODEL, num_rounds=3, duplex_bytes=32 * KiB) as job:
        job.on_event = evaluate
        for number, step in enumerate((1, 3)):
            job.site(number, adding(step, next_model="memory"))
        assert [report.attempt for report in job.reports()] == [1, 1, 1]
        assert_same(job.store.arrays, plus(3 * 2))


def test_a_client_that_is_started_again_between_rounds_counts() -> None:
    def replace(event: RoundEvent) -> None:
        if event.kind is EventKind.ROUND_DONE and event.attempt.round == 0:
            first.leave()
            job.federation.wait_left("site-1")
            job.site(1, adding(3, next_model="memory"))
            job.federation.peer("site-1")

    with duplex(rounds=2) as job:
        job.extras["on_event"] = replace
        job.site(0, adding(1, next_model="memory"))
        first = job.site(1, adding(3, next_model="memory"))
        job.start(2)
        assert [sorted(report.weights) for report in job.reports()] == [["site-0", "site-1"]] * 2
        assert_same(job.store.arrays, plus(2 * 2))


def test_what_went_down_early_is_given_up_where_the_next_round_is_spooled(tmp_path: Path) -> None:
    trained: list[int] = []

    def train(model: dict[str, Array], task: Task) -> None:
        trained.append(task.round)

    def join(event: RoundEvent) -> None:
        if event.kind is EventKind.AFTER_AGGREGATION and event.attempt.round == 0:
            job.site(2, WholeExecutor(train))
            job.federation.peer("site-2")

    with duplex(rounds=2, gather="auto") as job:
        job.extras.update(on_event=join, spool=tmp_path / "spool")
        for number in range(2):
            job.site(number, WholeExecutor(train, next_model="memory"))
        job.start(2)
        assert len(job.reports()[1].weights) == 3
    assert trained.count(0) == 2
