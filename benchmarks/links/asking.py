"""The two ends of a raw socket that measures a line: processes, which import little for it."""

from __future__ import annotations

import socket
import time

from benchmarks.worker import Port

__all__ = ["ROUND_TRIPS", "answer", "ask"]

ROUND_TRIPS = 20
CALL_BYTES = 1 << 18
CONNECT_SECONDS = 60.0
END = b"\x00"


def answer(port: Port, host: str, seconds: float) -> None:
    """Return single bytes until the word to end comes, count what arrives, then send, too."""
    with socket.create_server((host, 0)) as listening:
        port.tell("listening", number=listening.getsockname()[1])
        connection, _ = listening.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while (byte := connection.recv(1)) != END:
            connection.sendall(byte)
        port.tell("arrived", moments=_arriving(connection))
        _send_for(connection, seconds)


def ask(port: Port, host: str, number: int, seconds: float) -> None:
    """Time single bytes, send for ``seconds``, then count what arrives."""
    trips: list[float] = []
    with socket.create_connection((host, number), timeout=CONNECT_SECONDS) as connection:
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(ROUND_TRIPS):
            at = time.perf_counter()
            connection.sendall(b"\x01")
            connection.recv(1)
            trips.append(time.perf_counter() - at)
        port.tell("round trips", seconds=trips)
        connection.sendall(END)
        _send_for(connection, seconds)
        port.tell("arrived", moments=_arriving(connection))


def _arriving(connection: socket.socket) -> list[tuple[float, int]]:
    """Return when how many bytes had arrived, until the other end sends no more."""
    buffer = memoryview(bytearray(CALL_BYTES))
    moments: list[tuple[float, int]] = []
    total = 0
    while received := connection.recv_into(buffer):
        total += received
        now = time.monotonic()
        if not moments or now - moments[-1][0] >= 0.01:
            moments.append((now, total))
    return moments or [(0.0, 0)]


def _send_for(connection: socket.socket, seconds: float) -> None:
    """Send at least one call's bytes, however slow the line is; the end is what the kernel took."""
    payload, end_at = bytes(CALL_BYTES), time.monotonic() + seconds
    connection.settimeout(1.0)
    while time.monotonic() < end_at:
        try:
            connection.send(payload)
        except TimeoutError:
            continue
    connection.settimeout(None)
    connection.shutdown(socket.SHUT_WR)
