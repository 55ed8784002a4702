"""Measures a line itself: what a raw socket finds of its round trip and its rate.

It is done before anything else is measured on a line, and printed with every result: a share of a
line can be no better than the line is known. The rate is that of the bytes that arrive after the
start, so that slow start does not count.
"""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack

import numpy as np

from benchmarks.links.cases import Accuracy
from benchmarks.links.lines import Line
from benchmarks.links.places import opened
from benchmarks.processes import Worker
from benchmarks.worker import Port

__all__ = ["answer", "ask", "measure_line", "steady_rate"]

ROUND_TRIPS = 20
CALL_BYTES = 1 << 18
CONNECT_SECONDS = 60.0
MORE_SECONDS = 60.0
END = b"\x00"


def measure_line(line: Line, seconds: float) -> Accuracy:
    """Send from the near end for ``seconds`` over a line of its own.

    Raises:
        OSError: the line cannot be had on this machine.
        WorkerFailed: an end failed.
    """
    with ExitStack() as stack:
        place = stack.enter_context(opened(line))
        with place.far():
            far = Worker("benchmarks.links.accuracy:answer", {"host": place.host}, name="far")
        stack.enter_context(far)
        host, number = place.reach(int(far.expect("listening")["number"]))
        facts = {"host": host, "number": number, "seconds": seconds}
        with place.near():
            near = Worker("benchmarks.links.accuracy:ask", facts, name="near")
        stack.enter_context(near)
        limit = seconds + MORE_SECONDS + 2 * ROUND_TRIPS * line.round_trip
        trips = near.expect("round trips", timeout_seconds=limit)["seconds"]
        arrived = far.expect("arrived", timeout_seconds=limit)["moments"]
    low, middle, high = np.quantile(np.asarray(trips), [0.1, 0.5, 0.9])
    return Accuracy(float(middle), float(high - low), steady_rate(arrived), seconds)


def steady_rate(moments: list[tuple[float, int]]) -> float:
    """Return bits per second over the last two thirds of the time.

    Args:
        moments: seconds, and bytes that had arrived by then, in order.
    """
    start, end = moments[0][0], moments[-1][0]
    later = [each for each in moments if each[0] >= start + (end - start) / 3]
    (first_at, first), (last_at, last) = later[0], later[-1]
    return (last - first) * 8 / (last_at - first_at) if last_at > first_at else 0.0


# --- what the processes do ----------------------------------------------------------------------


def answer(port: Port, host: str) -> None:
    """Return single bytes until the word to end comes, then count what arrives."""
    with socket.create_server((host, 0)) as listening:
        port.tell("listening", number=listening.getsockname()[1])
        connection, _ = listening.accept()
    buffer = memoryview(bytearray(CALL_BYTES))
    moments: list[tuple[float, int]] = []
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while (byte := connection.recv(1)) != END:
            connection.sendall(byte)
        total = 0
        while received := connection.recv_into(buffer):
            total += received
            now = time.monotonic()
            if not moments or now - moments[-1][0] >= 0.01:
                moments.append((now, total))
    port.tell("arrived", moments=moments or [(0.0, 0)])


def ask(port: Port, host: str, number: int, seconds: float) -> None:
    """Time single bytes, then send for ``seconds``."""
    trips: list[float] = []
    payload = bytes(CALL_BYTES)
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
        _send_for(connection, payload, seconds)


def _send_for(connection: socket.socket, payload: bytes, seconds: float) -> None:
    """Send at least one call's bytes, however slow the line is; the end is what the kernel took."""
    end_at = time.monotonic() + seconds
    connection.settimeout(1.0)
    while time.monotonic() < end_at:
        try:
            connection.send(payload)
        except TimeoutError:
            continue
    connection.settimeout(None)
