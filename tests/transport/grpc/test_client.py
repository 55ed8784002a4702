"""The client's end of the gRPC carrier replaces a connection over which no call succeeds."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from streamlink.clock import running_time
from streamlink.protocol.frames import Hello
from streamlink.protocol.session import SessionMachine
from streamlink.transport.carriers import CallEnd, ClientCall
from streamlink.transport.grpc.client import GrpcCarrier
from streamlink.transport.pump import Pump
from streamlink.transport.wire import SessionWire
from tests.support.peers import SMALL, until

OWN = (("grpc.use_local_subchannel_pool", 1),)  # else two channels share one connection


class Picky(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """A server that fails each call on the connections in ``spoilt``."""

    def __init__(self) -> None:
        self.peers: list[str] = []
        self.spoilt: set[str] = set()

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        """See gRPC."""
        return grpc.stream_stream_rpc_method_handler(self._answer)

    def _answer(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        self.peers.append(context.peer())
        if context.peer() in self.spoilt:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "no such method")
        return iter(())


@pytest.fixture
def picky() -> Iterator[tuple[Picky, GrpcCarrier]]:
    handler = Picky()
    server = grpc.server(ThreadPoolExecutor(2), handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    carrier = GrpcCarrier("Session", lambda: grpc.insecure_channel(f"127.0.0.1:{port}", OWN))
    yield handler, carrier
    carrier.close()
    server.stop(None).wait()


def carried(carrier: GrpcCarrier) -> CallEnd:
    hello = Hello(1, 1, "site-1", "1", 4096, 1 << 20, 10.0)
    machine = SessionMachine(SMALL, peer_name="server", hello=hello)
    pump: Pump[SessionMachine] = Pump(machine, clock=running_time)
    return carrier.carry(ClientCall(pump, SessionWire()))


def test_a_connection_over_which_no_call_succeeds_is_replaced(
    picky: tuple[Picky, GrpcCarrier],
) -> None:
    handler, carrier = picky
    assert carried(carrier) is CallEnd.ENDED
    handler.spoilt.update(handler.peers)
    until(lambda: carried(carrier) is CallEnd.ENDED)
    first, *others, last = handler.peers
    assert len(others) >= 2
    assert set(others) == {first}
    assert last != first


def test_a_connection_over_which_one_call_fails_serves_on(
    picky: tuple[Picky, GrpcCarrier],
) -> None:
    handler, carrier = picky
    began = running_time()
    while running_time() < began + 1.5:  # a connection is kept for at least one second anyway
        assert carried(carrier) is CallEnd.ENDED
        handler.spoilt.update(handler.peers)
        assert carried(carrier) is CallEnd.UNIMPLEMENTED
        handler.spoilt.clear()
    assert len(set(handler.peers)) == 1
