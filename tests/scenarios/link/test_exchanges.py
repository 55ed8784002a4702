"""Exchanges and asked models whose connection breaks, or whose process is killed, in the middle."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from streamlink.config import LinkConfig
from streamlink.errors import ExchangeFailed
from streamlink.link.assignment import Assignment
from streamlink.link.client import ClientLink
from streamlink.link.client_request import ClientRequest
from streamlink.link.receive_model import receive_model
from streamlink.link.send_model import send_model
from streamlink.link.server import Server
from streamlink.protocol import frames as f
from streamlink.stores.memory import MemoryStore
from streamlink.testing import memory_address
from tests.support.dialing import Dialing, Once, lose
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import SMALL, WAIT, config, echo
from tests.support.scripts import Script

SPEC = float_spec(20_001, 0, 3)
LOST_ON_THE_WAY = [f.Request, f.Reply, f.Open, f.Accept, f.Chunk, f.Ack, f.Finish, f.Commit]


def twice(assignment: Assignment) -> None:
    """Answer with twice the model, and a fact."""
    store = MemoryStore()
    assignment.receive(store)
    answer = {name: 2 * array for name, array in store.arrays.items()}
    assignment.answer(answer, metadata={"hello": "there"})


def get(asked: ClientRequest) -> None:
    """Send the client a model."""
    send_model(asked.send(SPEC), pattern_model(SPEC))


class Lossy:
    """A server in memory, and a client of which one message is lost, with its call."""

    def __init__(self, kind: type[Any], config: LinkConfig = SMALL) -> None:
        self.loss = Once(kind, lose)
        self.server = Server(memory_address(), config, serve={"get": get, "put": self.put})
        self.server.listen()
        self.taken = MemoryStore()
        self.has_taken = threading.Event()
        self.client = ClientLink(
            self.server.address,
            name="site-1",
            serve=twice,
            config=config,
            dial=Dialing(self.loss),
        ).start()

    def put(self, asked: ClientRequest) -> None:
        receive_model(asked.receive(), lambda model: self.taken.begin(model.spec))
        self.has_taken.set()

    def close(self) -> None:
        self.client.close()
        self.server.close()


@pytest.fixture
def lossy(request: pytest.FixtureRequest) -> Iterator[Lossy]:
    lossy = Lossy(request.param)
    yield lossy
    lossy.close()


@pytest.mark.parametrize("lossy", LOST_ON_THE_WAY, indirect=True)
def test_an_exchange_goes_on_whatever_message_is_lost(lossy: Lossy) -> None:
    (peer,) = lossy.server.wait_for_peers(1, WAIT)
    model = {"w": np.arange(20_001, dtype=np.float32)}
    answer = {"w": np.zeros(20_001, np.float32)}
    result = peer.ask("twice", model, into=answer).result(WAIT)
    assert np.array_equal(answer["w"], 2 * model["w"])
    assert result.metadata == {"hello": "there"}
    assert lossy.loss.done.is_set()


@pytest.mark.parametrize("lossy", LOST_ON_THE_WAY, indirect=True)
def test_a_model_that_was_asked_for_arrives_whatever_message_is_lost(lossy: Lossy) -> None:
    store = MemoryStore()
    with lossy.client.ask("get") as answer:
        receive_model(answer.receive(), lambda model: store.begin(model.spec))
    assert content(store.open()) == content(pattern_model(SPEC))
    assert lossy.loss.done.wait(WAIT)  # the commit leaves after it was made


@pytest.mark.parametrize("lossy", LOST_ON_THE_WAY, indirect=True)
def test_a_model_that_is_put_arrives_whatever_message_is_lost(lossy: Lossy) -> None:
    with lossy.client.ask("put") as answer:
        send_model(answer.send(SPEC), pattern_model(SPEC))
    assert lossy.has_taken.wait(WAIT)
    assert content(lossy.taken.open()) == content(pattern_model(SPEC))
    assert lossy.loss.done.is_set()


CLIENT = """
def serve(assignment):
    store = MemoryStore()
    assignment.receive(store)
    if assignment.topic == "stuck":
        print("stuck", flush=True)
        threading.Event().wait()
    assignment.answer(store.arrays)

client = ClientLink(sys.argv[1], name="site-1", serve=serve).start()
told()
"""


@pytest.mark.processes
def test_an_exchange_with_a_client_that_is_killed_fails_and_it_is_asked_again() -> None:
    other = {"w": np.ones(6, np.float32)}
    # A killed process closes its connections; silence would also be that of a busy machine.
    soon = config(reconnect_timeout=2.0, session_timeout=WAIT)
    with Server("127.0.0.1:0", soon) as server:
        with Script(CLIENT, server.address) as script:
            peer = server.wait_for_peer("site-1", WAIT)
            assert peer is not None
            exchange = peer.ask("stuck", other, into=MemoryStore())
            assert script.line() == "stuck"
            with ClientLink(server.address, name="site-2", serve=echo, config=SMALL):
                bystander = server.wait_for_peer("site-2", WAIT)
                assert bystander is not None
                script.kill()
                assert bystander.ask("echo", other, into=MemoryStore()).result(WAIT).received
        with pytest.raises(ExchangeFailed, match=r"'stuck' with site-1 failed.*ask it again"):
            exchange.result(WAIT)
        with Script(CLIENT, server.address) as script:
            answer = {"w": np.zeros(6, np.float32)}
            again = server.wait_for_peer("site-1", WAIT, unless=peer)
            assert again is not None
            again.ask("echo", other, into=answer).result(WAIT)
            assert answer["w"].tolist() == [1] * 6


SERVER = """
def get(asked):
    if asked.metadata:
        print("asked", flush=True)
        threading.Event().wait()
    asked.reply(metadata={"is": "back"})

server = streamlink.Server(sys.argv[1], serve={"get": get}).listen()
print(server.port, flush=True)
told()
"""


@pytest.mark.processes
def test_a_client_asks_the_next_server_after_the_first_was_killed() -> None:
    soon = config(reconnect_timeout=2.0, session_timeout=WAIT, rejoin_timeout=WAIT)
    with Script(SERVER, "127.0.0.1:0") as script:
        address = f"127.0.0.1:{script.line()}"
        with ClientLink(address, name="site-1", config=soon) as client:
            failed: list[BaseException] = []

            def ask() -> None:
                try:
                    client.ask("get", metadata={"wait": "for me"})
                except BaseException as error:
                    failed.append(error)

            thread = threading.Thread(target=ask)
            thread.start()
            assert script.line() == "asked"
            script.kill()
            with Script(SERVER, address) as second:
                assert second.line()
                thread.join(WAIT)
                assert len(failed) == 1  # nobody knows whether it was done: it is not repeated
                with client.ask("get", timeout=WAIT) as answer:
                    assert answer.metadata == {"is": "back"}
