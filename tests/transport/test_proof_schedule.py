"""When a data port is tried: at once, then ever less often; and when streams do without it."""

from __future__ import annotations

from streamlink.transport.proof_schedule import ProofSchedule


def test_it_is_tried_at_once_and_used_when_that_succeeds() -> None:
    schedule = ProofSchedule(100.0)
    assert (schedule.due, schedule.is_proven) == (100.0, False)
    schedule.succeeded()
    assert (schedule.due, schedule.is_proven, schedule.failures) == (None, True, 0)


def test_failures_are_followed_by_tries_after_a_second_and_1_5_and_15_minutes() -> None:
    schedule, now, pauses = ProofSchedule(0.0), 0.0, []
    for _ in range(6):
        schedule.failed(now)
        pauses.append(schedule.pause)
        now += pauses[-1]
        assert schedule.due == now
    assert pauses == [1.0, 60.0, 300.0, 900.0, 900.0, 900.0]


def test_a_success_alone_does_not_end_the_row_of_failures() -> None:
    schedule = ProofSchedule(0.0)
    schedule.failed(0.0)
    schedule.succeeded()
    schedule.failed(1.0)
    assert schedule.due == 61.0
    schedule.succeeded()
    schedule.moved()
    schedule.failed(61.0)
    assert schedule.due == 62.0


def test_only_the_failure_that_begins_the_pauses_of_minutes_is_news() -> None:
    schedule, news = ProofSchedule(0.0), []
    for _ in range(4):
        schedule.failed(0.0)
        news.append(schedule.is_news)
    assert news == [False, True, False, False]
    schedule.moved()
    news.clear()
    for _ in range(5):
        schedule.failed(0.0)
        news.append(schedule.is_news)
    assert news == [False, False, False, True, False]


def test_a_port_that_has_carried_streams_is_tried_again_within_seconds_first() -> None:
    schedule, now, pauses = ProofSchedule(0.0), 0.0, []
    schedule.succeeded()
    schedule.moved()
    for _ in range(7):
        schedule.failed(now)
        pauses.append(schedule.pause)
        now += pauses[-1]
    assert pauses == [1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 900.0]


def test_a_call_that_had_moved_something_costs_one_new_proof() -> None:
    schedule = ProofSchedule(0.0)
    schedule.succeeded()
    for now in (10.0, 20.0, 30.0):
        schedule.moved()
        assert not schedule.broke(now)
        assert schedule.due == now
        schedule.succeeded()


def test_two_empty_calls_in_a_row_are_a_failure() -> None:
    schedule = ProofSchedule(0.0)
    schedule.succeeded()
    assert not schedule.broke(10.0)
    schedule.succeeded()
    assert schedule.broke(20.0)
    assert (schedule.due, schedule.failures) == (21.0, 1)


def test_a_silent_call_is_a_failure_by_itself() -> None:
    schedule = ProofSchedule(0.0)
    schedule.succeeded()
    assert schedule.broke(10.0, was_silent=True)
    assert schedule.due == 11.0
