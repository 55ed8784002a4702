"""Work for a few threads, one peer's beside another's."""

from __future__ import annotations

import sys
import threading
from functools import partial

import pytest

from streamlink.link.crew import Crew
from tests.support.peers import WAIT


class NoThread(threading.Thread):
    """A thread for which the system has no room."""

    def start(self) -> None:
        raise RuntimeError("can't start new thread")


def test_work_without_a_thread_takes_no_place_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    crew, done = Crew("work", most=1, most_each=1), threading.Event()
    monkeypatch.setattr(threading, "Thread", NoThread)
    lost = threading.Event()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="can't start new thread"):
            crew.give("site-1", lost.set)
    monkeypatch.undo()
    assert crew.give("site-1", done.set), "its place is free"
    assert done.wait(WAIT)
    assert not lost.is_set(), "whoever gave it was told that it was not done"


def test_work_that_exits_leaves_its_place_to_the_next() -> None:
    crew, done = Crew("work", most=1, most_each=1), threading.Event()
    crew.give("site-1", sys.exit)
    crew.give("site-1", done.set)
    assert done.wait(WAIT)


def test_the_first_work_of_a_peer_does_not_wait_for_other_peers() -> None:
    crew, may_end = Crew("work", most=2, most_each=2, spare=1), threading.Event()
    began = {name: threading.Semaphore(0) for name in ("slow", "quick", "late")}

    def work(name: str) -> None:
        began[name].release()
        assert may_end.wait(WAIT)

    try:
        for name in ("slow", "slow", "slow", "quick", "quick"):
            crew.give(name, partial(work, name))
        for name in ("slow", "slow", "quick"):
            assert began[name].acquire(timeout=WAIT)
        assert not crew.give("late", partial(work, "late")), "the bound over all of them holds"
    finally:
        may_end.set()
    for name in ("slow", "quick", "late"):
        assert began[name].acquire(timeout=WAIT)
