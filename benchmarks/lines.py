"""A shaped line in a process of its own, and what a plain socket needs to send over one.

A relay in one of the processes that are measured would share its GIL. What runs in these processes
is apart from the jobs because of what those import: a line that imports a job's NumPy, settings and
streamlink starts seven times as slowly.
"""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.processes import Worker
from benchmarks.relay import Link, Relay
from benchmarks.worker import Port

__all__ = ["Line", "counted_line", "drain", "line", "opened", "plain_seconds"]

PIECE_BYTES = 256 << 10


@dataclass(frozen=True)
class Line:
    """A line that is alike in both directions: bytes per second, and seconds one way."""

    bandwidth: float
    delay: float = 0.0


def opened(line: Line, address: str, workers: ExitStack) -> str:
    """Start a relay to ``address``, which ends with ``workers``; returns its own address."""
    facts = {"address": address, "bandwidth": line.bandwidth, "delay": line.delay}
    relay = workers.enter_context(Worker("benchmarks.lines:line", facts, name="relay"))
    return str(relay.expect("listening")["address"])


def plain_seconds(nbytes: int, line: Line) -> float:
    """Return what a plain socket needs to have ``nbytes`` taken at the line's other end (s)."""
    piece = bytes(PIECE_BYTES)
    with ExitStack() as workers:
        end = workers.enter_context(Worker("benchmarks.lines:drain", {}, name="drain"))
        near = opened(line, end.expect("listening")["address"], workers)
        host, _, number = near.rpartition(":")
        with socket.create_connection((host, int(number))) as connection:
            began = time.perf_counter()
            for at in range(0, nbytes, len(piece)):
                connection.sendall(piece[: nbytes - at])
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)
            return time.perf_counter() - began


# --- what the processes do ----------------------------------------------------------------------


def line(port: Port, address: str, bandwidth: float, delay: float) -> None:
    """Carry what comes over a shaped line, until this process is ended."""
    with _relay(address, Link(bandwidth=bandwidth, delay=delay)) as relay:
        port.tell("listening", address=f"127.0.0.1:{relay.port}")
        port.wait_for("end")


def counted_line(port: Port, bandwidth: float) -> None:
    """Carry a client's bytes over a shaped line, and count them when asked."""
    with _relay(port.wait_for("target")["address"], Link(bandwidth=bandwidth)) as relay:
        port.tell("listening", address=f"127.0.0.1:{relay.port}")
        while port.next_command()["event"] == "count":
            port.tell("counted", up=relay.counts.up_bytes, down=relay.counts.down_bytes)


def _relay(address: str, shape: Link) -> Relay:
    host, _, target = address.rpartition(":")
    return Relay(host, int(target), up=shape, down=shape, with_data_port=True)


def drain(port: Port) -> None:
    """Take one connection's bytes to their end, then answer with one."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port.tell("listening", address=f"127.0.0.1:{listening.getsockname()[1]}")
        connection, _ = listening.accept()
        buffer = bytearray(PIECE_BYTES)
        with connection:
            while connection.recv_into(buffer):
                pass
            connection.sendall(b"!")
