"""The clock of every deadline: it stands still while its process does."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.clock import (
    PAUSE_SECONDS,
    READ_SECONDS,
    RunningClock,
)


class Time:
    """A clock that stands still until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_it_is_the_time_while_it_is_read_often() -> None:
    time = Time()
    clock = RunningClock(time)
    for _ in range(1000):
        time.now += READ_SECONDS
        assert clock() == time.now
    assert clock.missed == 0.0


def test_what_the_process_slept_through_is_no_time() -> None:
    time = Time()
    clock = RunningClock(time)
    time.now += 3600.0
    assert clock() == pytest.approx(100.0 + READ_SECONDS)
    time.now += 0.5
    assert clock() == pytest.approx(100.5 + READ_SECONDS)
    assert clock.missed == pytest.approx(3600.0 - READ_SECONDS)


def test_a_standstill_is_known_to_whoever_was_there_when_it_ended() -> None:
    time = Time()
    clock = RunningClock(time)
    assert clock.paused_since(clock()) == 0.0
    began_at = clock()
    time.now += 3600.0
    clock()
    assert clock.paused_since(began_at) == pytest.approx(3600.0)
    time.now += 0.5
    assert clock.paused_since(clock()) == 0.0


def test_a_short_delay_is_time() -> None:
    time = Time()
    clock = RunningClock(time)
    time.now += PAUSE_SECONDS
    assert clock() == time.now


@given(st.lists(st.floats(0.0, 50.0), max_size=50))
def test_it_never_goes_back_and_always_goes_on(gaps: list[float]) -> None:
    time = Time()
    clock = RunningClock(time)
    before = clock()
    for gap in gaps:
        time.now += gap
        now = clock()
        assert now - before == pytest.approx(gap if gap <= PAUSE_SECONDS else READ_SECONDS)
        before = now


@pytest.mark.parametrize("is_read_before", [True, False])
def test_a_pause_that_another_thread_takes_up_is_no_time_for_anybody(is_read_before: bool) -> None:
    class Overtaken(Time):
        """While one thread reads it, the process sleeps, and another one reads it first."""

        is_due = False

        def __call__(self) -> float:
            if not self.is_due:
                return self.now
            self.is_due = False
            before, self.now = self.now, self.now + 3600.0
            others.append(clock())
            return before if is_read_before else self.now

    time, others = Overtaken(), list[float]()
    clock = RunningClock(time)
    time.is_due = True
    assert clock() == pytest.approx(others[0]) == pytest.approx(100.0 + READ_SECONDS)
    time.now += 0.5
    assert clock() == pytest.approx(100.5 + READ_SECONDS)


# --- waiting ----------------------------------------------------------------


class Waited(threading.Event):
    """An event that is never set; waiting for it moves ``time``, and notes for how long."""

    def __init__(self, time: Time, *stops: float) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._time, self._stops = time, list(stops)

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits.append(timeout)
        self._time.now += timeout + (self._stops.pop() if self._stops else 0.0)
        return False


def test_a_pause_that_nobody_else_watches_is_time() -> None:
    time = Time()
    clock = RunningClock(time)
    event = Waited(time)
    assert not clock.wait(event, 60.0)
    assert clock() == pytest.approx(160.0)
    assert clock.missed == 0.0
    assert max(event.waits) <= READ_SECONDS


def test_a_pause_lasts_as_long_where_its_process_stood_still_meanwhile() -> None:
    time = Time()
    clock = RunningClock(time)
    clock.wait(Waited(time, 3600.0), 60.0)
    assert clock.missed == pytest.approx(3600.0)
    assert clock() == pytest.approx(160.0, abs=2 * READ_SECONDS)


def test_a_pause_ends_with_the_event() -> None:
    event = threading.Event()
    event.set()
    assert RunningClock(Time()).wait(event, 60.0)
