"""A server in memory that asks its clients, and what the clients do."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from streamlink.cancel import CancelToken
from streamlink.config import LinkConfig
from streamlink.errors import StreamAborted
from streamlink.link.assignment import Assignment
from streamlink.link.client import ClientLink
from streamlink.link.peer import Peer
from streamlink.link.server import Server
from streamlink.stores.memory import MemoryStore
from streamlink.testing import memory_address
from tests.support.peers import SMALL, WAIT, Array

__all__ = ["LARGE", "Asked", "Serve", "Stuck", "add_one", "arrays"]

LARGE = (1 << 17,)  # more than all windows
Serve = Callable[[Assignment], None]


def arrays(value: float = 1, shape: tuple[int, ...] = (6,)) -> dict[str, Array]:
    return {"w": np.full(shape, value, np.float32)}


def add_one(assignment: Assignment) -> None:
    """Receive a model, and answer with one that is larger by one, with a fact and a number."""
    store = MemoryStore()
    assignment.receive(store)
    assignment.answer(
        {name: array + 1 for name, array in store.arrays.items()},
        metadata={"by": assignment.metadata.get("to", "")},
        metrics={"lr": assignment.metrics.get("lr", 0.0) / 2},
    )


class Asked:
    """A server in memory, and clients."""

    def __init__(self, config: LinkConfig = SMALL, cancel: CancelToken | None = None) -> None:
        self.config = config
        self.server = Server(memory_address(), config, cancel=cancel).listen()
        self.links: list[ClientLink] = []

    def peer(self, serve: Serve, name: str = "site-1") -> Peer:
        link = ClientLink(self.server.address, name=name, serve=serve, config=self.config)
        self.links.append(link.start())
        peer = self.server.wait_for_peer(name, WAIT)
        assert peer is not None
        return peer

    def close(self) -> None:
        for link in self.links:
            link.close()
        self.server.close()


class Stuck:
    """Work that goes on until it is called off, or the test lets it go."""

    def __init__(self) -> None:
        self.began, self.may_end = threading.Semaphore(0), threading.Event()
        self.called_off: list[str] = []

    def __call__(self, assignment: Assignment) -> None:
        self.began.release()
        while not self.may_end.wait(0.01):
            try:
                assignment.check()
            except StreamAborted as error:
                self.called_off.append(error.reason)
                self.began.release()
                return
        add_one(assignment)
