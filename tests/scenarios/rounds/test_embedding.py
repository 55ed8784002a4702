"""What an embedder adds to the rounds: filters, events, small facts, weights, a declared part."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamlink.executors.executor import Task
from streamlink.executors.streaming import StreamingExecutor
from streamlink.filters import FilterContext, FilterFactory, on_floats
from streamlink.link import Update
from streamlink.model.computed import RangeFunction
from streamlink.model.spec import TensorSpec
from streamlink.rounds.events import EventKind, RoundEvent
from tests.support.jobs import Job
from tests.support.peers import Array, assert_same, executor, initial, trained

F32 = {"w": np.arange(5000, dtype=np.float32), "b": np.ones(7, np.float32)}


def plus(step: float) -> RangeFunction:
    def function(tensor: TensorSpec, start: int, values: Array) -> Array:
        result: Array = values + values.dtype.type(step)
        return result

    return function


def times(factor: float) -> RangeFunction:
    def function(tensor: TensorSpec, start: int, values: Array) -> Array:
        result: Array = values * values.dtype.type(factor)
        return result

    return function


@pytest.fixture(params=["lockstep", "spool"])
def gathering(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The rules of either way to gather, and what it needs."""
    return {"gather": request.param, "extras": {"spool": tmp_path / "spool"}}


def a_job(gathering: Mapping[str, Any], *, rules: Mapping[str, Any] = {}, **extras: Any) -> Job:
    return Job(
        arrays=F32,
        gather=gathering["gather"],
        extras={**gathering["extras"], **extras},
        **rules,
    )


def run(job: Job, *executors: StreamingExecutor) -> dict[str, Array]:
    for number, each in enumerate(executors):
        job.site(number, each)
    job.start(len(executors))
    job.report()
    return job.store.arrays


def test_a_filter_on_the_way_down_changes_what_clients_see(gathering: dict[str, Any]) -> None:
    with a_job(gathering, filters_down=[plus(1), times(2)]) as job:
        found = run(job, *[StreamingExecutor(plus(0))] * 2)
    assert_same(found, {name: (array + 1) * 2 for name, array in F32.items()})


def test_a_filter_on_the_way_up_changes_what_is_averaged(gathering: dict[str, Any]) -> None:
    def choose(facts: FilterContext) -> RangeFunction:
        return plus(10 if facts.peer_name == "site-0" else 30)

    with a_job(gathering, filters_up=[FilterFactory(choose)]) as job:
        found = run(job, *[StreamingExecutor(plus(0))] * 2)
    assert_same(found, {name: array + 20 for name, array in F32.items()})


def test_a_filter_is_asked_for_each_client_and_attempt(gathering: dict[str, Any]) -> None:
    asked: set[tuple[int, str]] = set()

    def choose(facts: FilterContext) -> RangeFunction:
        asked.add((facts.attempt.round, facts.peer_name))
        return plus(0)

    with a_job(gathering, filters_down=[FilterFactory(choose)]) as job:
        run(job, *[StreamingExecutor(plus(0))] * 2)
    assert asked == {(0, "site-0"), (0, "site-1")}


def test_a_filter_on_the_way_up_knows_what_kind_of_update_it_sees(
    gathering: dict[str, Any],
) -> None:
    seen: dict[str, Update] = {}

    def choose(facts: FilterContext) -> RangeFunction:
        seen[facts.peer_name] = facts.update
        return plus(0)

    with a_job(gathering, filters_up=[FilterFactory(choose)]) as job:
        run(job, StreamingExecutor(plus(1)), StreamingExecutor(plus(3), weight=2.0))
    assert seen == {"site-0": Update(1.0, is_pure=True), "site-1": Update(2.0, is_pure=True)}


def test_a_filter_for_floats_leaves_counters_alone() -> None:
    with Job(extras={"filters_up": [on_floats(times(0))]}) as job:
        found = run(job, *[StreamingExecutor(lambda tensor, start, values: values)] * 2)
    expected = {
        name: array if array.dtype.kind in "iub" else array * 0 for name, array in initial().items()
    }
    assert_same(found, expected)


def test_facts_that_are_no_text_are_refused_in_words(gathering: dict[str, Any]) -> None:
    with a_job(gathering, metadata=lambda attempt, peer: {"lr": 0.1}) as job:
        for number in range(2):
            job.site(number, StreamingExecutor(plus(1)))
        job.start(2)
        assert "has 'lr': 0.1; both must be text" in str(job.failure())


def test_the_steps_of_a_round_are_told_in_order(gathering: dict[str, Any]) -> None:
    events: list[RoundEvent] = []
    with a_job(gathering, on_event=events.append) as job:
        run(job, *[StreamingExecutor(plus(0))] * 2)
    told = [event.kind for event in events if event.kind is not EventKind.UPDATE_ARRIVED]
    assert told == [
        EventKind.ROUND_STARTED,
        EventKind.TASK_OFFERED,
        EventKind.TASK_OFFERED,
        EventKind.BEFORE_AGGREGATION,
        EventKind.AFTER_AGGREGATION,
        EventKind.BEFORE_PERSIST,
        EventKind.AFTER_PERSIST,
        EventKind.ROUND_DONE,
    ]


def test_the_last_event_of_a_round_has_its_report_with_the_metrics_of_each_client(
    gathering: dict[str, Any],
) -> None:
    events: list[RoundEvent] = []
    with a_job(gathering, on_event=events.append) as job:
        run(job, executor(0, 1.0, loss=1.0), executor(1, 3.0, loss=3.0))
        returned = job.report()
    reports = {event.kind: event.report for event in events if event.report is not None}
    assert reports == {EventKind.ROUND_DONE: returned}
    assert returned.metrics == {"loss": 2.5}
    assert returned.client_metrics == {"site-0": {"loss": 1.0}, "site-1": {"loss": 3.0}}


def test_before_persist_the_old_model_stands_and_after_it_the_new(
    gathering: dict[str, Any],
) -> None:
    seen = {}
    with a_job(gathering) as job:
        job.extras["on_event"] = lambda event: seen.update(
            {event.kind: float(job.store.arrays["b"][0])}
        )
        run(job, *[StreamingExecutor(plus(5))] * 2)
    assert seen[EventKind.BEFORE_PERSIST] == 1.0
    assert seen[EventKind.AFTER_PERSIST] == 6.0


def test_a_failed_round_is_told_with_its_reason() -> None:
    def veto(event: RoundEvent) -> None:
        told.append(event)
        if event.kind is EventKind.AFTER_AGGREGATION:
            raise ValueError("no")

    told: list[RoundEvent] = []
    with Job(arrays=F32, extras={"on_event": veto}) as job:
        for number in range(2):
            job.site(number, StreamingExecutor(plus(1)))
        job.start(2)
        with pytest.raises(ValueError, match="no"):
            job.reports()
        assert_same(job.store.arrays, F32)
    assert told[-1].kind is EventKind.ROUND_FAILED
    assert told[-1].detail == "no"


def test_small_facts_travel_with_a_task_and_back(gathering: dict[str, Any]) -> None:
    seen: list[Task] = []

    class Noting(StreamingExecutor):
        def execute(self, task: Task, assignment: Any) -> Any:
            seen.append(task)
            return super().execute(task, assignment)

    with a_job(gathering, metadata=lambda attempt, peer: {"rate": f"0.1 for {peer}"}) as job:
        for number in range(2):
            job.site(number, Noting(plus(0)))
        job.start(2)
        report = job.report()
    assert sorted(task.metadata["rate"] for task in seen) == ["0.1 for site-0", "0.1 for site-1"]
    assert report.metadata["site-0"]["digest"] == report.metadata["site-1"]["digest"]


def test_weights_may_all_count_alike(gathering: dict[str, Any]) -> None:
    with a_job(gathering, rules={"weights": "equal"}) as job:
        executors = [StreamingExecutor(plus(n), weight=w) for n, w in ((2, 1.0), (4, 99.0))]
        found = run(job, *executors)
    assert_same(found, {name: array + 3 for name, array in F32.items()})


def test_weights_may_be_given_by_name(gathering: dict[str, Any]) -> None:
    with a_job(gathering, weights={"site-0": 3.0}) as job:
        found = run(job, *[StreamingExecutor(plus(step)) for step in (0, 4)])
    assert_same(found, {name: array + 1 for name, array in F32.items()})


def test_only_the_declared_part_comes_back_and_the_rest_stays(gathering: dict[str, Any]) -> None:
    with a_job(gathering, rules={"part": ["b*"]}) as job:
        found = run(job, *[StreamingExecutor(plus(1))] * 2)
    assert_same(found, {"w": F32["w"], "b": F32["b"] + 1})


def test_metrics_are_averaged_with_the_weights_of_the_model(gathering: dict[str, Any]) -> None:
    with a_job(gathering) as job:
        for number, weight in ((0, 1.0), (1, 3.0)):
            job.site(number, executor(number, weight, loss=float(number)))
        job.start(2)
        assert job.report().metrics == {"loss": 0.75}


def test_a_part_that_matches_nothing_is_refused_in_words() -> None:
    with Job(part=["lora.*"]) as job:
        for number in range(2):
            job.site(number, StreamingExecutor(trained(number)))
        job.start(2)
        with pytest.raises(Exception, match=r"lora\.\*"):
            job.reports()
        assert_same(job.store.arrays, initial())


def test_a_filter_that_raises_fails_the_round_and_blames_no_client(
    gathering: dict[str, Any],
) -> None:
    def wrong(tensor: TensorSpec, start: int, values: Array) -> Array:
        raise ValueError("the filter is wrong")

    with a_job(gathering, filters_down=[wrong]) as job:
        for number in range(3):
            job.site(number, StreamingExecutor(plus(1)))
        job.start(3)
        with pytest.raises(ValueError, match="the filter is wrong"):
            job.reports()
        assert_same(job.store.arrays, F32)


@pytest.mark.parametrize("what", [EventKind.AFTER_PERSIST, EventKind.ROUND_DONE])
def test_what_a_listener_raises_when_all_is_done_undoes_nothing(
    gathering: dict[str, Any], what: EventKind
) -> None:
    def raising(event: RoundEvent) -> None:
        if event.kind is what:
            raise ValueError("too late")

    with a_job(gathering, on_event=raising) as job:
        found = run(job, *[StreamingExecutor(plus(1))] * 2)
    assert_same(found, {name: array + 1 for name, array in F32.items()})
