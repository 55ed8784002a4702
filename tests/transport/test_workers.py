"""The threads of a server's calls: daemons, at most so many."""

from __future__ import annotations

import threading
import weakref

import pytest

from streamlink.clock import running_time
from streamlink.transport.workers import QUICK, STUCK_SECONDS, Serial, Workers
from tests.support.peers import WAIT, until
from tests.support.scarce import no_threads
from tests.support.virtual_clock import VirtualClock


def test_a_call_runs_in_a_daemon_and_its_outcome_is_a_future() -> None:
    workers = Workers(2, "calls", running_time)
    assert workers.submit(lambda: threading.current_thread().daemon).result(WAIT)
    assert isinstance(workers.submit(int, "x").exception(WAIT), ValueError)


def test_more_calls_than_threads_wait_for_their_turn() -> None:
    workers, may_end, began = (
        Workers(2, "calls", running_time),
        threading.Event(),
        threading.Semaphore(0),
    )

    def call(number: int) -> int:
        began.release()
        assert may_end.wait(WAIT)
        return number

    calls = [workers.submit(call, number) for number in range(5)]
    assert began.acquire(timeout=WAIT)
    assert began.acquire(timeout=WAIT)
    assert [each.running() for each in calls] == [True, True, False, False, False]
    may_end.set()
    assert [each.result(WAIT) for each in calls] == [0, 1, 2, 3, 4]
    assert workers.submit(int).result(WAIT) == 0  # a place that became free is not lost


def test_of_many_calls_at_once_a_few_run_while_no_time_passes() -> None:
    workers, may_end = Workers(999, "quick-calls", VirtualClock(0.0)), threading.Event()
    calls = [workers.submit(may_end.wait, WAIT) for _ in range(5 * QUICK)]
    until(lambda: sum(each.running() for each in calls) == QUICK)
    assert sum(each.name == "quick-calls" for each in threading.enumerate()) == QUICK
    may_end.set()
    assert all(each.result(WAIT) for each in calls)
    workers.shutdown()


def test_where_calls_are_stuck_others_are_taken_after_a_moment_each() -> None:
    with VirtualClock(0.0).running() as clock:
        workers, may_end = Workers(999, "stuck", clock), clock.event()
        stuck = [workers.submit(may_end.wait) for _ in range(QUICK + 2)]
        looks = workers.submit(clock)
        clock.wait(clock.event(), 60.0)
        assert looks.result(0) == pytest.approx(3 * STUCK_SECONDS)
        may_end.set()
        clock.wait(clock.event(), 60.0)
        assert all(each.result(0) for each in stuck)
        workers.shutdown()


def test_a_call_that_lasts_and_says_so_takes_nobodys_place() -> None:
    workers, may_end = Workers(999, "lasting", VirtualClock(0.0)), threading.Event()

    def last() -> bool:
        with workers.aside():
            return may_end.wait(WAIT)

    lasting = [workers.submit(last) for _ in range(3 * QUICK)]
    until(lambda: all(each.running() for each in lasting))  # no time passes: nobody was stuck
    assert workers.submit(int).result(WAIT) == 0
    may_end.set()
    assert all(each.result(WAIT) for each in lasting)
    workers.shutdown()


def test_a_call_that_waits_is_taken_when_one_that_runs_turns_out_to_last() -> None:
    workers, lasts, may_end = (
        Workers(999, "turns", VirtualClock(0.0)),
        threading.Event(),
        threading.Event(),
    )

    def turn() -> bool:
        assert lasts.wait(WAIT)
        with workers.aside():
            return may_end.wait(WAIT)

    first = workers.submit(turn)
    busy = [workers.submit(may_end.wait, WAIT) for _ in range(QUICK - 1)]
    waits = workers.submit(int)
    lasts.set()
    assert waits.result(WAIT) == 0
    may_end.set()
    assert all(each.result(WAIT) for each in (first, *busy))
    workers.shutdown()


def test_none_is_taken_after_the_end_and_those_that_wait_are_dropped() -> None:
    workers, may_end = Workers(1, "calls", running_time), threading.Event()
    runs, waits = workers.submit(may_end.wait, WAIT), workers.submit(int)
    until(runs.running)
    workers.shutdown()
    may_end.set()
    assert runs.result(WAIT)
    assert not waits.done()
    with pytest.raises(RuntimeError, match="stopped"):
        workers.submit(int)


def test_a_thread_that_has_nothing_to_do_takes_the_next_call() -> None:
    workers = Workers(9, "calls", running_time)
    first = workers.submit(threading.get_ident).result(WAIT)
    until(lambda: workers.submit(threading.get_ident).result(WAIT) == first)


def test_only_a_few_threads_stay_when_many_calls_have_ended() -> None:
    workers, may_end = Workers(20, "calls-of-many", running_time), threading.Event()
    calls = [workers.submit(may_end.wait, WAIT) for _ in range(20)]
    may_end.set()
    assert all(each.result(WAIT) for each in calls)
    until(lambda: sum(each.name == "calls-of-many" for each in threading.enumerate()) <= 4)
    workers.shutdown()
    until(lambda: all(each.name != "calls-of-many" for each in threading.enumerate()))


def test_serial_work_is_done_after_each_wake_and_never_twice_at_a_time() -> None:
    workers, goes_on, looks = Workers(9, "calls", running_time), threading.Semaphore(0), list[int]()
    at_once, most = [0], [0]
    began = threading.Semaphore(0)

    def work() -> None:
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        began.release()
        assert goes_on.acquire(timeout=WAIT)
        looks.append(len(looks))
        at_once[0] -= 1

    serial = Serial(workers, work)
    serial.wake()
    assert began.acquire(timeout=WAIT)
    for _ in range(5):  # while it works: one more look sees all of it
        serial.wake()
    goes_on.release(2)
    until(lambda: len(looks) == 2)
    serial.wake()
    goes_on.release()
    until(lambda: len(looks) == 3)
    assert most == [1]


def test_serial_work_that_failed_is_done_again(caplog: pytest.LogCaptureFixture) -> None:
    workers, done = Workers(2, "calls", running_time), threading.Semaphore(0)
    outcomes = iter([ValueError("no"), SystemExit(1), None])

    def work() -> None:
        outcome = next(outcomes)
        done.release()
        if outcome is not None:
            raise outcome

    serial = Serial(workers, work)
    for _ in range(3):
        serial.wake()
        assert done.acquire(timeout=WAIT)
    assert "work of a session failed" in caplog.text


def test_where_the_system_has_no_more_threads_the_one_that_stays_does_all() -> None:
    workers, may_end = Workers(9, "calls", running_time), threading.Event()
    workers.start()
    with no_threads("calls") as refused:
        calls = [workers.submit(may_end.wait, WAIT) for _ in range(3)]
        may_end.set()
        assert all(each.result(WAIT) for each in calls)
    assert refused


def test_a_thread_that_waits_keeps_nothing_of_the_call_before() -> None:
    class Kept:
        def look(self) -> None:
            pass

    workers, kept = Workers(9, "calls", running_time), Kept()
    gone = weakref.ref(kept)
    workers.submit(kept.look).result(WAIT)
    del kept
    until(lambda: gone() is None)


def test_workers_that_were_retired_keep_no_thread_and_still_work() -> None:
    workers = Workers(9, "retired", running_time)
    workers.start()
    workers.retire()
    until(lambda: all(each.name != "retired" for each in threading.enumerate()))
    assert workers.submit(int).result(WAIT) == 0
    until(lambda: all(each.name != "retired" for each in threading.enumerate()))


def test_serial_work_without_any_thread_waits_for_the_next_wake() -> None:
    workers, done = Workers(1, "calls", running_time), threading.Event()
    serial = Serial(workers, done.set)
    with no_threads("Thread", beside=threading.current_thread().name) as refused:
        serial.wake()
    assert refused
    assert not done.is_set()
    serial.wake()
    assert done.wait(WAIT)
