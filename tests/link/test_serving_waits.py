"""Who waits when a server is asked more at once than it answers, and what leaves the line."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager
from itertools import islice

import pytest

from streamlink.cancel import CancelToken
from streamlink.config import LinkConfig
from streamlink.errors import (
    Cancelled,
    CommunicationTimeout,
    RequestRefused,
    ServerBusy,
    TopicNotServed,
)
from streamlink.link.asking import Answer
from streamlink.link.client import ClientLink
from streamlink.link.client_request import ClientRequest
from streamlink.link.serving import Answers
from tests.support.peers import SMALL, WAIT
from tests.support.serving import Asking, sends_a_pattern


def test_more_requests_than_threads_wait_and_are_all_answered(asking: type[Asking]) -> None:
    limits = SMALL.limits.model_copy(update={"max_handlers": 2})
    may_end, began, running = threading.Event(), threading.Semaphore(0), Counter[str]()

    def handler(asked: ClientRequest) -> None:
        running["now"] += 1
        running["most"] = max(running["most"], running["now"])
        began.release()
        assert may_end.wait(WAIT)
        running["now"] -= 1

    site = asking(handler, SMALL.model_copy(update={"limits": limits}))
    answers: list[Answer] = []
    threads = [threading.Thread(target=lambda: answers.append(site.ask())) for _ in range(6)]
    for thread in threads:
        thread.start()
    assert began.acquire(timeout=WAIT)
    assert began.acquire(timeout=WAIT)
    may_end.set()
    for thread in threads:
        thread.join(WAIT)
    assert len(answers) == 6
    assert running["most"] == 2


class NoRoom(threading.Thread):
    """A thread; the system has no room for those of handlers."""

    def start(self) -> None:
        if self.name.startswith("serve-"):
            raise RuntimeError("can't start new thread")
        super().start()


def test_a_request_for_which_there_is_no_thread_is_refused_in_words(
    asking: type[Asking], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = asking(lambda asked: asked.reply())
    with monkeypatch.context() as no_room:
        no_room.setattr(threading, "Thread", NoRoom)
        with pytest.raises(RequestRefused, match="no thread for it"):
            site.ask(timeout=WAIT)
    site.ask(timeout=WAIT).close()


def one_of_each() -> LinkConfig:
    limits = SMALL.limits.model_copy(update={"max_handlers": 1, "max_streams": 4})
    return SMALL.model_copy(update={"limits": limits})


def test_handlers_that_answer_in_one_way_wait_for_none_of_another(asking: type[Asking]) -> None:
    may_end, began = threading.Event(), threading.Semaphore(0)

    def handler(asked: ClientRequest) -> None:
        began.release()
        assert may_end.wait(WAIT)

    site = asking(handler, one_of_each())
    others: tuple[Answers, ...] = ("receive", "reply")
    for answers in others:
        site.server.serve(answers, handler, answers=answers)
    threads = [
        threading.Thread(target=lambda topic=topic: site.client.ask(topic, timeout=WAIT).close())
        for topic in ("it", *others)
    ]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert began.acquire(timeout=WAIT)
    may_end.set()
    for thread in threads:
        thread.join(WAIT)


def test_a_slow_client_leaves_a_thread_to_one_that_comes_later(asking: type[Asking]) -> None:
    may_end, began = threading.Event(), threading.Event()

    def handler(asked: ClientRequest) -> None:
        if asked.peer_name == "site-1":
            began.set()
            assert may_end.wait(WAIT)

    site = asking(handler, one_of_each())
    slow = threading.Thread(target=lambda: site.ask(timeout=WAIT).close())
    slow.start()
    try:
        assert began.wait(WAIT)
        with ClientLink(site.server.address, name="late", config=SMALL) as late:
            late.ask("it", timeout=WAIT).close()
    finally:
        may_end.set()
        slow.join(WAIT)


@contextmanager
def full_line(site: Asking, may_end: threading.Event) -> Iterator[Future[Answer]]:
    """Let a client ask until one request runs and one waits; gives the one that was refused."""
    with ThreadPoolExecutor(3) as pool:
        try:
            asked = [pool.submit(site.ask, timeout=WAIT) for _ in range(3)]
            yield next(as_completed(asked, WAIT))
        finally:
            may_end.set()
            wait(asked, WAIT)


def one_in_line() -> LinkConfig:
    limits = one_of_each().limits.model_copy(update={"max_waiting_requests": 1})
    return SMALL.model_copy(update={"limits": limits})


def _unused(result: object) -> None:
    pass


def test_a_request_that_has_no_place_in_the_line_is_refused_with_what_to_do(
    asking: type[Asking],
) -> None:
    may_end = threading.Event()
    site = asking(lambda asked: _unused(may_end.wait(WAIT)), one_in_line())
    with (
        full_line(site, may_end) as refused,
        pytest.raises(ServerBusy, match=r"1 requests .* \(max_waiting_requests\); ask again"),
    ):
        refused.result()
    site.ask(timeout=WAIT).close()


def test_what_a_client_that_has_gone_asked_leaves_the_line(asking: type[Asking]) -> None:
    may_end = threading.Event()
    site = asking(lambda asked: _unused(may_end.wait(WAIT)), one_in_line())
    with full_line(site, may_end), ThreadPoolExecutor(3) as pool:
        site.client.close()
        assert site.server.wait_until_left("site-1", WAIT)
        with ClientLink(site.server.address, name="late", config=SMALL) as late:
            asked = [pool.submit(late.ask, "it", timeout=WAIT) for _ in range(3)]
            with pytest.raises(ServerBusy):
                next(as_completed(asked, WAIT)).result()
            may_end.set()
            wait(asked, WAIT)
            assert sum(each.exception() is None for each in asked) == 2


def test_a_request_that_is_called_off_leaves_the_line(asking: type[Asking]) -> None:
    may_end, began = threading.Event(), threading.Event()

    def handler(asked: ClientRequest) -> None:
        began.set()
        may_end.wait(WAIT)

    site = asking(handler, one_in_line())
    with ThreadPoolExecutor(2) as pool:
        try:
            first = pool.submit(site.ask, timeout=WAIT)
            assert began.wait(WAIT)
            for _ in range(3):
                with pytest.raises(CommunicationTimeout):  # not ServerBusy
                    site.ask(timeout=0.01)
        finally:
            may_end.set()
        first.result(WAIT).close()


def test_a_topic_that_is_withdrawn_is_refused_with_the_reason_and_may_be_served_anew(
    asking: type[Asking],
) -> None:
    site = asking(sends_a_pattern)
    first = site.server.serve("else", lambda asked: asked.reply())
    site.client.ask("else").close()
    first.close("it moved to another server")
    with pytest.raises(TopicNotServed, match="'else' any more: it moved to another server"):
        site.client.ask("else")
    site.server.serve("else", lambda asked: asked.reply(metadata={"is": "new"}))
    first.close("once more is harmless")
    with site.client.ask("else") as answer:
        assert answer.metadata == {"is": "new"}


@pytest.mark.parametrize("is_served_anew", [True, False])
def test_a_request_that_a_thread_is_about_to_take_finds_its_handler_withdrawn(
    asking: type[Asking], monkeypatch: pytest.MonkeyPatch, is_served_anew: bool
) -> None:
    called: list[str] = []
    site = asking(sends_a_pattern)
    first = site.server.serve("else", lambda asked: called.append("first"), answers="reply")

    class Late(threading.Thread):
        def start(self) -> None:
            if self.name == "serve-reply":
                first.close("enough")
                if is_served_anew:
                    site.server.serve("else", lambda asked: called.append("second"))
            super().start()

    with monkeypatch.context() as late:
        late.setattr(threading, "Thread", Late)
        with pytest.raises(TopicNotServed, match="'else': enough"):
            site.client.ask("else", timeout=WAIT)
    assert not called


def test_what_waits_for_a_handler_that_is_withdrawn_is_refused(asking: type[Asking]) -> None:
    may_end = threading.Event()
    site = asking(sends_a_pattern, one_in_line())
    slow = site.server.serve("slow", lambda asked: _unused(may_end.wait(WAIT)))
    with ThreadPoolExecutor(3) as pool:
        try:
            asked = [pool.submit(site.client.ask, "slow", timeout=WAIT) for _ in range(3)]
            assert isinstance(next(as_completed(asked, WAIT)).exception(), ServerBusy)
            slow.close("enough")
            refused = [each.exception() for each in islice(as_completed(asked, WAIT), 2)]
            assert {type(each) for each in refused} == {ServerBusy, TopicNotServed}
        finally:
            may_end.set()


def few(most: int) -> LinkConfig:
    limits = SMALL.limits.model_copy(update={"max_open_requests": most})
    return SMALL.model_copy(update={"limits": limits})


def test_more_requests_than_may_be_open_wait_at_the_client(asking: type[Asking]) -> None:
    began, may_end = threading.Semaphore(0), threading.Event()

    def handler(asked: ClientRequest) -> None:
        began.release()
        may_end.wait(WAIT)

    site = asking(handler, few(2))
    peer = site.server.wait_for_peer("site-1", WAIT)
    answered: list[Answer] = []
    threads = [
        threading.Thread(target=lambda: answered.append(site.ask(timeout=WAIT))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for _ in range(2):
        assert began.acquire(timeout=WAIT)
    may_end.set()
    for thread in threads:
        thread.join(WAIT)
    assert len(answered) == 8
    assert peer is not None
    assert peer.is_here, "its session lives"


def test_a_client_that_would_ask_more_at_once_is_held_to_what_the_server_takes(
    asking: type[Asking],
) -> None:
    may_end, began = threading.Event(), threading.Semaphore(0)

    def handler(asked: ClientRequest) -> None:
        began.release()
        may_end.wait(WAIT)

    site = asking(handler, few(2))
    with (
        ClientLink(site.server.address, name="eager", config=few(9)) as eager,
        ThreadPoolExecutor(4) as pool,
    ):
        asked = [pool.submit(eager.ask, "it", timeout=WAIT) for _ in range(4)]
        for _ in range(2):
            assert began.acquire(timeout=WAIT)
        with pytest.raises(CommunicationTimeout, match=r"2 others .* \(max_open_requests\)"):
            eager.ask("it", timeout=0.01)
        may_end.set()
        for each in asked:
            each.result(WAIT).close()
        assert eager.error is None


def test_a_request_that_was_called_off_keeps_its_place_while_it_is_worked_on(
    asking: type[Asking],
) -> None:
    token, may_end = CancelToken(), threading.Event()

    def handler(asked: ClientRequest) -> None:
        token.cancel("not needed")
        may_end.wait(WAIT)

    site = asking(handler, few(1))
    peer = site.server.wait_for_peer("site-1", WAIT)
    with pytest.raises(Cancelled):
        site.ask(cancel=token)
    with pytest.raises(CommunicationTimeout, match="max_open_requests"):
        site.ask(timeout=0.01)
    may_end.set()
    site.ask(timeout=WAIT).close()
    assert peer is not None
    assert peer.is_here, "its session lives"
