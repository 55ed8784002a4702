"""A constructor notes its arguments; the network begins with ``listen``, ``start`` or ``with``."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from streamlink.errors import AddressInUse, ConnectFailed
from streamlink.executors.client import Client
from streamlink.executors.streaming import StreamingExecutor
from streamlink.fleet import Fleet
from streamlink.link.client import ClientLink
from streamlink.link.server import Server
from streamlink.operate.metrics import MetricsCollector, MetricsServer
from streamlink.rounds.controller import ScatterAndGather
from streamlink.stores import MemoryStore
from tests.support.peers import SMALL, config, echo

NOBODY = "127.0.0.1:9"
WORK = StreamingExecutor(lambda tensor, start, values: values)


def sockets() -> int:
    """Return how many sockets this process has open."""
    links = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return sum(link.startswith("socket:") for link in links)


def a_job() -> ScatterAndGather:
    return ScatterAndGather(Server(NOBODY, SMALL), MemoryStore({"w": np.zeros(4, np.float32)}))


MAKERS: dict[str, Callable[[], object]] = {
    "Server": lambda: Server(NOBODY, SMALL),
    "Client": lambda: Client(NOBODY, "site-1", WORK, SMALL),
    "ClientLink": lambda: ClientLink(NOBODY, name="site-1", serve=echo, config=SMALL),
    "ScatterAndGather": a_job,
    "Fleet": Fleet,
    "MetricsServer": lambda: MetricsServer(NOBODY, MetricsCollector(Server(NOBODY, SMALL))),
}


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not list sockets")
@pytest.mark.parametrize("kind", MAKERS)
def test_a_constructor_opens_no_socket_and_starts_no_thread(kind: str) -> None:
    before = sockets(), threading.active_count()
    made = MAKERS[kind]()
    assert (sockets(), threading.active_count()) == before
    del made


def test_a_server_listens_from_listen_on_and_not_again_once_it_was_closed() -> None:
    with Server("127.0.0.1:0", SMALL) as first:
        assert first.listen() is first
        second = Server(first.address, SMALL)
        assert second.port == 0
        with pytest.raises(AddressInUse):
            second.listen()
    with second:  # the address is free now
        assert second.address == first.address
    with pytest.raises(RuntimeError, match="was closed; make another one"):
        second.listen()


def test_a_server_that_does_not_listen_says_so_instead_of_waiting() -> None:
    server = Server("127.0.0.1:0", SMALL)
    for wait in (lambda: server.wait_for_peers(1, 60), lambda: server.wait_for_peer("a", 60)):
        with pytest.raises(RuntimeError, match=r"does not listen; use it in a with block"):
            wait()
    server.close()  # harmless


def test_a_client_that_could_not_connect_may_try_again(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/socket"
    client = Client(address, "site-1", WORK, config(connect_timeout=0.2))
    with pytest.raises(ConnectFailed):
        client.start()
    with Server(address, SMALL) as server, client:
        assert client.start() is client
        assert [peer.name for peer in server.wait_for_peers(1, 60)] == ["site-1"]
    with pytest.raises(RuntimeError, match="'site-1' was closed; make another one"):
        client.start()


def test_a_link_that_is_not_connected_says_so_instead_of_waiting() -> None:
    link = ClientLink(NOBODY, name="site-1", serve=echo, config=SMALL)
    for wait in (link.wait, link.wait_finished):
        with pytest.raises(RuntimeError, match=r"'site-1' is not connected; use it in a with"):
            wait()
    link.close()  # harmless


def test_run_connects_by_itself() -> None:
    with Server("127.0.0.1:0", SMALL) as server:
        client = Client(server.address, "site-1", WORK, SMALL)
        running = threading.Thread(target=client.run)
        running.start()
        server.wait_for_peers(1, 60)
    running.join(60)
    assert not running.is_alive()
    client.close()
