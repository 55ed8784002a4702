"""Another gRPC service at the server's address: who gives up at once, and who waits for ours."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import pytest

from streamlink.config import LinkConfig, TimeoutConfig
from streamlink.errors import ConnectFailed
from streamlink.link import ClientLink
from streamlink.link.server import Server
from tests.support.peers import WAIT
from tests.support.ports import KeptPort

LONG = LinkConfig(timeouts=TimeoutConfig(connect_timeout=600.0, call_timeout=600.0))


class Asked(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Has no method at all, and knows whether it was asked for one."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def service(self, details: grpc.HandlerCallDetails) -> None:
        """See gRPC."""
        self.event.set()


@contextmanager
def another_service(address: str) -> Iterator[threading.Event]:
    """Answer every call with UNIMPLEMENTED; yields an event for the first one."""
    handler = Asked()
    service = grpc.server(ThreadPoolExecutor(1), handlers=[handler])
    service.add_insecure_port(address)
    service.start()
    try:
        yield handler.event
    finally:
        service.stop(None).wait()


def test_a_client_waits_for_its_server_where_something_else_has_answered() -> None:
    port = KeptPort()
    with ThreadPoolExecutor(1) as pool:
        client = ClientLink(port.address, name="site-1", config=LONG)
        with another_service(port.address) as asked:
            starting = pool.submit(client.start)
            assert asked.wait(WAIT)
            assert not starting.done()
        with Server(port.address) as server:
            starting.result(WAIT)
            assert [peer.name for peer in server.peers()] == ["site-1"]
            client.close()


def test_a_client_that_found_nothing_else_says_what_it_found() -> None:
    port = KeptPort()
    short = LinkConfig(timeouts=TimeoutConfig(connect_timeout=1.0, call_timeout=1.0))
    with another_service(port.address), pytest.raises(ConnectFailed, match="UNIMPLEMENTED"):
        ClientLink(port.address, name="site-1", config=short).start()
