"""Clients that ask what no client of ours would: each is refused, and nobody else notices."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from streamlink.errors import RequestRefused, StreamAborted
from streamlink.extent import Extent
from streamlink.link import ClientLink, send_model
from streamlink.objects.wire import CLOSE, DROP, GET, PUT, READ, REFERENCE, Caller, Terms
from streamlink.stores import ArrayModel, MemoryStore
from tests.support.objects import Exchange, some_arrays
from tests.support.peers import SMALL, assert_same, until
from tests.support.virtual_clock import VirtualClock

WHO = {"identity": "model", **Caller("evil", "call").facts()}


class Hostile:
    """A server, and a client of it that says what it likes."""

    def __init__(self, exchange: Exchange, link: ClientLink) -> None:
        self.exchange, self.link = exchange, link

    def refused(self, topic: str, facts: dict[str, str]) -> str:
        with pytest.raises(RequestRefused) as raised:
            self.link.ask(topic, metadata=facts)
        return str(raised.value.metadata.get("kind"))

    def require_unharmed(self) -> None:
        """Check that the server serves another client as before, and holds nothing else."""
        until(lambda: not len(self.exchange.server))
        store, client = MemoryStore(), self.exchange.client("site-2")
        client.get(client.put(some_arrays(), readers=None, reads=1), store)
        assert_same(store.arrays, some_arrays())


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Hostile]:
    with Exchange(spool=tmp_path / "spool") as exchange:
        with ClientLink(exchange.server.address, name="evil", config=SMALL) as link:
            yield Hostile(exchange, link)


def test_garbage_is_refused_whatever_it_is(
    hostile: Hostile, caplog: pytest.LogCaptureFixture
) -> None:
    reference = hostile.exchange.server.put(some_arrays(), readers=())
    dice = random.Random(5)
    fine = {"ref": str(reference), "start": "0", "stop": "9", "complete": "1", **WHO}
    fine |= Terms(7, (), None, None).facts()
    texts = ["", "0", "-1", "9" * 19, "9" * 30, "nan", "\x00", "[", "null", "é" * 300, "A" * 8000]
    for _ in range(150):
        facts = {name: dice.choice(texts) for name in fine if dice.random() < 0.8}
        for topic in (GET, READ, CLOSE, REFERENCE, PUT, DROP):
            with suppress(RequestRefused):
                hostile.link.ask(topic, metadata=facts).close()
    assert not [each for each in caplog.records if each.levelname == "ERROR"]
    hostile.exchange.server.drop(reference)
    hostile.require_unharmed()


def test_an_object_of_others_is_not_read_under_any_pretext(hostile: Hostile) -> None:
    reference = hostile.exchange.server.put(some_arrays(), readers=("site-1",))
    lazy = hostile.exchange.client("site-1").open(reference)
    lazy["bias"]
    for topic in (GET, READ):
        facts = {"ref": str(reference), "start": "0", "stop": "9", **WHO}
        assert hostile.refused(topic, facts) == "ObjectRefused"
    hostile.link.ask(CLOSE, metadata={"ref": str(reference), "complete": "1", **WHO}).close()
    lazy["weight"]
    lazy.close()
    hostile.exchange.server.drop(reference)


def test_a_range_beyond_the_object_is_refused(hostile: Hostile) -> None:
    reference = hostile.exchange.server.put(some_arrays())
    for start, stop in ((0, reference.nbytes + 1), (5, 4), (1 << 62, 1 << 63)):
        facts = {"ref": str(reference), "start": str(start), "stop": str(stop), **WHO}
        assert hostile.refused(READ, facts) == "ObjectRefused"
    hostile.exchange.server.drop(reference)
    hostile.require_unharmed()


def test_an_object_that_is_larger_than_announced_is_not_taken(hostile: Hostile) -> None:
    facts = {**WHO, **Terms(10, None, None, None).facts()}
    model = ArrayModel(some_arrays())
    with hostile.link.ask(PUT, metadata=facts) as answer:
        with pytest.raises(StreamAborted, match="10 bytes was announced"):
            send_model(answer.send(model.spec), model)
    assert hostile.refused(REFERENCE, WHO) == "UnknownObject"
    hostile.require_unharmed()


def test_room_that_is_asked_for_and_never_used_is_given_back(tmp_path: Path) -> None:
    clock = VirtualClock()
    with clock.running(), Exchange(spool=tmp_path / "spool", clock=clock) as exchange:
        address = exchange.server.address
        with ClientLink(address, name="evil", config=SMALL, clock=clock) as link:
            facts = {**WHO, **Terms(1 << 30, None, None, None).facts()}
            answer = link.ask(PUT, metadata=facts)
            assert exchange.server.nbytes == 1 << 30
            clock.event().wait(2 * SMALL.timeouts.open_timeout)
            Hostile(exchange, link).require_unharmed()
            answer.close()


def test_what_one_client_puts_no_other_claims_or_drops(hostile: Hostile) -> None:
    model = ArrayModel(some_arrays())
    facts = {**WHO, **Terms(model.spec.nbytes, (), None, None).facts()}
    with hostile.link.ask(PUT, metadata=facts) as answer:
        send_model(answer.send(model.spec), model)
    with ClientLink(hostile.exchange.server.address, name="other", config=SMALL) as other:
        with pytest.raises(RequestRefused, match="put it again"):
            other.ask(REFERENCE, metadata=WHO)
        other.ask(DROP, metadata=WHO).close()
    with hostile.link.ask(REFERENCE, metadata=WHO) as answer:
        hostile.exchange.server.drop(answer.metadata["ref"])


@pytest.mark.slow
def test_a_client_cannot_open_objects_without_end(hostile: Hostile) -> None:
    reference = hostile.exchange.server.put(some_arrays())
    facts = {"ref": str(reference), "start": "0", "stop": "0", "client": "evil"}

    def open_one(number: int) -> None:
        extent = Extent(0, 0)
        with hostile.link.ask(READ, metadata={**facts, "call": str(number)}) as answer:
            incoming = answer.receive(extent=extent)
            assert incoming.open()
            while not incoming.is_complete:
                incoming.read_chunk()
            incoming.commit()

    for number in range(1000):
        open_one(number)
    with pytest.raises(RequestRefused, match="close some first"):
        open_one(1000)
    open_one(7)  # what it has open goes on
    hostile.exchange.server.drop(reference)
    hostile.require_unharmed()
