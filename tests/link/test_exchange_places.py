"""A client whose work hangs keeps the places of its requests; and a server without a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import wait

import pytest

from streamlink.errors import AbortCode, ExchangeFailed, PeerBusy
from streamlink.link.assignment import Assignment
from streamlink.stores.memory import ArrayModel, MemoryStore
from tests.support.exchanges import Asked, add_one, arrays
from tests.support.peers import SMALL, WAIT, until


class Counted(MemoryStore):
    """A store that notes whether its model was closed."""

    is_closed = False

    def open(self) -> ArrayModel:
        store = self

        class Noted(ArrayModel):
            def close(self) -> None:
                store.is_closed = True

        return Noted(arrays())


@pytest.fixture
def asked() -> Iterator[Asked]:
    limits = SMALL.limits.model_copy(update={"max_open_requests": 3})
    asked = Asked(SMALL.model_copy(update={"limits": limits}))
    yield asked
    asked.close()


def test_a_client_that_hangs_takes_no_more_requests_and_answers_once_it_goes_on(
    asked: Asked,
) -> None:
    began, may_end = threading.Semaphore(0), threading.Event()

    def hang(assignment: Assignment) -> None:
        began.release()
        may_end.wait(WAIT)
        assignment.answer()

    peer = asked.peer(hang)
    for _ in range(3):
        late = peer.ask("status")
        assert began.acquire(timeout=WAIT)
        late.cancel("nobody waits any more")
        wait([late], WAIT)
    for _ in range(5):  # without and with streams, which are taken back
        for model in (None, arrays()):
            error = peer.ask("status", model).exception(WAIT)
            assert isinstance(error, ExchangeFailed)
            assert isinstance(error.cause, PeerBusy)
            assert error.code is AbortCode.REFUSED
    assert peer.is_here
    may_end.set()
    until(lambda: peer.ask("status").exception(WAIT) is None)


def test_a_model_is_released_though_there_is_no_thread_for_its_exchange(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = asked.peer(add_one)
    model = Counted()
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("exchange-"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        peer.ask("status", model)
    assert model.is_closed
