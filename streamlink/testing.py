"""For tests of a program that embeds streamlink: whole rounds without sockets or processes.

    store = MemoryStore({"w": np.zeros(4, np.float32)})
    work = StreamingExecutor(lambda tensor, start, values: values + 1)
    reports = run_job(store, {"site-1": work, "site-2": work}, RoundConfig(num_rounds=1))

``run_job`` runs the real server and clients in threads of this process, over the carrier in memory.
For a server of your own use ``memory_address``. It imports no test framework.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from streamlink.cancel import CancelToken
from streamlink.clock import Clock
from streamlink.config import LinkConfig, RoundConfig
from streamlink.executors.client import Client
from streamlink.executors.executor import Executor
from streamlink.link.server import Server
from streamlink.link.transfer_facts import OnTransfer
from streamlink.model import (
    Check,
    Fill,
    GeneratedModel,
    ModelSource,
    ModelSpec,
    ModelStore,
    Payload,
)
from streamlink.model.interfaces import watch
from streamlink.rounds.controller import ScatterAndGather
from streamlink.rounds.report import RoundReport

__all__ = ["Clock", "FailingSource", "Fill", "GeneratedModel", "memory_address", "run_job"]

_numbers = itertools.count(1)


def memory_address() -> str:
    """Return an address that no server of this process has: for ``Server`` and ``Client``.

    Frames are encoded, hashed and decoded as over a network; only the sockets are left out.
    """
    return f"memory://testing-{next(_numbers)}"


def run_job(
    store: ModelStore,
    executors: Mapping[str, Executor],
    rules: RoundConfig | None = None,
    config: LinkConfig | None = None,
    *,
    on_transfer: OnTransfer | None = None,
    cancel: CancelToken | None = None,
    **options: Any,
) -> list[RoundReport]:
    """Run all rounds of a job in this process, and return what each gave.

    Args:
        store: holds the model; each round replaces it.
        executors: the work of each client, by its name.
        rules: of the rounds; by default one round that waits for all clients.
        config: settings of both ends.
        on_transfer: called with the facts of each finished transfer, of the server and of each
            client; it may run in several threads at once.
        cancel: ends the wait for the clients, and the job, from another thread.
        options: more arguments of ``ScatterAndGather``, such as ``filters_up`` or ``on_event``.

    Raises:
        Cancelled: ``cancel`` was called.
        StreamlinkError: the job failed as it would over a network.
    """
    count = len(executors)
    rules = rules or RoundConfig(min_clients=count, num_rounds=1)
    address, over = memory_address(), CancelToken()

    def take_part(name: str) -> None:
        client = Client(
            address, name, executors[name], config, cancel=over, on_transfer=on_transfer
        )
        with client:
            client.run()

    def check() -> None:  # who could not begin is not waited for
        for each in taking_part:
            if each.done():
                each.result()

    with (
        ThreadPoolExecutor(count) as pool,
        Server(address, config, cancel=cancel, on_transfer=on_transfer) as server,
    ):
        taking_part = [pool.submit(take_part, name) for name in executors]
        try:
            server.wait_for_peers(count, rules.wait_for_clients_seconds, check=check)
            return ScatterAndGather(server, store, rules, **options).run()
        except BaseException as error:
            # A client that is still connecting would look for the server until its timeouts end.
            over.cancel(f"the job failed: {error}")
            raise


class FailingSource:
    """A model whose read raises ``error`` from byte ``at`` on: for tests of what follows a fault.

    Args:
        source: gives the bytes below ``at``; closed with this one.
        at: the first logical byte that cannot be read.
        error: what a read of it raises, such as ``CorruptStore`` or ``OSError``.
    """

    def __init__(self, source: ModelSource, at: int, error: Exception) -> None:
        self._source, self._at, self._error = source, at, error

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._source.spec

    def read(self, offset: int, length: int) -> Payload:
        """Return logical bytes ``[offset, offset + length)``; raises the error beyond ``at``."""
        if offset + length > self._at:
            raise self._error
        return self._source.read(offset, length)

    def watch(self) -> Check:
        """Return the check of the source."""
        return watch(self._source)

    def close(self) -> None:
        """Close the source."""
        self._source.close()
