"""Object servers and clients for tests, in one process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Self

import numpy as np

from streamlink.clock import Clock, running_time
from streamlink.closing import Closing
from streamlink.config import LinkConfig, ObjectLimits
from streamlink.link import Answers, ClientRequest, Handler, Registration, Server
from streamlink.objects import ObjectClient, ObjectServer
from streamlink.testing import memory_address
from tests.support.peers import SMALL, Array

__all__ = ["Exchange", "some_arrays"]


def some_arrays(seed: int = 0) -> dict[str, Array]:
    """Return a small model that still has many chunks."""
    random = np.random.default_rng(seed)
    return {
        "weight": random.standard_normal((64, 257)).astype(np.float32),
        "bias": random.integers(0, 99, 1001),
        "scale": np.array(1.5, np.float64),
        "none": np.zeros((0, 3), np.float32),
    }


class Exchange(Closing):
    """An object server, and clients that come and go; all end with it."""

    def __init__(
        self,
        address: str = "",
        *,
        config: LinkConfig = SMALL,
        limits: ObjectLimits | None = None,
        spool: Path | None = None,
        clock: Clock = running_time,
    ) -> None:
        self.config, self.clock = config, clock
        self.asked: Counter[str] = Counter()
        """How often each topic was asked for."""
        self.before: dict[str, Callable[[], object]] = {}
        """Called before a topic is answered; what it raises is the answer."""
        self._link = _Counting(address or memory_address(), config, clock=clock)
        self._link.count_in(self)
        self.server = ObjectServer(self._link, limits=limits, spool=spool).listen()
        self._link.listen()
        self._clients: dict[str, ObjectClient] = {}

    @property
    def link(self) -> Server:
        """The server below."""
        return self._link

    def client(self, name: str = "site-1", config: LinkConfig | None = None) -> ObjectClient:
        """Join a client, or return the one of that name that is here."""
        if name in self._clients:
            return self._clients[name]
        client = ObjectClient(
            self.server.address,
            name=name,
            config=config or self.config,
            clock=self.clock,
        )
        self._clients[name] = client.start()
        return client

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self.server.close()
        self._link.close()


class _Counting(Server):
    """A server that counts what it is asked."""

    def count_in(self, exchange: Exchange) -> None:
        """Count from now on."""
        self._exchange = exchange

    def serve(self, topic: str, handler: Handler, *, answers: Answers = "send") -> Registration:
        """See ``Server``."""

        def counted(request: ClientRequest) -> None:
            self._exchange.asked[topic] += 1
            self._exchange.before.get(topic, lambda: None)()
            handler(request)

        return super().serve(topic, counted, answers=answers)
