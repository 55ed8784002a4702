"""What is kept of a job: where it stands, the last of its rounds and troubles, and its log."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from streamlink.clock import running_time
from streamlink.link import Attempt
from streamlink.rounds.evaluate.report import Evaluation
from streamlink.rounds.events import EventKind, RoundEvent
from streamlink.rounds.job_state import (
    LOST_KEPT,
    METRICS_KEPT,
    ROUNDS_KEPT,
    TROUBLES_KEPT,
    JobTracker,
    MetricsNote,
    round_of,
)
from streamlink.rounds.report import RoundReport


def event(
    what: EventKind, number: int = 0, attempt: int = 1, peer: str = "", detail: str = ""
) -> RoundEvent:
    return RoundEvent(what, Attempt("job", number, attempt), peer, detail)


def begun(number: int = 0) -> JobTracker:
    record = JobTracker("job", clock=running_time)
    record.note(event(EventKind.ROUND_STARTED, number))
    return record


@pytest.mark.parametrize(
    ("what", "phase"),
    [
        (EventKind.TASK_OFFERED, "gathering"),
        (EventKind.BEFORE_AGGREGATION, "averaging"),
        (EventKind.BEFORE_PERSIST, "storing"),
        (EventKind.AFTER_PERSIST, "gathering"),
        (EventKind.ROUND_DONE, "between rounds"),
        (EventKind.ROUND_FAILED, "failed"),
    ],
)
def test_the_phase_follows_the_events(what: EventKind, phase: str) -> None:
    record = begun()
    record.note(event(what))
    assert record.state().phase == phase


def test_what_is_offered_early_belongs_to_the_next_round() -> None:
    record = begun()
    record.note(event(EventKind.BEFORE_AGGREGATION))
    record.note(event(EventKind.TASK_OFFERED, 1, peer="site-1"))
    assert (record.state().round, record.state().phase) == (0, "averaging")


def test_the_attempt_is_the_latest_that_anybody_was_asked_for() -> None:
    record = begun()
    for attempt in (1, 3, 2):
        record.note(event(EventKind.TASK_OFFERED, attempt=attempt, peer="site-1"))
    assert record.state().attempt == 3


def test_who_was_lost_is_not_once_it_is_asked_again_or_another_round_begins() -> None:
    record = begun()
    for name in ("site-1", "site-2"):
        record.note(event(EventKind.CLIENT_DROPPED, peer=name, detail="gone"))
    record.note(event(EventKind.TASK_OFFERED, attempt=2, peer="site-1"))
    assert record.state().lost == ("site-2",)
    record.note(event(EventKind.ROUND_STARTED, 1))
    assert record.state().lost == ()
    assert [each.reason for each in record.state().troubles] == ["gone", "gone"]


def test_everything_that_is_kept_has_a_bound() -> None:
    record = begun()
    for number in range(1000):
        record.count(RoundReport(number, 1, 1.0, {"b": 1.0, "a": 1.0}, {}))
        record.note(event(EventKind.CLIENT_DROPPED, peer=f"site-{number}", detail="x" * 9999))
    state = record.state()
    assert (state.rounds_done, state.updates) == (1000, 2000)
    assert len(state.last_rounds) == ROUNDS_KEPT
    assert state.last_rounds[-1].contributors == ("a", "b")
    assert len(state.troubles) == TROUBLES_KEPT
    assert len(state.lost) == LOST_KEPT
    assert max(len(each.reason) for each in state.troubles) < 1000


def test_what_an_operator_looks_for_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    record = begun(3)
    record.note(event(EventKind.TASK_OFFERED, 3, peer="site-1"))
    record.note(event(EventKind.CLIENT_DROPPED, 3, 2, peer="site-1", detail="gone"))
    started, dropped = caplog.records
    assert (started.__dict__["event"], started.levelno) == ("round started", logging.INFO)
    assert dropped.__dict__["event"] == "client dropped"
    assert dropped.__dict__["facts"] == {
        "job": "job",
        "round": 3,
        "attempt": 2,
        "peer": "site-1",
        "reason": "gone",
    }


@pytest.mark.parametrize(
    ("number", "first", "count", "words"),
    [
        (None, 0, 5, "no round of 5 yet"),
        (None, 0, 0, "no round yet"),
        (1, 0, 5, "round 1 (2 of 5)"),
        (2, 1, 5, "round 2 of 5"),
        (7, 0, 0, "round 7"),
    ],
)
def test_which_round_it_is_is_said_as_its_number_and_as_how_many(
    number: int | None, first: int, count: int, words: str
) -> None:
    assert round_of(number, first, count) == words


def test_a_state_reads_as_a_headline() -> None:
    record = begun(1)
    record.expect(0, 5)
    record.note(event(EventKind.TASK_OFFERED, 1, 2, peer="site-1"))
    assert str(record.state()) == "job 'job': round 1 (2 of 5), attempt 2, gathering"


def test_the_last_metrics_stay_until_there_are_others() -> None:
    record = begun()
    found = Evaluation({"accuracy": 0.75})
    first = RoundReport(0, 1, 0.5, {"a": 1.0}, {"loss": 0.25}, evaluation=found)
    record.note(replace(event(EventKind.ROUND_DONE), report=first))
    record.note(event(EventKind.BEST_FOUND, detail="accuracy 0.75 of round 0"))
    record.note(event(EventKind.ROUND_STARTED, 1))
    without = RoundReport(1, 1, 0.5, {"a": 1.0}, {})
    record.note(replace(event(EventKind.ROUND_DONE, 1), report=without))
    state = record.state()
    assert state.trained == MetricsNote(0, {"loss": 0.25})
    assert state.evaluated == MetricsNote(0, {"accuracy": 0.75})
    assert state.best == "accuracy 0.75 of round 0"


def test_many_metrics_with_long_names_take_bounded_room() -> None:
    record = begun()
    many = {f"{number:03}" + "x" * 1000: 0.5 for number in range(1000)}
    record.recall([RoundReport(0, 1, 0.5, {}, many)], "")
    trained = record.state().trained
    assert trained is not None
    assert len(trained.metrics) == METRICS_KEPT
    assert max(map(len, trained.metrics)) == 128
