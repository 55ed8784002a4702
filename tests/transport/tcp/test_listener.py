"""What a data port makes of strangers: nothing, in bounded number, time and bytes."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from streamlink.clock import Clock, running_time
from streamlink.transport.carriers import DataSession
from streamlink.transport.dialer import Dialer
from streamlink.transport.hub import DataOffer, Hub
from streamlink.transport.memory import MemoryNetwork
from streamlink.transport.tcp import proof
from streamlink.transport.tcp.client import TcpCarrier
from streamlink.transport.tcp.listener import MOST_STRANGERS, TcpListener
from streamlink.transport.tcp.proof import Opening
from tests.support.peers import SMALL, WAIT, until
from tests.support.virtual_clock import VirtualClock


class Lab:
    """A hub in memory that takes connections of streams at a port, and one client of it."""

    def __init__(self, clock: Clock = running_time) -> None:
        network = MemoryNetwork(clock)
        self.hub = Hub(
            SMALL,
            [network.listen],
            data=[DataOffer("tcp", lambda hub: TcpListener("127.0.0.1:0", hub))],
            clock=clock,
        ).listen()
        self.where = ("127.0.0.1", self.hub.data_ports[0].port)
        self._dialer = Dialer("memory", SMALL, network.carriers(), name="site-1", clock=clock)
        near = self._dialer.connect(lambda session, request: None)
        self.session = DataSession(
            near.session_id, self.hub.epoch, self.hub.data_key(near.session_id)
        )

    def opening(
        self, number: int = 1, *, session_id: str = "", epoch: str = "", stream_id: int = 0
    ) -> bytes:
        """Return an opening of this client, or one that names another session or process."""
        session, epoch = session_id or self.session.session_id, epoch or self.session.epoch
        said = Opening(session, epoch, stream_id, number)
        return said.encode(self.session.key)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.where, WAIT)

    def answer_to(self, said: bytes) -> bytes:
        """Return all that the port says to one who says this."""
        with self.connect() as stranger:
            stranger.sendall(said)
            return everything(stranger)

    def close(self) -> None:
        self._dialer.close()
        self.hub.close(has_failed=True)


@pytest.fixture
def lab() -> Iterator[Lab]:
    lab = Lab()
    yield lab
    lab.close()


def everything(stranger: socket.socket) -> bytes:
    said = b""
    with suppress(ConnectionResetError):  # closed with bytes unread
        while more := stranger.recv(4096):
            said += more
    return said


def test_who_belongs_to_the_session_is_answered(lab: Lab) -> None:
    raw = lab.opening()
    assert proof.is_answer(lab.answer_to(raw), raw, lab.session.key)


def test_an_opening_that_comes_again_is_not_answered(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    raw = lab.opening()
    assert lab.answer_to(raw)
    with caplog.at_level(logging.WARNING, "streamlink.server"):
        assert lab.answer_to(raw) == b""
        until(lambda: "an opening of 'site-1' came again" in caplog.text)


@pytest.mark.parametrize(
    "said",
    [
        lambda lab: lab.opening(session_id="00" * 16),
        lambda lab: lab.opening(epoch="00" * 8),
        lambda lab: lab.opening()[:-1] + b"x",
        lambda lab: b"GET / HTTP/1.1\r\nHost: server\r\n\r\n".ljust(200),
        lambda lab: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300),
        lambda lab: b"SLD1\xff\xff" + bytes(300),
        lambda lab: bytes(100_000),
    ],
)
def test_strangers_hear_nothing(lab: Lab, said: Callable[[Lab], bytes]) -> None:
    assert lab.answer_to(said(lab)) == b""


def knocked(lab: Lab) -> None:
    """Connect, leave without a word, and wait until the port has let go."""
    with lab.connect() as stranger:
        stranger.shutdown(socket.SHUT_WR)
        assert everything(stranger) == b""


def test_a_connection_that_says_nothing_is_no_news(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "streamlink.server"):
        knocked(lab)
    assert "left before it had proven anything" in caplog.text
    assert not [each for each in caplog.records if each.levelno > logging.DEBUG]


def test_a_port_says_nothing_first_and_the_oldest_stranger_makes_room(lab: Lab) -> None:
    strangers = [lab.connect() for _ in range(MOST_STRANGERS + 1)]
    assert everything(strangers[0]) == b""  # closed, and nothing said
    raw = lab.opening()
    assert lab.answer_to(raw)
    for each in strangers:
        each.close()


def serving() -> int:
    return sum(each.name == "tcp-serve" for each in threading.enumerate())


def test_a_client_that_opens_streams_it_has_not_hears_why_and_keeps_few_connections() -> None:
    clock = VirtualClock()  # it stands still: none of them is cut for its time
    lab, before = Lab(clock), serving()
    lines: list[socket.socket] = []
    for number in range(1, MOST_STRANGERS + 9):
        lines.append(line := lab.connect())
        raw = lab.opening(number, stream_id=77)
        line.sendall(raw)
        heard = everything(line)
        assert proof.is_answer(heard[: proof.ANSWER_BYTES], raw, lab.session.key)
        assert b"was never offered" in heard
    until(lambda: serving() - before <= MOST_STRANGERS)
    for line in lines:
        line.close()
    until(lambda: serving() == before)
    with clock.running():
        lab.close()


def test_a_client_does_not_believe_whoever_answers_in_the_servers_place(lab: Lab) -> None:
    for said in (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n".ljust(100), lab.opening()):
        with socket.create_server(("127.0.0.1", 0)) as squatter:
            where = ("127.0.0.1", squatter.getsockname()[1])
            carrier = TcpCarrier(where, lab.session, SMALL, running_time)

            def answer(squatter: socket.socket = squatter, said: bytes = said) -> None:
                with squatter.accept()[0] as caught:
                    caught.recv(256)
                    caught.sendall(said)

            thread = threading.Thread(target=answer)
            thread.start()
            assert carrier.prove(WAIT)
            thread.join(WAIT)
            carrier.close()


def test_a_client_that_reaches_nobody_has_proven_nothing(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        where = ("127.0.0.1", closed.getsockname()[1])
    carrier = TcpCarrier(where, lab.session, SMALL, running_time)
    assert carrier.prove(WAIT)
    carrier.close()
    assert carrier.prove(WAIT)


def test_closing_ends_the_proof_of_one_who_waits_for_a_mute_server(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        carrier = TcpCarrier(("127.0.0.1", mute.getsockname()[1]), lab.session, SMALL, running_time)
        proven: list[str] = []
        proving = threading.Thread(target=lambda: proven.append(carrier.prove(WAIT)))
        proving.start()
        caught, _ = mute.accept()
        caught.recv(256)
        carrier.close()
        proving.join(WAIT)
        assert all(proven)
        assert len(proven) == 1
        caught.close()
