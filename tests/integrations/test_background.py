"""Work in threads of its own: begun once for each name, and undone whenever it ends."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier, Event

import pytest

from streamlink import CancelToken
from streamlink.errors import Cancelled
from streamlink.integrations.background import OnceEach, begin
from tests.support.peers import WAIT, until


def test_what_a_work_raises_is_raised_by_its_future() -> None:
    with pytest.raises(ZeroDivisionError):
        begin(lambda: 1 // 0).result(WAIT)


def test_a_work_begins_once_for_each_name() -> None:
    begun: list[str] = []
    works = OnceEach(lambda name, cancel: begun.append(name), lambda result: None)
    for name in "abab":
        works.of(name).result(WAIT)
    assert sorted(begun) == ["a", "b"]


def test_the_end_undoes_what_was_done_and_what_is_still_on_its_way() -> None:
    goes_on, undone = Event(), list[str]()

    def work(name: str, cancel: CancelToken) -> str:
        if name == "slow":
            assert goes_on.wait(WAIT)
        return name

    works = OnceEach(work, undone.append)
    works.of("quick").result(WAIT)
    slow = works.of("slow")
    works.end("over")
    works.end("over")
    assert undone == ["quick"]
    goes_on.set()
    slow.result(WAIT)
    until(lambda: undone == ["quick", "slow"])


def test_the_end_cancels_what_runs_and_undoes_nothing_that_failed() -> None:
    def work(name: str, cancel: CancelToken) -> None:
        assert cancel.wait(WAIT)
        cancel.check()

    works = OnceEach(work, lambda result: pytest.fail("there was no result"))
    future = works.of("a")
    works.end("FLARE gives up")
    with pytest.raises(Cancelled, match="FLARE gives up"):
        future.result(WAIT)


def test_nothing_begins_after_the_end_and_the_work_is_let_go() -> None:
    class Model:
        pass

    model = Model()
    seen = weakref.ref(model)
    works: OnceEach[None] = OnceEach(
        lambda name, cancel, model=model: None,  # type: ignore[misc]
        lambda result: None,
    )
    works.of("a").result(WAIT)
    works.end("over")
    with pytest.raises(Cancelled, match="over"):
        works.of("b")
    del model
    until(lambda: gc.collect() >= 0 and seen() is None)


def test_what_begins_while_it_ends_is_undone_or_does_not_begin() -> None:
    """Many threads begin works at the moment of the end: as many results as undone ones."""
    for _ in range(50):
        done, undone, start = list[str](), list[str](), Barrier(9)

        def work(name: str, cancel: CancelToken, done: list[str] = done) -> str:
            done.append(name)
            return name

        works = OnceEach(work, undone.append)

        def begin_one(name: str, start: Barrier = start, works: OnceEach[str] = works) -> None:
            start.wait(WAIT)
            try:
                works.of(name).result(WAIT)
            except Cancelled:
                return

        with ThreadPoolExecutor(8) as threads:
            begun = [threads.submit(partial(begin_one, str(number))) for number in range(8)]
            start.wait(WAIT)
            works.end("over")
        for each in begun:
            each.result()
        until(lambda done=done, undone=undone: sorted(done) == sorted(undone))  # type: ignore[misc]
