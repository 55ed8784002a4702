"""The thread that looks at the clocks, and what it does when the process itself stood still."""

from __future__ import annotations

import threading

from streamlink.clock import RunningClock, running_time
from streamlink.transport.ticker import Ticker
from tests.support.peers import WAIT


class Time:
    """A clock that is moved: by a little with each look of the ticker, and by pauses."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        self.now += self.pauses.pop() if self.pauses else 0.2
        return self.now


class Looked:
    """A pump that notes when it was looked at."""

    is_over = False

    def __init__(self, clock: RunningClock) -> None:
        self.times: list[float] = []
        self._clock = clock
        self._changed = threading.Condition()

    def tick(self) -> None:
        with self._changed:
            self.times.append(self._clock())
            self._changed.notify_all()

    def wait(self, count: int) -> None:
        """Wait until it was looked at so often."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.times) >= count, WAIT)


def test_a_pause_is_noticed_before_any_deadline_is_looked_at() -> None:
    time = Time()
    clock = RunningClock(time)
    ticker, pump = Ticker(clock=clock), Looked(clock)
    ticker.add(pump)
    pump.wait(2)
    time.pauses.append(30.0)
    pump.wait(5)
    ticker.close()
    assert clock.missed > 29.0
    assert max(pump.times) - min(pump.times) < 10.0


def test_after_a_pause_the_frames_that_wait_come_before_the_deadlines() -> None:
    time = Time()
    clock = RunningClock(time)
    ticker = Ticker(clock=clock)
    ticker.close()
    time.pauses.append(30.0)
    looks = [not ticker._has_just_woken() for _ in range(6)]
    assert looks == [False, False, False, True, True, True]


def test_on_a_machine_so_busy_that_it_always_pauses_deadlines_are_looked_at_all_the_same() -> None:
    time = Time()
    clock = RunningClock(time)
    ticker = Ticker(clock=clock)
    ticker.close()
    time.pauses.extend([5.0] * 80)  # a clock that finds a gap looks twice
    looks = [not ticker._has_just_woken() for _ in range(40)]
    assert looks.count(True) == 10


def test_a_clock_that_fails_leaves_the_others_theirs() -> None:
    class Broken(Looked):
        def tick(self) -> None:
            raise RuntimeError("broken")

    ticker, pump = Ticker(clock=running_time), Looked(RunningClock())
    ticker.add(Broken(RunningClock()))
    ticker.add(pump)
    pump.wait(2)
    ticker.close()
