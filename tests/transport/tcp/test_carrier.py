"""The TCP carrier keeps the contract of carriers of streams."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from streamlink.clock import RunningClock, running_time
from streamlink.config import LinkConfig
from streamlink.errors import StreamAborted
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.protocol.frames import Attach
from streamlink.transport.carriers import ClientCall, DataSession
from streamlink.transport.connect import carriers_to, data_carrier_to, hub_at
from streamlink.transport.hub import Hub
from streamlink.transport.tcp.client import TcpCarrier
from streamlink.transport.wire import TransferWire
from tests.support.carrier_contract import (
    SPEC,
    DataCarrierContract,
    Line,
    Moving,
)
from tests.support.certificates import Authority, secured
from tests.support.peers import SMALL, WAIT, until
from tests.support.pumps import pump_of
from tests.support.scarce import no_threads


def over_tcp(listening: LinkConfig, dialing: LinkConfig, *, is_used: bool = True) -> Line:
    """Return a hub on gRPC that offers the TCP carrier."""

    def address(hub: Hub) -> str:
        return f"127.0.0.1:{hub.port}"

    return Line.offering(
        lambda _, asked: hub_at(
            "127.0.0.1:0", listening, on_request=asked, clock=running_time
        ).listen(),
        lambda hub: carriers_to(address(hub), dialing, clock=running_time),
        lambda hub, offered, session: (
            data_carrier_to(address(hub), offered, session, dialing, running_time)
            if is_used
            else None
        ),
        dialing,
    )


def offering(settings: LinkConfig) -> LinkConfig:
    """Return settings of a server that also listens for connections of streams."""
    stream = settings.stream.model_copy(update={"data_listen": ("tcp://127.0.0.1:0",)})
    return settings.model_copy(update={"stream": stream})


class TestTcp(DataCarrierContract):
    @pytest.fixture
    def line(self) -> Iterator[Line]:
        line = over_tcp(offering(SMALL), SMALL)
        yield line
        line.close()


def with_two_lanes(settings: LinkConfig) -> LinkConfig:
    """Return settings of an end whose streams have two connections each."""
    stream = settings.stream.model_copy(update={"lanes": 2, "max_lanes": 2})
    return settings.model_copy(update={"stream": stream})


class TestTcpWithLanes(DataCarrierContract):
    @pytest.fixture
    def line(self) -> Iterator[Line]:
        settings = with_two_lanes(SMALL)
        line = over_tcp(offering(settings), settings)
        yield line
        line.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


class TestTcpWithTls(DataCarrierContract):
    @pytest.fixture
    def line(self, authority: Authority) -> Iterator[Line]:
        server = authority.server(ca=None, tokens=None)
        line = over_tcp(offering(server), secured(ca=authority.folder / "server" / "ca.pem"))
        yield line
        line.close()


def test_a_stream_moves_over_connections_with_certificates_at_both_ends(
    authority: Authority,
) -> None:
    line = over_tcp(offering(authority.server()), authority.site("site-1"))
    moving = Moving(line, *line.joined("site-1"), SPEC)
    moving.start()
    moving.finish()
    line.close()


def test_lanes_are_encrypted_and_certified_as_all_connections_are(authority: Authority) -> None:
    server, site = with_two_lanes(authority.server()), with_two_lanes(authority.site("site-1"))
    line = over_tcp(offering(server), site)
    moving = Moving(line, *line.joined("site-1"), SPEC)
    moving.start()
    until(lambda: pump_of(moving.outgoing).calls == 2)
    assert moving.finish().stats.resumes == 0
    line.close()


@pytest.mark.parametrize(
    ("changes", "is_proven"),
    [
        ({}, True),
        ({"server_name": "server.test"}, True),
        ({"server_name": "elsewhere.test"}, False),
        ({"certificate": None, "key": None}, False),
    ],
)
def test_certificates_are_checked_at_both_ends(
    authority: Authority, changes: dict[str, Any], is_proven: bool
) -> None:
    line = over_tcp(offering(authority.server()), authority.site("site-1"), is_used=False)
    line.joined("site-1")
    (far,) = line.hub.sessions
    session = DataSession(far.session_id, line.hub.epoch, line.hub.data_key(far.session_id))
    (offered,) = line.hub.data_ports
    other = TcpCarrier(
        ("127.0.0.1", offered.port), session, authority.site("site-1", **changes), running_time
    )
    assert (not other.prove(WAIT)) is is_proven
    other.close()
    line.close()


def test_an_address_that_swallows_packets_leaves_time_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = over_tcp(offering(SMALL), SMALL, is_used=False)
    line.joined("site-1")
    (far,) = line.hub.sessions
    session = DataSession(far.session_id, line.hub.epoch, line.hub.data_key(far.session_id))
    (offered,) = line.hub.data_ports
    carrier = TcpCarrier(("both.test", offered.port), session, SMALL, running_time)
    with ExitStack() as sockets:
        full = sockets.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):  # more than it queues: the system drops what else wants to connect
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        found = [
            (socket.AF_INET, socket.SOCK_STREAM, 0, "", address)
            for address in (full.getsockname(), ("127.0.0.1", offered.port))
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        # Half of it is for the first address; the rest is enough beside a busy neighbour.
        assert carrier.prove(WAIT / 6) == ""
    carrier.close()
    line.close()


def test_a_stream_is_refused_to_whoever_shows_another_certificate(authority: Authority) -> None:
    line = over_tcp(offering(authority.server()), authority.site("site-1"), is_used=False)
    dialer, near, far = line.joined("site-1")
    session = DataSession(near.session_id, line.hub.epoch, line.hub.data_key(near.session_id))
    (offered,) = line.hub.data_ports
    thief = TcpCarrier(("127.0.0.1", offered.port), session, authority.site("site-2"), running_time)
    number = line.hub.new_stream_id()
    model = ReceiveTransfer(
        near.config, stream_id=number, peer_name="hub", name="model", clock=running_time
    )
    far.offer(pump_of(model))
    wanted = ReceiveTransfer(
        near.config, stream_id=number, peer_name="hub", name="model", clock=running_time
    )
    call = ClientCall(
        pump_of(wanted), TransferWire(number), first=(Attach(near.session_id, number),)
    )
    thief.carry(call)
    with pytest.raises(StreamAborted, match="the certificate is that of site-2"):
        wanted.open(WAIT)
    thief.close()
    dialer.close()
    line.close()


def test_a_client_without_a_thread_for_a_limit_proves_nothing_and_may_try_again() -> None:
    line = over_tcp(offering(SMALL), SMALL, is_used=False)
    _, near, _ = line.joined("site-1")
    session = DataSession(near.session_id, line.hub.epoch, line.hub.data_key(near.session_id))
    (offered,) = line.hub.data_ports
    # A clock of its own: the thread for the timers of another may still be there.
    carrier = TcpCarrier(("127.0.0.1", offered.port), session, SMALL, RunningClock())
    model = ReceiveTransfer(
        near.config, stream_id=1, peer_name="hub", name="model", clock=running_time
    )
    call = ClientCall(pump_of(model), TransferWire(1), first=(Attach(near.session_id, 1),))
    with no_threads("timers", beside=threading.current_thread().name) as refused:
        assert carrier.prove(WAIT) == "can't start new thread"
        with pytest.raises(RuntimeError, match="can't start new thread"):
            carrier.carry(call)
    assert refused
    assert carrier.prove(WAIT) == ""
    carrier.close()
    line.close()
