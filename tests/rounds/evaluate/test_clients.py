"""Evaluation over real gRPC and on virtual time: one outcome for whatever a client does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamlink.errors import Cancelled, JobAborted, StoreError
from streamlink.executors.executor import Task, TaskResult
from streamlink.executors.streaming import StreamingExecutor
from streamlink.link.assignment import Assignment
from streamlink.model.interfaces import ModelSource
from streamlink.rounds.controller import ScatterAndGather
from streamlink.rounds.evaluate.report import Evaluation
from streamlink.rounds.events import EventKind, RoundEvent
from streamlink.rounds.ledger import Ledger
from tests.support.jobs import Job
from tests.support.peers import Array, assert_same, initial, mean_of, trained
from tests.support.virtual_job import Cable, VirtualJob

EVALUATED: dict[str, Any] = {"evaluate_every": 1}

Found = dict[str, float] | TaskResult


def site(number: int, evaluate: Callable[[dict[str, Array], Task], Found]) -> StreamingExecutor:
    return StreamingExecutor(trained(number), evaluate=evaluate)


def accurate(accuracy: float, weight: float = 1.0) -> Callable[[Any, Task], Found]:
    return lambda arrays, task: TaskResult(weight, {"accuracy": accuracy})


def test_each_client_gets_the_new_model_and_the_mean_is_weighted() -> None:
    seen: dict[str, dict[str, Array]] = {}

    def remember(name: str, weight: float) -> Callable[[dict[str, Array], Task], Found]:
        def evaluate(arrays: dict[str, Array], task: Task) -> Found:
            seen[name] = {key: array.copy() for key, array in arrays.items()}
            assert (task.name, task.round) == ("evaluate", 0)
            return TaskResult(weight, {"accuracy": weight, "loss": 0.5})

        return evaluate

    with Job(**EVALUATED) as job:
        job.site(1, site(1, remember("site-1", 1.0)))
        job.site(2, site(2, remember("site-2", 3.0)))
        job.start(2)
        report = job.report()
        job.assert_mean_of(1, 2)
    for arrays in seen.values():
        assert_same(arrays, mean_of(initial(), {1: 1.0, 2: 1.0}))
    found = report.evaluation
    assert found is not None
    assert found.metrics == {"accuracy": 2.5, "loss": 0.5}  # (1 × 1 + 3 × 3) / 4
    assert found.client_metrics["site-2"] == {"accuracy": 3.0, "loss": 0.5}
    assert found.weights == {"site-1": 1.0, "site-2": 3.0}
    assert not found.failures


def test_only_every_kth_round_is_evaluated_and_the_last_one() -> None:
    with Job(evaluate_every=2, num_rounds=5, start_round=3) as job:
        for number in (1, 2):
            job.site(number, site(number, accurate(0.5)))
        job.start(2)
        evaluated = [each.round for each in job.reports() if each.evaluation is not None]
    assert evaluated == [4, 6, 7]


def fails(arrays: dict[str, Array], task: Task) -> Found:
    raise ValueError("the data set is empty")


@pytest.mark.parametrize(
    ("executor", "why"),
    [
        (StreamingExecutor(trained(2)), "cannot evaluate a model; give its executor a function"),
        (site(2, fails), "ValueError: the data set is empty"),
        (site(2, lambda arrays, task: {"loss": np.nan}), "metric 'loss' is nan"),
        (site(2, lambda arrays, task: {}), "answered without a metric"),
        (site(2, lambda arrays, task: 0.9), "returned a float"),  # type: ignore[arg-type, return-value]
        (site(2, lambda arrays, task: {"a\nb": 0.5}), "a metric called"),
    ],
    ids=["cannot", "raises", "nan", "nothing", "no dict", "hostile name"],
)
def test_a_client_that_cannot_evaluate_is_named_and_the_others_count(
    executor: StreamingExecutor, why: str
) -> None:
    with Job(**EVALUATED) as job:
        job.site(1, site(1, accurate(0.75)))
        job.site(2, executor)
        job.start(2)
        report = job.report()
    found = report.evaluation
    assert found is not None
    assert found.metrics == {"accuracy": 0.75}
    assert list(found.client_metrics) == ["site-1"]
    assert why in found.failures["site-2"]
    assert report.weights == {"site-1": 1.0, "site-2": 1.0}  # its update counts all the same


def test_an_executor_of_the_users_own_need_not_evaluate() -> None:
    class Own:
        def execute(self, task: Task, assignment: Assignment) -> Any:
            return StreamingExecutor(trained(2)).execute(task, assignment)

    with Job(**EVALUATED) as job:
        job.site(1, site(1, accurate(0.75)))
        job.site(2, Own())
        job.start(2)
        found = job.report().evaluation
    assert found is not None
    assert "has no method evaluate" in found.failures["site-2"]


def test_with_too_few_answers_there_is_no_mean_and_the_round_stands() -> None:
    with Job(**EVALUATED, min_evaluate_clients=2) as job:
        job.site(1, site(1, accurate(0.75)))
        job.site(2)
        job.start(2)
        found = job.report().evaluation
        job.assert_mean_of(1, 2)
    assert found is not None
    assert found.metrics == {}
    assert found.client_metrics == {"site-1": {"accuracy": 0.75}}


def test_the_events_and_the_facts_of_an_evaluation() -> None:
    events: list[RoundEvent] = []
    asked: list[str] = []

    def evaluate(arrays: dict[str, Array], task: Task) -> Found:
        asked.append(task.metadata["split"])
        return {"accuracy": 0.5}

    extras = {"on_event": events.append, "metadata": lambda attempt, peer: {"split": "test"}}
    with Job(**EVALUATED, extras=extras) as job:
        job.site(1, site(1, evaluate))
        job.site(2)
        job.start(2)
        report = job.report()
    kinds = [event.kind for event in events]
    at = kinds.index(EventKind.ROUND_DONE)
    assert kinds[at + 1 :] == [
        EventKind.EVALUATION_STARTED,
        EventKind.CLIENT_EVALUATED,
        EventKind.CLIENT_NOT_EVALUATED,
        EventKind.EVALUATED,
    ]
    assert events[-1].report == report
    assert asked == ["test"]


def test_an_abort_by_the_operator_ends_an_evaluation_and_the_round_stays_done(
    tmp_path: Path,
) -> None:
    jobs: list[ScatterAndGather] = []

    def evaluate(arrays: dict[str, Array], task: Task) -> Found:
        jobs[0].abort("wrong data")
        return {"accuracy": 0.5}

    ledger = tmp_path / "rounds.json"
    with Job() as job:
        for number in (1, 2):
            job.site(number, site(number, evaluate))
        job.federation.server.wait_for_peers(2, 60.0)
        rules = job.rules.model_copy(update=EVALUATED)
        jobs.append(ScatterAndGather(job.federation.server, job.store, rules, ledger=ledger))
        with pytest.raises(JobAborted, match="wrong data"):
            jobs[0].run()
        job.assert_mean_of(1, 2)
        assert Ledger(ledger, job.store, rules, resume=True).rounds == 1


class _Unreadable:
    """A store whose model cannot be read after ``reads`` openings."""

    def __init__(self, store: Any, opens: int) -> None:
        self._store, self._left = store, opens
        self.begin = store.begin

    def open(self) -> ModelSource:
        self._left -= 1
        if self._left < 0:
            raise StoreError("the disk is broken")
        source: ModelSource = self._store.open()
        return source


def test_a_fault_of_our_own_store_ends_the_job_and_blames_no_client() -> None:
    with Job(**EVALUATED) as job:
        for number in (1, 2):
            job.site(number, site(number, accurate(0.5)))
        job.store = _Unreadable(job.store, opens=1)  # type: ignore[assignment]
        job.start(2)
        with pytest.raises(StoreError, match="the disk is broken"):
            job.reports()


def test_the_ledger_has_the_evaluation_and_reads_it_back(tmp_path: Path) -> None:
    path = tmp_path / "rounds.json"
    with Job(**EVALUATED, extras={"ledger": path}) as job:
        for number in (1, 2):
            job.site(number, site(number, accurate(0.25 * number)))
        job.start(2)
        report = job.report()
        kept = Ledger(path, job.store, job.rules, job="test", resume=True)
    assert kept.reports == [report]
    assert kept.evaluated_round == 0
    assert json.loads(json.dumps(asdict(report)))["evaluation"]["metrics"] == {"accuracy": 0.375}


# --- on virtual time ----------------------------------------------------------------------------


def found_by(job: VirtualJob) -> Evaluation:
    evaluation = job.run().evaluation
    assert evaluation is not None
    return evaluation


def test_a_late_client_is_left_out_at_the_timeout() -> None:
    with VirtualJob(evaluate_every=1, evaluate_timeout=30, min_clients=2) as job:

        def slow(arrays: dict[str, Array], task: Task) -> Found:
            job.sleep(3600)
            return {"accuracy": 0.9}

        job.site(1, site(1, accurate(0.5)))
        job.site(2, site(2, slow))
        found = found_by(job)
        took = job.when(EventKind.EVALUATED) - job.when(EventKind.EVALUATION_STARTED)
    assert found.metrics == {"accuracy": 0.5}
    assert "was not complete within 30 s (timeout)" in found.failures["site-2"]
    assert 30 <= took < 32


@pytest.mark.slow
def test_without_a_timeout_a_client_that_lives_is_waited_for() -> None:
    with VirtualJob(evaluate_every=1, min_clients=1) as job:

        def slow(arrays: dict[str, Array], task: Task) -> Found:
            job.sleep(7200)
            return {"accuracy": 0.9}

        job.site(1, site(1, slow))
        found = found_by(job)
    assert found.metrics == {"accuracy": 0.9}
    assert found.seconds >= 7200


def test_a_client_that_is_lost_is_left_out_when_its_loss_is_detected() -> None:
    with VirtualJob(evaluate_every=1, min_clients=2) as job:
        cable = Cable()

        def cut(arrays: dict[str, Array], task: Task) -> Found:
            cable.pull()
            return {"accuracy": 0.9}

        job.site(1, site(1, accurate(0.5)))
        job.site(2, site(2, cut), cable=cable)
        found = found_by(job)
    assert found.metrics == {"accuracy": 0.5}
    assert list(found.failures) == ["site-2"]


def test_cancelling_the_server_ends_an_evaluation_at_once() -> None:
    with VirtualJob(evaluate_every=1, min_clients=1) as job:

        def slow(arrays: dict[str, Array], task: Task) -> Found:
            job.sleep(7200)
            return {"accuracy": 0.9}

        def act(event: RoundEvent) -> None:
            if event.kind is EventKind.EVALUATION_STARTED:
                job.later(10, lambda: job.server.cancel.cancel("enough"))

        job.on_event = act
        job.site(1, site(1, slow))
        with pytest.raises(Cancelled, match="enough"):
            job.run()
        assert job.seconds < 60
