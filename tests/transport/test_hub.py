"""What a hub gives a carrier that reads and writes frames in its own way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from streamlink.clock import running_time
from streamlink.config import LinkConfig, StreamConfig
from streamlink.errors import ProtocolError, StreamlinkError
from streamlink.link.send_transfer import SendTransfer
from streamlink.protocol import frames as f
from streamlink.transport.dialer import Dialer
from streamlink.transport.hub import DataOffer, Hub
from streamlink.transport.memory import MemoryNetwork
from streamlink.transport.session import Session
from tests.support.carrier_contract import DataCarrierContract, Line, Moving
from tests.support.models import float_spec
from tests.support.peers import SMALL, WAIT, config
from tests.support.socket_carrier import SocketCarrier, SocketListener


def over_sockets(settings: LinkConfig) -> Line:
    """Return a hub in memory that offers the socket carrier."""
    network = MemoryNetwork(running_time)
    return Line.offering(
        lambda config, asked: Hub(
            config,
            [network.listen],
            data=[DataOffer("socket", SocketListener)],
            on_request=asked,
            clock=running_time,
        ).listen(),
        lambda hub: network.carriers(),
        lambda hub, offered, session: SocketCarrier(offered[0].port, settings.stream),
        settings,
    )


class TestADataCarrierOverSockets(DataCarrierContract):
    """It reads headers before payloads, and needs ``handshake`` and ``attach`` of the hub alone."""

    @pytest.fixture
    def line(self) -> Iterator[Line]:
        line = over_sockets(SMALL)
        yield line
        line.close()


def test_chunks_of_the_default_size_fit_a_data_carrier() -> None:
    default = StreamConfig()
    stream = StreamConfig(
        min_chunk_bytes=default.chunk_bytes, initial_window_bytes=default.window_bytes
    )
    line = over_sockets(LinkConfig(stream=stream))
    moving = Moving(line, *line.joined(), float_spec(1_600_000))
    moving.start()
    assert moving.finish().stats.chunks < 6_400_000 // (1 << 20), "its chunks were smaller"
    line.close()


class Wire:
    """One who has opened a call, as a carrier over sockets would describe it: no messages."""

    remote, carrier = "10.0.0.7:5000", "socket"

    def __init__(self) -> None:
        self.is_vouched, self.is_cut = False, threading.Event()

    def x509_names(self) -> frozenset[str] | None:
        return None

    def vouch(self) -> None:
        self.is_vouched = True

    def cut(self) -> None:
        self.is_cut.set()


@pytest.fixture
def joined() -> Iterator[tuple[Hub, Session]]:
    network = MemoryNetwork(running_time)
    hub = Hub(SMALL, [network.listen], clock=running_time).listen()
    dialer = Dialer("memory", SMALL, network.carriers(), name="site-1", clock=running_time)
    dialer.connect(lambda session, request: None)
    yield hub, hub.sessions[0]
    dialer.close()
    hub.close("the test is over", has_failed=True)


def test_a_call_without_messages_of_its_own_carries_a_stream(joined: tuple[Hub, Session]) -> None:
    hub, session = joined
    number, wire = hub.new_stream_id(), Wire()
    model = SendTransfer(
        SMALL, float_spec(3), stream_id=number, peer_name="site-1", name="model", clock=running_time
    )
    model.hand_to(session.offer)
    attached = hub.attach(f.Attach(session.session_id, number), wire)
    assert wire.is_vouched
    assert isinstance(next(attached.pump.outgoing(attached.number)), f.Open)
    attached.pump.cut()
    assert wire.is_cut.is_set()
    attached.detach()


def test_who_names_no_stream_of_its_session_is_not_vouched_for(
    joined: tuple[Hub, Session],
) -> None:
    hub, session = joined
    wire = Wire()
    with pytest.raises(ProtocolError, match="was never offered"):
        hub.attach(f.Attach(session.session_id, 99), wire)
    assert not wire.is_vouched


class NoSessionThread(threading.Thread):
    """A thread that cannot be started where it would be a session's at a server."""

    def start(self) -> None:
        if self.name == "session-site-1":
            raise RuntimeError("can't start new thread")
        super().start()


def test_a_client_for_whose_session_there_is_no_thread_takes_no_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = MemoryNetwork(running_time)
    hub = Hub(SMALL, [network.listen], clock=running_time).listen()
    monkeypatch.setattr(threading, "Thread", NoSessionThread)
    first, again = (
        Dialer("memory", SMALL, network.carriers(), name="site-1", clock=running_time)
        for _ in range(2)
    )
    with suppress(StreamlinkError):  # it may have had its welcome before the abort
        assert first.connect(lambda session, request: None).closed.wait(WAIT)
    monkeypatch.undo()
    again.connect(lambda session, request: None)
    assert [each.peer_name for each in hub.sessions] == ["site-1"]
    for dialer in (first, again):
        dialer.close()
    hub.close()


def test_a_call_that_does_not_say_who_it_is_is_cut() -> None:
    network, wire = MemoryNetwork(running_time), Wire()
    hub = Hub(config(open_timeout=0.01), [network.listen], clock=running_time).listen()
    with hub.handshake(wire.cut):
        assert wire.is_cut.wait(WAIT)
    hub.close()
