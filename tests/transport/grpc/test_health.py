"""gRPC's standard health check, asked for as any probe does: by name, over the server's port."""

from __future__ import annotations

import threading

import grpc
import pytest

from streamlink.clock import running_time
from streamlink.protocol import frames as f
from streamlink.transport.connect import hub_at
from streamlink.transport.grpc.health import NOT_SERVING, SERVING, service_in
from tests.support.hostile import HostileClient
from tests.support.peers import SMALL, WAIT, Federation

SERVICE = "streamlink.v1.Streamlink"


def named(service: str) -> bytes:
    """Return the request as protobuf writes it: field 1, a length, the text."""
    return bytes([0x0A, len(service)]) + service.encode() if service else b""


def probe(port: int, service: str = "", method: str = "Check") -> bytes:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary(f"/grpc.health.v1.Health/{method}", None, None)
        answer: bytes = call(named(service), timeout=WAIT)
        return answer


@pytest.mark.parametrize("service", ["", SERVICE])
def test_a_server_that_admits_clients_serves(service: str) -> None:
    with Federation() as federation:
        assert probe(federation.server.port, service) == b"\x08\x01"


def test_a_service_that_is_not_here_is_not_found() -> None:
    with Federation() as federation, pytest.raises(grpc.RpcError) as caught:
        probe(federation.server.port, "another")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_who_would_watch_is_told_to_check() -> None:
    with Federation() as federation, pytest.raises(grpc.RpcError) as caught:
        probe(federation.server.port, method="Watch")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_server_that_says_goodbye_does_not_serve() -> None:
    server = hub_at("127.0.0.1:0", SMALL, clock=running_time).listen()
    closing = threading.Thread(target=server.close)
    with HostileClient(f"127.0.0.1:{server.port}") as client:
        line, _ = client.greeted("site-1")
        closing.start()
        line.hear(f.Goodbye)  # and does not acknowledge it
        assert probe(server.port) == NOT_SERVING
        line.say(f.Goodbye("site-1 leaves"))
        closing.join(WAIT)
    assert not closing.is_alive()


def test_the_answers_are_those_of_the_standard() -> None:
    assert (SERVING, NOT_SERVING) == (b"\x08\x01", b"\x08\x02")


@pytest.mark.parametrize(
    "request_", [b"\x0a", b"\x0a\x05ab", b"\x12\x01a", b"\x0a\x80\x01" + 128 * b"a"]
)
def test_what_is_no_health_check_is_refused(request_: bytes) -> None:
    with pytest.raises(ValueError, match="no health check"):
        service_in(request_)
