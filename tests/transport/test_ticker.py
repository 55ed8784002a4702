"""The thread that looks at the clocks, and what it does when the process itself stood still."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise

from streamlink.clock import RunningClock, running_time
from streamlink.transport.ticker import Ticker
from tests.support.peers import WAIT


class Time:
    """A clock that is moved: by a little with each look of the ticker, and by pauses."""

    def __init__(self) -> None:
        self.now = 100.0
        self.reads = 0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        self.reads += 1
        self.now += self.pauses.pop() if self.pauses else 0.2
        return self.now


class Looked:
    """A pump that notes when it was looked at."""

    is_over = False

    def __init__(self, clock: Callable[[], float]) -> None:
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


class Counted(Looked):
    """Notes how often the ticker had read the clock when it looked."""

    def __init__(self, time: Time) -> None:
        super().__init__(lambda: time.reads)


def looks_of(pauses: list[float], count: int) -> list[float]:
    """Return after how many readings of the clock the ticker looks, beginning with a pause."""
    time = Time()
    ticker, pump = Ticker(clock=RunningClock(time)), Counted(time)
    ticker.add(pump)
    pump.wait(1)
    time.pauses.extend(pauses)
    pump.wait(len(pump.times) + count)
    ticker.close()
    return pump.times


def test_after_a_pause_the_frames_that_wait_come_before_the_deadlines() -> None:
    looks = looks_of([30.0], 4)
    between = [after - before for before, after in pairwise(looks)]
    # A clock that finds a gap is read twice; then three looks are left out.
    assert sorted(between)[-2:] == [1, 5]


def test_on_a_machine_so_busy_that_it_always_pauses_deadlines_are_looked_at_all_the_same() -> None:
    looks = looks_of([5.0] * 80, 2)
    between = [after - before for before, after in pairwise(looks)]
    assert max(between) <= 8  # one look in four is taken, and each reads the clock twice


def test_a_pump_that_is_over_is_forgotten() -> None:
    class Over(Looked):
        is_over = True

    ticker, over, other = Ticker(clock=running_time), Over(RunningClock()), Looked(RunningClock())
    ticker.add(over)
    over.wait(1)
    ticker.add(other)
    other.wait(3)
    ticker.close()
    assert len(over.times) == 1


def test_a_pump_that_a_new_call_takes_up_meanwhile_is_kept() -> None:
    class Late(Looked):
        asked = 0

        @property
        def is_over(self) -> bool:  # type: ignore[override]
            self.asked += 1
            return self.asked == 1

    ticker, late = Ticker(clock=running_time), Late(RunningClock())
    ticker.add(late)
    late.wait(2)
    ticker.close()


def test_a_clock_that_fails_leaves_the_others_theirs() -> None:
    class Broken(Looked):
        def tick(self) -> None:
            raise RuntimeError("broken")

    ticker, pump = Ticker(clock=running_time), Looked(RunningClock())
    ticker.add(Broken(RunningClock()))
    ticker.add(pump)
    pump.wait(2)
    ticker.close()
