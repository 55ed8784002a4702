"""A port that lets proofs pass and nothing else: one silent call tells a client to do without."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.protocol.frames import Attach
from streamlink.protocol.limits import DATA_KEY_BYTES
from streamlink.transport.carriers import CallEnd, ClientCall, DataSession
from streamlink.transport.proving import ProvenCarrier
from streamlink.transport.tcp import proof
from streamlink.transport.tcp.client import TcpCarrier
from streamlink.transport.tcp.opening import receive_opening
from streamlink.transport.tcp.sockets import PlainSocket
from streamlink.transport.ticker import Ticker
from streamlink.transport.wire import TransferWire
from tests.support.peers import SMALL, WAIT, until
from tests.support.pumps import pump_of
from tests.support.virtual_clock import VirtualClock


class MutePort:
    """Proves itself on each connection, and says nothing more."""

    def __init__(self) -> None:
        self.session = DataSession("ab" * 16, "cd" * 8, bytes(DATA_KEY_BYTES))
        self._door = socket.create_server(("127.0.0.1", 0))
        self.where: tuple[str, int] = self._door.getsockname()
        self._connections: list[PlainSocket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection = PlainSocket(self._door.accept()[0])
                self._connections.append(connection)
                _, raw = receive_opening(connection)
                connection.send((proof.answer(raw, self.session.key),))

    def close(self) -> None:
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self._thread.join(WAIT)
        for each in self._connections:
            each.close()


@pytest.fixture
def port() -> Iterator[MutePort]:
    port = MutePort()
    yield port
    port.close()


def test_one_call_that_falls_silent_takes_streams_from_the_port(
    port: MutePort, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock()
    ticker = Ticker(clock=clock)
    tcp = TcpCarrier(port.where, port.session, SMALL, clock)
    carrier = ProvenCarrier(tcp, clock=clock, on_proven=lambda: None)
    pump = pump_of(ReceiveTransfer(SMALL, stream_id=7, peer_name="hub", name="model", clock=clock))
    first = (Attach(port.session.session_id, 7),)
    call = ClientCall(pump, TransferWire(7), first=first, attached=ticker.add)
    ends = list[CallEnd]()
    carrying = threading.Thread(target=lambda: ends.append(carrier.carry(call)), daemon=True)

    def is_given_up() -> bool:
        clock.advance(0.5)  # less than the pause after a failure, which must not pass here
        return pump.calls == 0

    assert carrier.is_ready(WAIT)
    with caplog.at_level(logging.DEBUG, "streamlink.client"):
        carrying.start()
        until(lambda: pump.calls == 1)
        until(is_given_up)
        carrying.join(WAIT)
    assert ends == [CallEnd.CUT]
    assert "streams move nothing over them" in caplog.text
    assert not carrier.is_ready(WAIT), "another call would cost the stream as much time again"
    carrier.close()
    with clock.running():  # it waits for its thread
        ticker.close()
