"""Raw sockets on a line: some connections that carry as much as they can, and what arrives.

The bodies of both ends are here, and ``measure``, which runs them once on a road.
"""

from __future__ import annotations

import selectors
import socket
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.longline.meter import Mark, Meter, Span
from benchmarks.longline.roads import Road
from benchmarks.processes import Worker
from benchmarks.worker import Port

__all__ = ["Measured", "Raw", "measure", "offer", "take"]

PIECE_BYTES = 256 << 10
CONNECT_SECONDS = 120.0  # a busy machine takes its time to start the other process
MORE_SECONDS = 300.0  # a process is waited for so much longer than it measures


@dataclass(frozen=True)
class Raw:
    """How raw sockets use a line.

    Attributes:
        connections: at once (count).
        congestion: the kernel's name of the sender's congestion control; ``""`` is its default.
    """

    connections: int
    congestion: str = ""

    def __str__(self) -> str:
        plural = "s" if self.connections > 1 else ""
        return f"{self.connections} connection{plural}, {self.congestion or 'default'}"

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)


@dataclass(frozen=True)
class Measured:
    """What arrived in one run, and what the line tells of itself."""

    marks: tuple[Mark, ...]
    road: dict[str, Any]

    @property
    def unread(self) -> int:
        """Packets that were dropped because the forwarder was too late: not the line's doing."""
        return sum(self.road[way]["unread"] for way in ("up", "down") if way in self.road)


def measure(raw: Raw, road: Road, span: Span) -> Measured:
    """Carry bytes over a road that is not yet entered, until the span is over.

    Raises:
        WorkerFailed: a process failed.
    """
    facts = {"connections": raw.connections, "span": span.as_json(), "host": road.host}
    sending = {"connections": raw.connections, "congestion": raw.congestion}
    with road:
        with road.far():
            far = Worker("benchmarks.longline.raw:take", facts, name="raw receiver")
        with far:
            sending["address"] = road.reach(far.expect("listening")["port"])
            with road.near():
                near = Worker("benchmarks.longline.raw:offer", sending, name="raw sender")
            with near:
                near.expect("connected")
                far.expect("connected")
                taken = far.expect("taken", timeout_seconds=span.end + MORE_SECONDS)
                return Measured(tuple(map(tuple, taken["marks"])), road.finish())


# --- what the processes do ----------------------------------------------------------------------


def take(port: Port, connections: int, span: dict[str, float], host: str) -> None:
    """Accept the connections and count what they bring until the span is over."""
    port.mark_base()
    meter, buffer = Meter(Span(**span)), bytearray(PIECE_BYTES)
    with socket.create_server((host, 0), backlog=connections) as listening:
        port.tell("listening", port=listening.getsockname()[1])
        listening.settimeout(CONNECT_SECONDS)
        with selectors.DefaultSelector() as ready:
            for _ in range(connections):
                connection, _ = listening.accept()
                connection.setblocking(False)
                ready.register(connection, selectors.EVENT_READ)
            port.tell("connected")
            while not meter.is_over:
                for key, _ in ready.select():
                    meter.add(_received(key.fileobj, buffer))
    port.tell("taken", marks=meter.marks)


def offer(port: Port, connections: int, congestion: str, address: str) -> None:
    """Connect and send until this process is ended."""
    port.mark_base()
    host, _, number = address.rpartition(":")
    piece = bytes(PIECE_BYTES)
    with selectors.DefaultSelector() as ready:
        for _ in range(connections):
            connection = _connected((host, int(number)), congestion)
            ready.register(connection, selectors.EVENT_WRITE)
        port.tell("connected")
        while True:
            for key, _ in ready.select():
                _send(key.fileobj, piece)


def _connected(address: tuple[str, int], congestion: str) -> socket.socket:
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if congestion:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
    connection.settimeout(CONNECT_SECONDS)
    connection.connect(address)
    connection.setblocking(False)
    return connection


def _received(connection: Any, buffer: bytearray) -> int:
    nbytes: int = connection.recv_into(buffer)
    if not nbytes:
        raise ConnectionError("the sender ended before the span was over")
    return nbytes


def _send(connection: Any, piece: bytes) -> None:
    connection.send(piece)
