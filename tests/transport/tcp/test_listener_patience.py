"""How long and how many strangers a data port bears, with TLS and without."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from streamlink.config import LinkConfig
from streamlink.transport.hub import DataOffer, Hub
from streamlink.transport.memory import MemoryNetwork
from streamlink.transport.tcp.listener import MOST_STRANGERS, PROOF_SECONDS, TcpListener
from tests.support.certificates import Authority
from tests.support.hostile_openings import SCANNERS
from tests.support.peers import SMALL, WAIT, until
from tests.support.virtual_clock import VirtualClock

HELLO = SCANNERS[-1]


class Port:
    """A data port without clients, on a clock that stands still."""

    def __init__(self, config: LinkConfig) -> None:
        self.clock = VirtualClock()
        network = MemoryNetwork(self.clock)
        self._hub = Hub(
            config,
            [network.listen],
            data=[DataOffer("tcp", lambda hub: TcpListener("127.0.0.1:0", hub))],
            clock=self.clock,
        ).listen()
        until(lambda: self.clock.waiting > 0)
        self._idle = self.clock.waiting

    def stranger(self, said: bytes) -> socket.socket:
        """Connect, and say this much and no more."""
        where = ("127.0.0.1", self._hub.data_ports[0].port)
        line = socket.create_connection(where, WAIT)
        line.sendall(said)
        return line

    def wait_stranger(self) -> None:
        """Wait until the time of one of them runs."""
        until(lambda: self.clock.waiting > self._idle)

    def close(self) -> None:
        with self.clock.running():  # it gives what still runs a moment
            self._hub.close(has_failed=True)


@pytest.fixture(params=["plain", "tls"])
def port(request: pytest.FixtureRequest) -> Iterator[Port]:
    config = SMALL
    if request.param == "tls":
        folder = request.getfixturevalue("tmp_path")
        config = Authority(folder).server(tokens=None)
    port = Port(config)
    yield port
    port.close()


@pytest.mark.parametrize(
    ("port", "said"),
    [
        *(("plain", said) for said in (b"", b"S", b"SLD1", b"GET / HTTP")),
        *(("tls", said) for said in (b"", HELLO[:3], HELLO[:20], HELLO[:-1])),
    ],
    indirect=["port"],
    ids=["mute", "a byte", "a word", "a line", "tls, mute", "a type", "a part", "nearly all"],
)
def test_whoever_says_too_little_is_cut_when_the_time_for_a_proof_is_over(
    port: Port, said: bytes
) -> None:
    with port.stranger(said) as slow:
        port.wait_stranger()
        port.clock.advance(PROOF_SECONDS - 0.1)
        slow.setblocking(False)
        with pytest.raises(BlockingIOError):  # it is borne until then, and nothing is said to it
            slow.recv(1)
        slow.settimeout(WAIT)
        port.clock.advance(0.2)
        assert everything(slow) == b""


def test_a_byte_now_and_then_buys_no_time(port: Port) -> None:
    with port.stranger(b"") as slow:
        port.wait_stranger()
        for each in HELLO[:4]:
            slow.sendall(bytes((each,)))
            port.clock.advance(PROOF_SECONDS / 4)
        port.clock.advance(0.1)
        assert everything(slow) == b""


def test_the_oldest_stranger_makes_room_also_in_the_middle_of_a_handshake(port: Port) -> None:
    strangers = [port.stranger(HELLO[:20])]
    port.wait_stranger()
    strangers += [port.stranger(HELLO[:20]) for _ in range(MOST_STRANGERS - 1)]
    strangers.append(port.stranger(b""))
    assert everything(strangers[0]) == b""
    for each in strangers:
        each.close()


def everything(line: socket.socket) -> bytes:
    said = b""
    with suppress(ConnectionResetError):  # closed with bytes unread
        while more := line.recv(4096):
            said += more
    return said
