"""The clock of tests: its time passes when nobody works, and only then."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.peers import WAIT, until
from tests.support.virtual_clock import VirtualClock


def start(act: object) -> threading.Thread:
    thread = threading.Thread(target=act, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


def test_an_hour_of_waiting_passes_at_once_and_to_the_second() -> None:
    with VirtualClock(0.0).running() as clock:
        assert not clock.event().wait(3600.0)
        assert clock() == 3600.0
        assert clock.wall() - VirtualClock(0.0).wall() == 3600.0


@given(st.lists(st.lists(st.floats(0.001, 1000.0), max_size=4), max_size=5))
def test_each_thread_wakes_at_its_own_time_however_many_wait(pauses: list[list[float]]) -> None:
    woken: dict[int, list[float]] = {number: [] for number in range(len(pauses))}

    def pause(number: int) -> None:
        for seconds in pauses[number]:
            clock.wait(clock.event(), seconds)
            woken[number].append(clock())

    with VirtualClock(0.0).running() as clock:
        threads = [start(lambda number=number: pause(number)) for number in woken]
        for thread in threads:
            clock.join(thread)
    for number, mine in enumerate(pauses):
        assert woken[number] == pytest.approx([sum(mine[: n + 1]) for n in range(len(mine))])


def test_time_stands_still_while_a_thread_works() -> None:
    with VirtualClock(0.0).running() as clock:
        done = clock.event()

        def work() -> None:
            until(lambda: clock.waiting == 2)  # in real time: the two below wait for an hour
            done.set()

        waiting = start(lambda: clock.wait(clock.event(), 3600.0))
        start(work)
        assert done.wait(3600.0)
        assert clock() == 0.0
        clock.join(waiting)
        assert clock() == 3600.0


def test_time_stands_still_while_a_thread_that_does_not_count_is_joined() -> None:
    clock = VirtualClock(0.0)
    outsider = start(lambda: until(lambda: clock.waiting == 1))  # it ends in real time
    with clock.running():
        clock.join(outsider)
        assert clock() == 0.0


def test_a_thread_that_an_earlier_block_has_left_counts_in_the_next_one() -> None:
    clock = VirtualClock(0.0)
    asked = clock.event()

    def answer() -> None:
        assert asked.wait(60.0)
        until(lambda: clock.waiting == 1)  # in real time: it works while the other waits
        answered.set()

    with clock.running():
        answered = clock.event()
        thread = start(answer)
    with clock.running():
        asked.set()
        assert answered.wait(60.0)
        assert clock() == 0.0
        clock.join(thread)


def test_who_is_notified_goes_on_at_that_time() -> None:
    with VirtualClock(0.0).running() as clock:
        queue, changed, taken = list[int](), clock.condition(), list[tuple[int, float]]()

        def take() -> None:
            while len(taken) < 100:
                with changed:
                    assert changed.wait_for(lambda: queue, 60.0)
                    taken.append((queue.pop(0), clock()))

        thread = start(take)
        for number in range(100):
            clock.wait(clock.event(), 7.0)
            with changed:
                queue.append(number)
                changed.notify()
        clock.join(thread)
    assert taken == [(number, 7.0 * (number + 1)) for number in range(100)]


def test_one_notification_wakes_one_of_many() -> None:
    with VirtualClock(0.0).running() as clock:
        changed, woken = clock.condition(), list[bool]()

        def wait() -> None:
            with changed:
                woken.append(changed.wait(9.0))

        threads = [start(wait) for _ in range(5)]
        clock.wait(clock.event(), 1.0)
        with changed:
            changed.notify(2)
        for thread in threads:
            clock.join(thread)
    assert sorted(woken) == [False, False, False, True, True]


def test_a_join_ends_with_its_thread_or_with_its_time() -> None:
    with VirtualClock(0.0).running() as clock:
        thread = start(lambda: clock.wait(clock.event(), 10.0))
        clock.join(thread, 4.0)
        assert (clock(), thread.is_alive()) == (4.0, True)
        clock.join(thread, 60.0)
        assert (clock(), thread.is_alive()) == (10.0, False)


def test_a_wait_for_what_never_comes_fails() -> None:
    with (
        VirtualClock(0.0, longest=1000.0).running() as clock,
        pytest.raises(AssertionError, match="came until 1000"),
    ):
        clock.event().wait()


def test_time_that_is_moved_by_hand_wakes_those_whose_time_has_come() -> None:
    clock, woken = VirtualClock(0.0), list[str]()

    def pause(name: str, seconds: float) -> threading.Thread:
        def run() -> None:
            clock.wait(clock.event(), seconds)
            woken.append(name)

        return start(run)

    first, second = pause("first", 1.0), pause("second", 2.0)
    until(lambda: clock.waiting == 2)
    clock.advance(1.0)
    first.join(WAIT)
    assert woken == ["first"]
    clock.advance(1.0)
    second.join(WAIT)
    assert woken == ["first", "second"]


def test_a_standstill_is_no_time_but_is_known() -> None:
    clock = VirtualClock(5.0)
    clock.stand_still(100.0)
    assert (clock(), clock.missed) == (5.0, 100.0)
    assert clock.paused_since(5.0) == 100.0
    clock.advance(1.0)
    assert clock.paused_since(6.0) == 0.0
