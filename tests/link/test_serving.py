"""A client asks, and the server's handler answers: with facts, with a model, or by taking one."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

import numpy as np
import pytest

from streamlink.cancel import CancelToken
from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    Cancelled,
    CommunicationTimeout,
    LocalProtocolError,
    RequestRefused,
    ServerBusy,
    StreamAborted,
    TopicNotServed,
)
from streamlink.extent import Extent
from streamlink.link.asking import Answer
from streamlink.link.client import ClientLink
from streamlink.link.client_request import ClientRequest
from streamlink.link.receive_model import receive_model
from streamlink.link.send_model import send_model
from streamlink.link.server import Server
from streamlink.link.serving import Answers, Handler
from streamlink.protocol.frames import Attempt
from streamlink.stores.memory import ArrayModel, MemoryStore
from streamlink.testing import memory_address
from tests.support.models import content, pattern_model
from tests.support.peers import ODD, SMALL, WAIT


class Asking:
    """A server in memory with one handler, and a client that asks it."""

    def __init__(self, handler: Handler, config: LinkConfig = SMALL) -> None:
        self.server = Server(memory_address(), config, serve={"it": handler}).listen()
        address = self.server.address
        self.client = ClientLink(address, name="site-1", config=config).start()

    def ask(self, **options: Any) -> Answer:
        return self.client.ask("it", **options)

    def close(self) -> None:
        self.client.close()
        self.server.close()


@pytest.fixture
def asking() -> Iterator[type[Asking]]:
    made: list[Asking] = []

    class Made(Asking):
        def __init__(self, handler: Handler, config: LinkConfig = SMALL) -> None:
            super().__init__(handler, config)
            made.append(self)

    yield Made
    for each in made:
        each.close()


def get(answer: Answer, extent: Extent | None = None) -> bytes:
    """Receive what the answer brings, and return its bytes."""
    store = MemoryStore()
    with answer:
        receive_model(answer.receive(extent=extent), lambda model: store.begin(model.spec))
    return content(store.open())


def sends_a_pattern(asked: ClientRequest) -> None:
    send_model(asked.send(ODD), pattern_model(ODD))


def test_a_handler_answers_with_facts(asking: type[Asking]) -> None:
    def handler(asked: ClientRequest) -> None:
        asked.reply(metadata={"who": asked.peer_name, "what": asked.metadata["what"] + "!"})

    with asking(handler).ask(metadata={"what": "hello"}) as answer:
        assert answer.metadata == {"who": "site-1", "what": "hello!"}
        with pytest.raises(LocalProtocolError, match="the server sends no model"):
            answer.receive()


def test_a_client_gets_a_model_from_the_server(asking: type[Asking]) -> None:
    site = asking(sends_a_pattern)
    for _ in range(3):
        assert get(site.ask()) == content(pattern_model(ODD))


def test_a_client_puts_a_model_to_the_server(asking: type[Asking]) -> None:
    store, is_here = MemoryStore(), threading.Event()

    def handler(asked: ClientRequest) -> None:
        receive_model(asked.receive(), lambda model: store.begin(model.spec))
        is_here.set()

    with asking(handler).ask() as answer:
        receipt = send_model(answer.send(ODD), pattern_model(ODD))
    assert is_here.wait(WAIT)
    assert content(store.open()) == content(pattern_model(ODD))
    assert receipt.stats.received_bytes == ODD.nbytes


def test_only_an_extent_of_the_model_travels(asking: type[Asking]) -> None:
    extent = Extent(1000, 5001)

    def handler(asked: ClientRequest) -> None:
        send_model(asked.send(ODD, extent=extent), pattern_model(ODD))

    with asking(handler).ask() as answer:
        incoming, taken = answer.receive(extent=extent), bytearray()
        incoming.open()
        while not incoming.is_complete:
            if (piece := incoming.read()) is not None:
                for view in piece[1]:
                    taken += view
                    incoming.release(view.nbytes)
        incoming.commit()
    assert bytes(taken) == content(pattern_model(ODD))[1000:5001]


def test_a_handler_that_raises_is_the_clients_answer(asking: type[Asking]) -> None:
    def handler(asked: ClientRequest) -> None:
        if asked.metadata:
            raise StreamAborted(AbortCode.REFUSED, "no such thing", by_peer=False)
        raise KeyError("/a/path/of/this/machine")

    site = asking(handler)
    with pytest.raises(RequestRefused, match="no such thing"):
        site.ask(metadata={"a": "b"})
    with pytest.raises(RequestRefused, match="handler raised KeyError; its log") as refused:
        site.ask()
    assert "path" not in str(refused.value)


def test_a_handler_refuses_with_facts(asking: type[Asking]) -> None:
    site = asking(lambda asked: asked.reply(error="it expired", metadata={"kind": "expired"}))
    with pytest.raises(RequestRefused, match="refused: it expired") as refused:
        site.ask()
    assert refused.value.metadata == {"kind": "expired"}


def test_an_unknown_topic_is_refused_in_words(asking: type[Asking]) -> None:
    site = asking(sends_a_pattern)
    with pytest.raises(RequestRefused, match=r"does not answer requests of topic 'else'; .* it$"):
        site.client.ask("else")


def test_a_topic_has_one_handler(asking: type[Asking]) -> None:
    with pytest.raises(ValueError, match="has a handler"):
        asking(sends_a_pattern).server.serve("it", sends_a_pattern)


def test_a_client_without_work_refuses_requests_in_words(asking: type[Asking]) -> None:
    site = asking(sends_a_pattern)
    (peer,) = site.server.wait_for_peers(1, WAIT)
    exchange = peer.request("train", ODD, attempt=Attempt("job", 0, 1))
    reply = exchange.wait_reply(WAIT)
    assert reply is not None
    assert reply.error == "this client only asks; it does no 'train'"
    exchange.close()


def test_a_handler_that_fails_halfway_aborts_the_model(asking: type[Asking]) -> None:
    def handler(asked: ClientRequest) -> None:
        asked.send(ODD)
        raise StreamAborted(AbortCode.REFUSED, "the disk is full", by_peer=False)

    with pytest.raises(StreamAborted, match="the disk is full"):
        get(asking(handler).ask())


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


def test_a_cancelled_request_ends_at_both_ends(asking: type[Asking]) -> None:
    began, ended, token = threading.Event(), threading.Event(), CancelToken()

    def handler(asked: ClientRequest) -> None:
        began.set()
        with suppress(StreamAborted):
            while True:
                asked.progress()
        ended.set()

    def cancel() -> None:
        assert began.wait(WAIT)
        token.cancel("enough")

    threading.Thread(target=cancel, daemon=True).start()
    with pytest.raises(Cancelled, match="enough"):
        asking(handler).ask(cancel=token)
    assert ended.wait(WAIT)


def test_a_client_that_has_gone_is_no_more_asked_for(asking: type[Asking]) -> None:
    site = asking(sends_a_pattern)
    site.client.close()
    with pytest.raises(StreamAborted, match="left"):
        site.ask()


def test_many_clients_put_models_into_one_server_at_once(asking: type[Asking]) -> None:
    taken: dict[str, MemoryStore] = {}

    def handler(asked: ClientRequest) -> None:
        store = taken[asked.peer_name] = MemoryStore()
        receive_model(asked.receive(), lambda model: store.begin(model.spec))
        done.release()

    site, done = asking(handler), threading.Semaphore(0)
    links = [
        ClientLink(site.server.address, name=f"put-{n}", config=SMALL).start() for n in range(4)
    ]

    def put(link: ClientLink, n: int) -> None:
        model = ArrayModel({"w": np.full(9000, n, np.float32)})
        with link.ask("it") as answer:
            send_model(answer.send(model.spec), model)

    threads = [threading.Thread(target=put, args=(link, n)) for n, link in enumerate(links)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert done.acquire(timeout=WAIT)
    assert {name: store.arrays["w"][-1] for name, store in taken.items()} == {
        f"put-{n}": n for n in range(4)
    }
    for link in links:
        link.close()


def test_many_arrays_come_over_one_session(asking: type[Asking]) -> None:
    models = {str(n): ArrayModel({"w": np.full(7, n, np.float32)}) for n in range(12)}

    def handler(asked: ClientRequest) -> None:
        model = models[asked.metadata["n"]]
        send_model(asked.send(model.spec), model)

    site, got = asking(handler), {}

    def take(n: str) -> None:
        got[n] = get(site.ask(metadata={"n": n}))

    threads = [threading.Thread(target=take, args=(n,)) for n in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert got == {n: content(model) for n, model in models.items()}


def test_a_handler_that_exits_is_an_error_of_its_client(asking: type[Asking]) -> None:
    def handler(asked: ClientRequest) -> None:
        if "exit" in asked.metadata:
            sys.exit("no GPU here")

    site = asking(handler)
    for _ in range(SMALL.limits.max_streams // 4 + 1):  # more than one client has places
        with pytest.raises(RequestRefused, match="raised SystemExit"):
            site.ask(metadata={"exit": ""}, timeout=WAIT)
    site.ask(timeout=WAIT).close()


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


UNSENDABLE = {
    "too many": {str(n): "" for n in range(1025)},
    "a lone surrogate": {"file": "\udcff"},
    "a lone surrogate in a name": {"\udcff": "file"},
}


@pytest.mark.parametrize("facts", UNSENDABLE.values(), ids=UNSENDABLE)
def test_facts_that_no_frame_carries_are_refused_where_they_are_given(
    asking: type[Asking], facts: dict[str, str]
) -> None:
    def handler(asked: ClientRequest) -> None:
        with pytest.raises(LocalProtocolError, match=r"takes 1024|no valid Unicode"):
            asked.reply(metadata=facts)
        asked.reply(metadata={"refused": "yes"})

    site = asking(handler)
    with pytest.raises(LocalProtocolError, match=r"takes 1024|no valid Unicode"):
        site.ask(metadata=facts)
    with site.ask() as answer:
        assert answer.metadata == {"refused": "yes"}
    assert site.client.error is None


@pytest.mark.parametrize("topic", ["\udcff", "t" * 8193], ids=["a lone surrogate", "too long"])
def test_a_topic_that_no_frame_carries_is_refused_where_it_is_given(
    asking: type[Asking], topic: str
) -> None:
    site = asking(lambda asked: asked.reply())
    with pytest.raises(LocalProtocolError, match=r"8192|no valid Unicode"):
        site.client.ask(topic)
    site.ask().close()
