"""Carriers are chosen by address; streams go over the one that a welcome names, while it works."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from streamlink.clock import running_time
from streamlink.config import LinkConfig, SecurityConfig, StreamConfig
from streamlink.errors import AddressInUse, ConnectFailed
from streamlink.protocol.frames import DataPort
from streamlink.transport.carrier_modules import DATA_CARRIERS
from streamlink.transport.carriers import (
    CallEnd,
    ClientCall,
    DataCarrier,
    DataSession,
    ProvableCarrier,
)
from streamlink.transport.connect import (
    carriers_to,
    check_dialing,
    check_listening,
    data_carrier_to,
    dial,
    hub_at,
)
from streamlink.transport.dialer import Carriers, Dialer
from streamlink.transport.hub import DataOffer, Hub
from streamlink.transport.memory import MemoryNetwork
from tests.support.carrier_contract import (
    ControlCarrierContract,
    DataCarrierContract,
    Line,
    Moving,
)
from tests.support.peers import SMALL, WAIT, config, until

MEMORY = "memory://here"


class TestMemoryByAddress(ControlCarrierContract, DataCarrierContract):
    @pytest.fixture
    def line(self) -> Iterator[Line]:
        line = Line(
            lambda config, asked: hub_at(
                MEMORY, config, on_request=asked, clock=running_time
            ).listen(),
            lambda hub, name: dial(MEMORY, SMALL, name=name, clock=running_time),
        )
        yield line
        line.close()


class Scripted:
    """A carrier of streams that says what its calls end as, and counts them."""

    where = "the lab's port"

    def __init__(self, end: CallEnd, why: str = "") -> None:
        self.end, self.why, self.calls, self.is_closed = end, why, 0, False

    def carry(self, call: ClientCall) -> CallEnd:
        self.calls += 1
        return self.end

    def prove(self, seconds: float) -> str:
        return self.why

    def renew(self) -> None:
        """It has no connection."""

    def close(self) -> None:
        self.is_closed = True


class Lab:
    """A hub in memory that offers a carrier of streams, and a client that has ``data`` for it."""

    def __init__(self, usual: DataCarrier | None, offered: ProvableCarrier | None) -> None:
        network, streams = MemoryNetwork(running_time), MemoryNetwork(running_time, 7)
        self.offers: list[tuple[DataPort, ...]] = []
        found = offered or streams.data_carrier()

        def open_data(offers: Any, session: DataSession) -> ProvableCarrier:
            self.offers.append(offers)
            return found

        def connect(hub: Hub, name: str) -> Dialer:
            control, data = network.carriers()
            carriers = Carriers(control, usual or data)
            return Dialer(
                "memory",
                SMALL,
                carriers,
                name=name,
                clock=running_time,
                open_data=open_data,
                hold_seconds=WAIT,
            )

        self.line = Line(
            lambda config, asked: Hub(
                config,
                [network.listen],
                clock=running_time,
                data=[DataOffer("lab", streams.listen)],
                on_request=asked,
            ).listen(),
            connect,
        )

    def move(self, before_end: Callable[[], object] = lambda: None) -> None:
        """Move a model, and end."""
        try:
            moving = Moving(self.line, *self.line.joined())
            moving.start()
            moving.finish()
            before_end()
        finally:
            self.line.close()


def test_streams_go_over_the_carrier_that_the_welcome_names() -> None:
    usual = Scripted(CallEnd.BROKEN)
    lab = Lab(usual, None)
    lab.move()
    assert lab.offers == [(DataPort("lab", 7, lanes=4),)]
    assert usual.calls == 0
    assert usual.is_closed


def test_a_carrier_that_brings_nothing_is_given_up_without_loss() -> None:
    broken = Scripted(CallEnd.BROKEN)
    Lab(None, broken).move()
    assert (broken.calls, broken.is_closed) == (2, True)


def test_a_port_that_cannot_be_reached_is_named_once_and_costs_no_stream(
    caplog: pytest.LogCaptureFixture,
) -> None:
    blocked = Scripted(CallEnd.BROKEN, "nobody answers within 10 s")
    with caplog.at_level(logging.WARNING, "streamlink.client"):
        Lab(None, blocked).move(before_end=lambda: until(lambda: bool(caplog.records)))
    assert (blocked.calls, blocked.is_closed) == (0, True)
    (said,) = [each.message for each in caplog.records if "the lab's port" in each.message]
    assert "nobody answers within 10 s" in said
    assert "tried again in 60 s" in said


def test_the_contract_fails_for_a_carrier_that_carries_nothing() -> None:
    network, streams = MemoryNetwork(running_time), MemoryNetwork(running_time, 7)
    line = Line.offering(
        lambda config, asked: Hub(
            config,
            [network.listen],
            clock=running_time,
            data=[DataOffer("lab", streams.listen)],
            on_request=asked,
        ).listen(),
        lambda hub: network.carriers(),
        lambda hub, offered, session: Scripted(CallEnd.BROKEN),
    )
    with pytest.raises(AssertionError, match="the sessions' carrier instead"):
        DataCarrierContract().test_a_model_arrives_whole(line)
    line.close()


def test_carriers_that_a_client_does_not_know_are_ignored() -> None:
    network = MemoryNetwork(running_time)
    hub = Hub(
        SMALL,
        [network.listen],
        clock=running_time,
        data=[DataOffer("of tomorrow", MemoryNetwork(running_time, 9).listen)],
    ).listen()
    dialer = Dialer("memory", SMALL, network.carriers(), name="site-1", clock=running_time)
    session = dialer.connect(lambda session, request: None)
    assert not session.closed.is_set()
    dialer.close()
    hub.close()


def test_a_hub_serves_sessions_of_several_carriers() -> None:
    networks = [MemoryNetwork(running_time), MemoryNetwork(running_time)]
    hub = Hub(SMALL, [each.listen for each in networks], clock=running_time).listen()
    dialers = [
        Dialer("memory", SMALL, each.carriers(), name=f"site-{at}", clock=running_time)
        for at, each in enumerate(networks)
    ]
    for each in dialers:
        each.connect(lambda session, request: None)
    assert [each.peer_name for each in hub.sessions] == ["site-0", "site-1"]
    for each in dialers:
        each.close()
    hub.close()


def test_a_hub_that_cannot_listen_everywhere_listens_nowhere() -> None:
    first, taken = MemoryNetwork(running_time), MemoryNetwork(running_time)
    hub = Hub(SMALL, [taken.listen], clock=running_time).listen()
    with pytest.raises(AddressInUse):
        Hub(SMALL, [first.listen, taken.listen], clock=running_time).listen()
    Hub(SMALL, [first.listen], clock=running_time).listen().close()
    hub.close()


def test_a_name_in_memory_is_taken_once_and_free_again() -> None:
    hub = hub_at(MEMORY, SMALL, clock=running_time).listen()
    with pytest.raises(AddressInUse, match="another server"):
        hub_at(MEMORY, SMALL, clock=running_time).listen()
    hub.close()
    hub_at(MEMORY, SMALL, clock=running_time).listen().close()


def test_a_client_in_memory_waits_for_its_server() -> None:
    dialer = dial("memory://nobody", SMALL, name="site-1", clock=running_time)
    with pytest.raises(ConnectFailed, match="nobody listens there"):
        dialer.connect(lambda session, request: None, seconds=0.05)
    dialer.close()


@pytest.mark.parametrize(
    ("address", "why"),
    [("pigeon://roof", "no carrier of sessions.*grpc, memory"), ("memory://", "names no server")],
)
def test_an_address_of_no_carrier_is_refused(address: str, why: str) -> None:
    for check in (check_listening, check_dialing):
        with pytest.raises(ValueError, match=why):
            check(address, SMALL)
    with pytest.raises(ValueError, match=why):
        hub_at(address, SMALL, clock=running_time).listen()
    with pytest.raises(ValueError, match=why):
        dial(address, SMALL, name="site-1", clock=running_time)


class TestADataCarrierByName(DataCarrierContract):
    """The module of a stranger, registered by one line."""

    @pytest.fixture
    def line(self, socket_carrier: None) -> Iterator[Line]:
        def address(hub: Hub) -> str:
            return f"127.0.0.1:{hub.port}"

        offers = config(stream={"data_listen": "socket://127.0.0.1:0"})
        line = Line.offering(
            lambda _, asked: hub_at(
                "127.0.0.1:0", offers, on_request=asked, clock=running_time
            ).listen(),
            lambda hub: carriers_to(address(hub), SMALL, clock=running_time),
            lambda hub, offered, session: data_carrier_to(
                address(hub), offered, session, SMALL, running_time
            ),
        )
        yield line
        line.close()


@pytest.fixture
def socket_carrier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DATA_CARRIERS, "socket", "tests.support.socket_carrier")


@pytest.mark.parametrize("opens", [check_listening, partial(hub_at, clock=running_time)])
@pytest.mark.parametrize(
    ("where", "why"),
    [
        *(
            (each, f"write CARRIER://WHERE.*{', '.join([*DATA_CARRIERS, 'socket'])}")
            for each in ("pigeon://roof", "memory")
        ),
        ("socket://127.0.0.1", "not of the form HOST:PORT"),
        ("socket://0.0.0.0:0", "beyond this machine.*SECURED_BY"),
    ],
)
def test_where_streams_cannot_be_taken_is_refused_before_listening(
    opens: Callable[[str, LinkConfig], object], where: str, why: str, socket_carrier: None
) -> None:
    with pytest.raises(ValueError, match=why):
        opens(MEMORY, config(stream={"data_listen": where}))


def test_plain_text_over_a_data_carrier_may_be_asked_for(socket_carrier: None) -> None:
    asked = SecurityConfig(insecure=True)
    stream = StreamConfig(data_listen=("socket://0.0.0.0:0",))
    check_listening(MEMORY, LinkConfig(stream=stream, security=asked))


def test_a_taken_port_of_a_data_carrier_is_an_address_in_use(socket_carrier: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"socket://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(AddressInUse, match=f"data_listen: cannot listen at {where}"):
            hub_at(MEMORY, config(stream={"data_listen": where}), clock=running_time).listen()
