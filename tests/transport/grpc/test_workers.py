"""The threads of a server's calls: daemons, at most so many."""

from __future__ import annotations

import threading

import pytest

from streamlink.transport.grpc.workers import Workers
from tests.support.peers import WAIT


def test_a_call_runs_in_a_daemon_and_its_outcome_is_a_future() -> None:
    workers = Workers(2, "calls")
    assert workers.submit(lambda: threading.current_thread().daemon).result(WAIT)
    assert isinstance(workers.submit(int, "x").exception(WAIT), ValueError)


def test_more_calls_than_threads_wait_for_their_turn() -> None:
    workers, may_end, began = Workers(2, "calls"), threading.Event(), threading.Semaphore(0)

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


def test_none_is_taken_after_the_end_and_those_that_wait_are_dropped() -> None:
    workers, may_end = Workers(1, "calls"), threading.Event()
    runs, waits = workers.submit(may_end.wait, WAIT), workers.submit(int)
    workers.shutdown()
    may_end.set()
    assert runs.result(WAIT)
    assert not waits.done()
    with pytest.raises(RuntimeError, match="stopped"):
        workers.submit(int)
