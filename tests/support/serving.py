"""A server in memory that has a handler, and a client that asks it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamlink.config import LinkConfig
from streamlink.extent import Extent
from streamlink.link.asking import Answer
from streamlink.link.client import ClientLink
from streamlink.link.client_request import ClientRequest
from streamlink.link.receive_model import receive_model
from streamlink.link.send_model import send_model
from streamlink.link.server import Server
from streamlink.link.serving import Handler
from streamlink.stores.memory import MemoryStore
from streamlink.testing import memory_address
from tests.support.models import content, pattern_model
from tests.support.peers import ODD, SMALL


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


def asking_ends() -> Iterator[type[Asking]]:
    """Yield the class, for a fixture; all that was made of it is closed at the end."""
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
