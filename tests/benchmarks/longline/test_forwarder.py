"""One direction of the forwarder, over pairs of datagram sockets and with time as a number."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from benchmarks.longline.bottleneck import Bottleneck, Line
from benchmarks.longline.forwarder import BATCH_PACKETS, Way

LINE = Line(rate=8e6, round_trip=0.2)  # a byte per microsecond, 100 ms


class Ends:
    """A direction, the socket whose packets it takes, and the one that gets them."""

    def __init__(self, line: Line = LINE) -> None:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2)]
        (self.near, source), (target, self.far) = pairs
        self._all = [one for pair in pairs for one in pair]
        for one in self._all:
            one.setblocking(False)
        self.way = Way(source.fileno(), target.fileno(), Bottleneck(line), line.mtu)

    def close(self) -> None:
        for one in self._all:
            one.close()

    def arrived(self) -> list[bytes]:
        """Return the packets that have come out."""
        found = []
        while True:
            try:
                found.append(self.far.recv(65536))
            except BlockingIOError:
                return found


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()


def packet(number: int, nbytes: int = 1000) -> bytes:
    return bytes([0x45, number]).ljust(nbytes, b"\0")


def test_packets_come_out_when_they_are_due_whole_and_in_order(ends: Ends) -> None:
    packets = [packet(number, 500 + number) for number in range(10)]
    for one in packets:
        ends.near.send(one)
    ends.way.take(1000.0)
    assert ends.way.due_at == pytest.approx(1000.1)
    ends.way.give(1000.0999)
    assert ends.arrived() == []
    ends.way.give(1000.1)
    some = ends.arrived()
    ends.way.give(1000.2)
    assert some + ends.arrived() == packets
    assert ends.way.due_at is None


def test_what_is_not_ipv4_is_neither_carried_nor_counted(ends: Ends) -> None:
    ends.near.send(b"\x60" + bytes(50))
    ends.way.take(1000.0)
    assert ends.way.due_at is None
    assert ends.way.bottleneck.counts.packets == 0


def test_one_look_takes_no_more_than_a_batch() -> None:
    reader, writer = os.pipe()  # read byte by byte, it has more packets than a socket keeps
    os.set_blocking(reader, False)
    way = Way(reader, writer, Bottleneck(Line(rate=1e12, round_trip=0.2)), 1)
    os.write(writer, b"\x45" * (BATCH_PACKETS + 3))
    way.take(1000.0)
    assert way.bottleneck.counts.packets == BATCH_PACKETS
    way.take(1000.0)
    assert way.bottleneck.counts.packets == BATCH_PACKETS + 3
    for one in (reader, writer):
        os.close(one)
