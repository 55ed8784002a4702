"""The best model is kept, a job stops early, and neither is lost with a server that is killed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamlink.config import RoundConfig
from streamlink.errors import RoundError
from streamlink.executors.executor import Task
from streamlink.executors.streaming import StreamingExecutor
from streamlink.link.server import Server
from streamlink.model.commit import CommitSink
from streamlink.model.copy import copy_model
from streamlink.model.interfaces import ModelSink, ModelSource, ModelStore, Progress
from streamlink.model.spec import ModelSpec
from streamlink.rounds.controller import ScatterAndGather
from streamlink.rounds.events import EventKind, RoundEvent
from streamlink.rounds.job_state import MetricsNote
from streamlink.rounds.ledger import model_id
from streamlink.rounds.ledger_page import read_page, recorded_job
from streamlink.rounds.report import RoundReport
from streamlink.stores import open_store
from streamlink.stores.memory import ArrayModel, MemoryStore
from streamlink.testing import memory_address, run_job
from tests.support.peers import Array


class Killed(BaseException):
    """What ends a server of these tests: no handler of an ``Exception`` sees it."""


class Trained:
    """A client whose model is the number of the round + 1, and whose accuracies are given."""

    def __init__(self, accuracies: Sequence[float]) -> None:
        self._accuracies = accuracies
        self.evaluated: list[int] = []

    def executor(self) -> StreamingExecutor:
        return StreamingExecutor(
            lambda tensor, start, values: values + np.float32(1), evaluate=self._evaluate
        )

    def _evaluate(self, model: dict[str, Array], task: Task) -> dict[str, float]:
        self.evaluated.append(task.round)
        assert model["w"][0] == task.round + 1
        return {"accuracy": self._accuracies[task.round]}


class Place:
    """A job's store, the store for its best model, and its ledger."""

    def __init__(self, folder: Path, best: str = "best") -> None:
        self.store = open_store(folder / "model")
        self.best: ModelStore = open_store(folder / best)
        self.ledger = folder / "rounds.json"
        start = ArrayModel({"w": np.zeros(1000, np.float32)})
        copy_model(start, self.store.begin(start.spec))
        self.events: list[RoundEvent] = []

    def run(
        self, client: Trained, *, dies_at: EventKind | None = None, **rules: Any
    ) -> list[RoundReport]:
        def hear(event: RoundEvent) -> None:
            self.events.append(event)
            if event.kind is dies_at:
                raise Killed

        given = {"min_clients": 1, "evaluate_every": 1, "best_metric": "accuracy", **rules}
        return run_job(
            self.store,
            {"site-1": client.executor()},
            RoundConfig.model_validate(given),
            best=self.best if given["best_metric"] else None,
            ledger=self.ledger,
            resume=True,
            on_event=hear,
        )

    @property
    def best_value(self) -> float:
        with closing(self.best.open()) as source:
            arrays = {"w": np.empty(1000, np.float32)}
            copy_model(source, ArrayModel(arrays))
        return float(arrays["w"][0])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("kind", ["best", "best.slz"])
def test_the_best_model_is_kept_in_a_store_of_any_kind(tmp_path: Path, kind: str) -> None:
    place = Place(tmp_path, kind)
    reports = place.run(Trained([0.5, 0.75, 0.25]), num_rounds=3)
    assert place.best_value == 2
    assert [each.is_best for each in reports] == [True, True, False]
    assert read_page(place.ledger).reports[-1]["is_best"] is False


def test_the_small_files_beside_a_model_are_kept_with_the_best(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (tmp_path / "model" / "config.json").write_text("{}")
    place.run(Trained([0.5]), num_rounds=1)
    assert (tmp_path / "best" / "config.json").read_text() == "{}"


def test_a_job_that_does_not_get_better_ends_in_an_orderly_way(place: Place) -> None:
    client = Trained([0.5, 0.4, 0.4, 0.9])
    reports = place.run(client, num_rounds=4, patience=2)
    assert [each.round for each in reports] == [0, 1, 2]
    why = "accuracy has not become better in 2 evaluations; the best is accuracy 0.5 of round 0"
    assert reports[-1].stopped == why
    assert (place.events[-1].kind, place.events[-1].detail) == (EventKind.STOPPED_EARLY, why)
    found = recorded_job(place.ledger)
    assert found is not None
    assert (found.rounds, found.stopped) == (3, why)


def test_a_job_that_stopped_is_over_until_it_gets_more_patience(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    client = Trained([0.5, 0.4, 0.4, 0.9])
    place.run(client, num_rounds=4, patience=2)
    caplog.set_level(logging.INFO)
    assert len(place.run(client, num_rounds=4, patience=2)) == 3
    assert client.evaluated == [0, 1, 2]
    assert "raise rounds.patience" in caplog.text
    assert len(place.run(client, num_rounds=4, patience=3)) == 4
    assert place.best_value == 4


class _Dying:
    """A store that is killed right before or right after a commit."""

    def __init__(self, store: ModelStore, *, is_committed: bool) -> None:
        self._store, self._is_committed = store, is_committed

    def open(self) -> ModelSource:
        return self._store.open()

    def begin(self, spec: ModelSpec) -> ModelSink:
        sink = self._store.begin(spec)

        def commit(progress: Progress | None) -> None:
            if self._is_committed:
                sink.commit(progress)
            raise Killed

        return CommitSink(sink, commit)


@pytest.mark.parametrize(
    "point",
    [
        *(EventKind.EVALUATION_STARTED, EventKind.CLIENT_EVALUATED, EventKind.EVALUATED),
        *(EventKind.BEST_FOUND, "before the commit", "after the commit", EventKind.BEST_KEPT),
    ],
)
def test_a_server_that_was_killed_anywhere_keeps_the_best_model_when_resumed(
    place: Place, point: EventKind | str
) -> None:
    client, whole = Trained([0.75, 0.5]), place.best
    if isinstance(point, str):
        place.best = _Dying(whole, is_committed=point == "after the commit")
    with pytest.raises(Killed):
        place.run(client, num_rounds=2, dies_at=point if isinstance(point, EventKind) else None)
    place.best = whole
    reports = place.run(client, num_rounds=2)
    assert place.best_value == 1  # the second round's model was worse, and has replaced the first
    assert [each.is_best for each in reports] == [True, False]
    is_repeated = point in (EventKind.EVALUATION_STARTED, EventKind.CLIENT_EVALUATED)
    assert client.evaluated.count(0) <= 1 + is_repeated  # what is recorded is not asked for again


def test_a_resumed_job_compares_with_the_best_of_before(place: Place) -> None:
    place.run(Trained([0.75]), num_rounds=1)
    place.run(Trained([0.75, 0.5]), num_rounds=2)
    assert place.best_value == 1


def test_a_resumed_server_knows_the_last_metrics(place: Place) -> None:
    place.run(Trained([0.75]), num_rounds=1)
    rules = RoundConfig(min_clients=1, num_rounds=1, evaluate_every=1, best_metric="accuracy")
    with Server(memory_address()) as server:
        job = ScatterAndGather(server, place.store, rules, ledger=place.ledger, resume=True)
        state = job.state()
    assert state.evaluated == MetricsNote(0, {"accuracy": 0.75})
    assert state.best == "accuracy 0.75 of round 0"


def test_a_best_model_that_somebody_removed_is_reported(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place.run(Trained([0.75, 0.5]), num_rounds=2)
    place.best = open_store(tmp_path / "other")
    place.run(Trained([0.75, 0.5, 0.8]), num_rounds=3)
    assert "accuracy 0.75 of round 0, is not in its store any more" in caplog.text
    assert place.best_value == 3


@pytest.mark.parametrize("changed", [{"best_metric": "loss"}, {"best_mode": "min"}])
def test_a_resumed_job_cannot_judge_by_another_metric(
    place: Place, changed: dict[str, Any]
) -> None:
    place.run(Trained([0.75]), num_rounds=1)
    with pytest.raises(RoundError, match="give best_metric and best_mode as before"):
        place.run(Trained([0.75, 0.5]), num_rounds=2, **changed)


def test_a_metric_that_no_client_reports_is_named_in_the_log(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.run(Trained([0.75]), num_rounds=1, best_metric="acuracy")
    assert "the evaluation has no 'acuracy'" in caplog.text
    assert "it has: accuracy" in caplog.text


def test_a_store_for_the_best_needs_the_metric() -> None:
    store = MemoryStore({"w": np.zeros(4, np.float32)})
    work = {"site-1": Trained([0.5]).executor()}
    with pytest.raises(ValueError, match=r"needs rounds\.best_metric"):
        run_job(store, work, RoundConfig(min_clients=1), best=MemoryStore())


def test_the_ledger_knows_which_model_is_the_best(place: Place) -> None:
    place.run(Trained([0.5, 0.25]), num_rounds=2)
    standing = read_page(place.ledger).standing
    assert standing is not None
    with closing(place.best.open()) as source:
        assert standing.digest == model_id(source)
