"""Actions after a time, for which one thread waits."""

from __future__ import annotations

import logging
import math
import threading

import pytest

from streamlink.clock import running_time
from streamlink.timers import start_timer
from tests.support.virtual_clock import VirtualClock


def test_a_timer_acts_once_its_time_has_come_unless_it_was_cancelled() -> None:
    acted: list[tuple[str, float]] = []
    with VirtualClock(0.0).running() as clock:
        start_timer(clock, 5.0, lambda: acted.append(("first", clock())))
        late = start_timer(clock, 7.0, lambda: acted.append(("late", clock())))
        clock.wait(clock.event(), 6.0)
        late.cancel()
        late.cancel()
        clock.wait(clock.event(), 60.0)
    assert acted == [("first", 5.0)]


def test_timers_act_in_the_order_of_their_times_also_those_that_come_later() -> None:
    acted: list[float] = []
    with VirtualClock(0.0).running() as clock:
        for seconds in (3.25, 1.5, 2.0, 0.5):
            start_timer(clock, seconds, lambda: acted.append(clock()))
        clock.wait(clock.event(), 10.0)
    assert acted == [0.5, 1.5, 2.0, 3.25]


def test_a_timer_without_an_end_is_never_due() -> None:
    acted: list[str] = []
    with VirtualClock(0.0).running() as clock:
        endless = start_timer(clock, math.inf, lambda: acted.append("endless"))
        start_timer(clock, 3.0, lambda: acted.append("soon"))
        clock.wait(clock.event(), 3600.0)
        endless.cancel()
    assert acted == ["soon"]


def test_any_number_of_timers_wait_in_one_thread_which_ends_behind_them() -> None:
    with VirtualClock(0.0).running() as clock:
        before = set(threading.enumerate())
        timers = [start_timer(clock, 600.0, lambda: None) for _ in range(500)]
        # By name, and not by number: threads of an earlier test may still be ending.
        (thread,) = [each for each in set(threading.enumerate()) - before if each.name == "timers"]
        for each in timers:
            each.cancel()
        clock.wait(clock.event(), 60.0)
        assert not thread.is_alive()


def test_an_action_that_waits_holds_up_no_other() -> None:
    go_on = threading.Event()
    acted = threading.Event()
    start_timer(running_time, 0.0, lambda: go_on.wait(60.0))
    start_timer(running_time, 0.0, acted.set)
    assert acted.wait(60.0)
    go_on.set()


def test_an_action_that_fails_is_logged_and_the_next_timer_acts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    acted: list[str] = []
    with caplog.at_level(logging.ERROR, "streamlink"), VirtualClock(0.0).running() as clock:
        start_timer(clock, 1.0, lambda: [][0])
        start_timer(clock, 2.0, lambda: acted.append("next"))
        clock.wait(clock.event(), 5.0)
    assert "what a timer was for has failed" in caplog.text
    assert acted == ["next"]


def test_where_no_thread_can_be_started_the_next_timer_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = VirtualClock(0.0)

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="thread"):
            start_timer(clock, 1.0, lambda: None)
    acted: list[str] = []
    with clock.running():
        start_timer(clock, 1.0, lambda: acted.append("again"))
        clock.wait(clock.event(), 5.0)
    assert acted == ["again"]
