"""What a connection asks of the system."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from streamlink.transport.tcp.sockets import PlainSocket

CLAMP = getattr(socket, "TCP_WINDOW_CLAMP", None)


@pytest.fixture
def accepted() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as door:
        with socket.create_connection(door.getsockname()), door.accept()[0] as connection:
            yield connection


@pytest.mark.skipif(CLAMP is None, reason="the system does not tell")
@pytest.mark.parametrize("nbytes", [64 << 10, 256 << 10, 4 << 20])
def test_waiting_for_many_bytes_does_not_bound_the_window_of_tcp(
    accepted: socket.socket, nbytes: int
) -> None:
    def bounds() -> tuple[int, int]:
        assert CLAMP is not None
        return (
            accepted.getsockopt(socket.IPPROTO_TCP, CLAMP),
            accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
        )

    before = bounds()
    PlainSocket(accepted).wake_at(nbytes)
    assert bounds() == before
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) > 1
