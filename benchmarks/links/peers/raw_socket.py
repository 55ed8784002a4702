"""A bare TCP connection: the bytes of the arrays one after the other, and one byte of answer."""

from __future__ import annotations

import socket

from benchmarks.links.ends import End
from benchmarks.links.peers import Peer
from benchmarks.unpaced import avoid_pacing

PEER = Peer({"": "raw socket"}, order=0, module=__name__)

CALL_BYTES = 1 << 20
DONE = b"\x01"


def receive(end: End) -> None:
    """Read straight into the arrays."""
    end.base()
    model = end.target()
    with socket.create_server((end.host, 0)) as listening:
        end.listening(listening.getsockname()[1])
        connection, _ = listening.accept()
    with connection:
        for array in model.values():
            _fill(connection, array.data.cast("B"))
        connection.sendall(DONE)
        end.finished(model)


def send(end: End) -> None:
    """Send from the arrays, and wait for the answer."""
    end.base()
    model = end.source()
    with socket.create_connection((end.host, end.number), timeout=60) as connection:
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        avoid_pacing(connection)
        end.wait_for_go()
        for array in model.values():
            connection.sendall(array.data.cast("B"))
        if connection.recv(1) != DONE:
            raise ConnectionError("the receiver ended before it had everything")
        end.finished(model)


def _fill(connection: socket.socket, left: memoryview) -> None:
    while left:
        received = connection.recv_into(left, min(CALL_BYTES, len(left)))
        if not received:
            raise ConnectionError("the sender ended before it had sent everything")
        left = left[received:]
