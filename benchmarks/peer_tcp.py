"""A bare TCP connection as a peer: ``sendmsg`` from the source, ``recv_into`` the target."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

from benchmarks.arrays import Load, digest, make_source, make_target
from benchmarks.unpaced import avoid_pacing
from benchmarks.worker import Port

HEADER = struct.Struct("<QQ")  # offset and length of the payload that follows
CONNECT_SECONDS = 20.0


def receiver(port: Port, load: dict[str, Any]) -> None:
    """Accept one connection and read its payload straight into the target."""
    plan = Load.from_json(load)
    port.mark_base()
    target = make_target(plan.total_bytes)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port.tell("listening", address=f"127.0.0.1:{listening.getsockname()[1]}")
        connection, _ = listening.accept()
        with connection:
            _receive(connection, target.data)
            connection.sendall(b"\x01")
    port.tell("received", digest=digest(target))


def sender(port: Port, load: dict[str, Any], address: str) -> None:
    """Send the source; the clock stops at the receiver's one byte of answer."""
    plan = Load.from_json(load)
    port.mark_base()
    source = make_source(plan.total_bytes)
    host, _, number = address.partition(":")
    with socket.create_connection((host, int(number)), timeout=CONNECT_SECONDS) as connection:
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        avoid_pacing(connection)
        port.tell("ready")
        port.wait_for("go")
        started_at = time.perf_counter()
        for offset in range(0, plan.total_bytes, plan.message_bytes):
            _send(connection, offset, source.data[offset : offset + plan.message_bytes])
        if connection.recv(1) != b"\x01":
            raise ConnectionError("the receiver ended before it had everything")
        seconds = time.perf_counter() - started_at
    port.tell("sent", seconds=seconds, digest=digest(source))


def _send(connection: socket.socket, offset: int, payload: memoryview) -> None:
    left = [memoryview(HEADER.pack(offset, len(payload))), payload]
    while left:
        sent = connection.sendmsg(left)
        while left and sent >= len(left[0]):
            sent -= len(left.pop(0))
        if left:
            left[0] = left[0][sent:]


def _receive(connection: socket.socket, target: memoryview) -> None:
    header = bytearray(HEADER.size)
    missing = len(target)
    while missing:
        _fill(connection, memoryview(header))
        offset, length = HEADER.unpack(header)
        _fill(connection, target[offset : offset + length])
        missing -= length


def _fill(connection: socket.socket, view: memoryview) -> None:
    while view:
        received = connection.recv_into(view)
        if not received:
            raise ConnectionError("the sender ended before it had sent everything")
        view = view[received:]
