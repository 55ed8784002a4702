"""Single small messages there and back: what two processes do, which import little for it."""

from __future__ import annotations

import socket
import time

from benchmarks.worker import Port

__all__ = ["answer", "ask"]

ASKED = 20


def answer(port: Port, host: str) -> None:
    """Send back what comes on one connection, byte by byte."""
    with socket.create_server((host, 0)) as listening:
        port.tell("listening", port=listening.getsockname()[1])
        connection, _ = listening.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            while byte := connection.recv(1):
                connection.sendall(byte)


def ask(port: Port, address: str) -> None:
    """Send single bytes and tell how long each took to come back."""
    host, _, number = address.rpartition(":")
    seconds = []
    with socket.create_connection((host, int(number))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(ASKED):
            began = time.perf_counter()
            connection.sendall(b"?")
            connection.recv(1)
            seconds.append(time.perf_counter() - began)
    port.tell("asked", seconds=seconds)
