"""A table of clocks, given literal times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.protocol.timers import Timers

names = st.sampled_from(["read", "ack", "open"])


def test_no_clock_runs_before_one_is_started() -> None:
    timers = Timers()
    assert timers.next_deadline() is None
    assert timers.expired(now=1e9) == []
    assert not timers.is_running("read")


def test_the_earliest_deadline_comes_first() -> None:
    timers = Timers()
    timers.start("read", 5.0, now=10.0)
    timers.start("ack", 2.0, now=10.0)
    assert timers.next_deadline() == 12.0
    assert timers.expired(now=15.0) == ["ack", "read"]


def test_a_clock_expires_at_its_deadline_and_not_before() -> None:
    timers = Timers()
    timers.start("read", 5.0, now=10.0)
    assert timers.expired(now=14.999) == []
    assert timers.expired(now=15.0) == ["read"]


def test_a_clock_started_again_forgets_its_first_start() -> None:
    timers = Timers()
    timers.start("read", 5.0, now=10.0)
    timers.start("read", 5.0, now=12.0)
    assert timers.next_deadline() == 17.0
    assert timers.idle_seconds("read", now=13.0) == 1.0


def test_a_stopped_clock_does_not_expire_and_may_be_stopped_again() -> None:
    timers = Timers()
    timers.start("read", 5.0, now=10.0)
    timers.stop("read")
    timers.stop("read")
    assert timers.expired(now=99.0) == []


def test_a_clock_that_runs_while_something_is_owed_is_started_once() -> None:
    timers = Timers()
    timers.run_while(True, "ack", 5.0, now=10.0)
    timers.run_while(True, "ack", 5.0, now=12.0)
    assert timers.next_deadline() == 15.0
    timers.run_while(False, "ack", 5.0, now=13.0)
    assert timers.next_deadline() is None


def test_stop_all_leaves_no_clock() -> None:
    timers = Timers()
    timers.start("read", 5.0, now=0.0)
    timers.start("ack", 5.0, now=0.0)
    timers.stop_all()
    assert timers.next_deadline() is None


def test_a_paused_clock_runs_on_with_what_was_left_of_it() -> None:
    timers = Timers()
    timers.start("read", 5.0, now=10.0)
    timers.pause("read", now=12.0)
    assert not timers.is_running("read")
    assert timers.next_deadline() is None
    assert timers.resume("read", now=112.0)
    assert timers.next_deadline() == 115.0
    assert timers.idle_seconds("read", now=113.0) == 3.0


def test_a_clock_that_was_paused_from_before_its_start_has_all_of_its_time() -> None:
    timers = Timers()
    timers.start("read", 5.0, now=10.0)
    timers.pause("read", now=3.0)
    assert timers.resume("read", now=100.0)
    assert timers.next_deadline() == 105.0


def test_a_clock_paused_too_late_expires_when_it_runs_on() -> None:
    timers = Timers()
    timers.start("read", 5.0, now=10.0)
    timers.pause("read", now=20.0)
    assert timers.resume("read", now=100.0)
    assert timers.expired(now=100.0) == ["read"]


@pytest.mark.parametrize("forget", ["stop", "stop_all", "start", "never started"])
def test_only_a_paused_clock_runs_on(forget: str) -> None:
    timers = Timers()
    if forget != "never started":
        timers.start("read", 5.0, now=10.0)
    timers.pause("read", now=11.0)
    match forget:
        case "stop":
            timers.stop("read")
        case "stop_all":
            timers.stop_all()
        case "start":
            timers.start("read", 5.0, now=12.0)
    assert not timers.resume("read", now=13.0)
    assert timers.is_running("read") is (forget == "start")


@given(st.lists(st.tuples(names, st.floats(0, 100), st.booleans())), st.floats(0, 200))
def test_what_has_expired_agrees_with_a_plain_dictionary(
    steps: list[tuple[str, float, bool]], now: float
) -> None:
    timers, model = Timers(), dict[str, float]()
    for name, seconds, is_start in steps:
        if is_start:
            timers.start(name, seconds, now=0.0)
            model[name] = seconds
        else:
            timers.stop(name)
            model.pop(name, None)
    assert sorted(timers.expired(now=now)) == sorted(n for n, at in model.items() if at <= now)
    assert timers.next_deadline() == min(model.values(), default=None)
