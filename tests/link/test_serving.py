"""A client asks, and the server's handler answers: with facts, with a model, or by taking one."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress

import numpy as np
import pytest

from streamlink.cancel import CancelToken
from streamlink.errors import (
    AbortCode,
    Cancelled,
    LocalProtocolError,
    RequestRefused,
    StreamAborted,
    StreamlinkError,
)
from streamlink.extent import Extent
from streamlink.link.client import ClientLink
from streamlink.link.client_request import ClientRequest
from streamlink.link.receive_model import receive_model
from streamlink.link.send_model import send_model
from streamlink.protocol.frames import Attempt
from streamlink.stores.memory import ArrayModel, MemoryStore
from tests.support.models import content, pattern_model
from tests.support.peers import ODD, SMALL, WAIT
from tests.support.serving import Asking, get, sends_a_pattern


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


def test_a_handler_gets_an_error_of_its_own_each_time_it_looks_at_an_ended_session(
    asking: type[Asking],
) -> None:
    seen: list[StreamlinkError] = []
    began, has_left, is_done = threading.Event(), threading.Event(), threading.Event()

    def handler(asked: ClientRequest) -> None:
        began.set()
        assert has_left.wait(WAIT)
        for _ in range(2):
            try:
                asked.check()
            except StreamlinkError as error:
                seen.append(error)
        is_done.set()

    def ask() -> None:
        with suppress(StreamlinkError):
            site.ask()

    site = asking(handler)
    threading.Thread(target=ask, daemon=True).start()
    assert began.wait(WAIT)
    site.client.close()
    assert site.server.wait_until_left("site-1", WAIT)
    has_left.set()
    assert is_done.wait(WAIT)
    assert len(seen) == 2
    assert seen[0] is not seen[1]


def test_every_ask_after_the_end_of_the_server_raises_an_error_of_its_own(
    asking: type[Asking],
) -> None:
    site = asking(sends_a_pattern)
    site.server.close()
    with pytest.raises(StreamlinkError) as first:
        site.ask()
    with pytest.raises(StreamlinkError) as second:
        site.ask()
    assert first.value is not second.value


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
    for thread in threads:  # the server has its model before the client knows
        thread.join(WAIT)
        assert not thread.is_alive()
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
