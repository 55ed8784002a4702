"""A server takes streams at the port above that of its sessions, unless somebody else has it."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from streamlink.clock import running_time
from streamlink.config import LinkConfig, SecurityConfig, StreamConfig
from streamlink.errors import AddressInUse
from streamlink.protocol.frames import DataPort
from streamlink.transport.carrier_modules import control_module, data_module
from streamlink.transport.carriers import DataSession, Listener
from streamlink.transport.connect import data_carrier_to, hub_at
from streamlink.transport.hub import Hub
from streamlink.transport.port_pair import PortPair
from tests.support.peers import SMALL, config

AUTO = config(stream={"data_listen": "auto"})
SESSION = DataSession("session", "epoch", bytes(32))
TRIES, FEW = 50, 5


@pytest.fixture
def hubs() -> Iterator[list[Hub]]:
    hubs: list[Hub] = []
    yield hubs
    for each in hubs:
        each.close()


def listening(hubs: list[Hub], address: str, settings: LinkConfig = AUTO) -> Hub:
    hubs.append(hub_at(address, settings, clock=running_time))
    return hubs[-1].listen()


def test_streams_are_taken_at_the_port_above_that_of_sessions(hubs: list[Hub]) -> None:
    hub = listening(hubs, "127.0.0.1:0")
    assert hub.data_ports == (DataPort("tcp", hub.port + 1, above=1, lanes=4),)
    with socket.create_connection(("127.0.0.1", hub.port + 1)):
        pass


def test_whatever_port_is_free_a_server_warns_of_plain_text_once(
    hubs: list[Hub], caplog: pytest.LogCaptureFixture
) -> None:
    asked = AUTO.model_copy(update={"security": SecurityConfig(insecure=True)})
    with caplog.at_level(logging.WARNING):
        for _ in range(FEW):
            hub = listening(hubs, "0.0.0.0:0", asked)
            assert hub.data_ports[0].port == hub.port + 1
    assert len([each for each in caplog.messages if "plain text" in each]) == FEW


class Raced:
    """A control carrier that finds its port taken the first ``times`` times."""

    def __init__(self, times: int) -> None:
        self.left, self.asked = times, list[str]()

    def new_listener(self, address: str, hub: Hub) -> Listener:
        self.asked.append(address)
        if self.left:
            self.left -= 1
            raise AddressInUse(f"cannot listen on {address}")
        return control_module("grpc").new_listener(address, hub)


def test_another_port_is_taken_where_the_one_that_was_free_is_lost_meanwhile() -> None:
    raced, data = Raced(2), data_module("tcp")
    pair = PortPair("127.0.0.1:0", raced, data)  # type: ignore[arg-type]  # all that is asked of it
    hub = Hub(AUTO, [pair.listen], clock=running_time)
    with closing(hub.listen()):
        assert len(raced.asked) == 3
        assert raced.asked[-1] == f"127.0.0.1:{hub.port}"
        above = pair.above(hub)
        assert above is not None
        above.stop()
    named = Raced(1)
    hub = Hub(AUTO, [PortPair("127.0.0.1:9", named, data).listen], clock=running_time)  # type: ignore[arg-type]
    with pytest.raises(AddressInUse):
        hub.listen()
    assert named.asked == ["127.0.0.1:9"]  # a port that was asked for is not replaced


@pytest.mark.parametrize("address", ["127.0.0.1:0", "memory://a lab"])
def test_a_server_may_do_without(address: str, hubs: list[Hub]) -> None:
    assert listening(hubs, address, config(stream={"data_listen": "none"})).data_ports == ()


def test_where_sessions_have_no_port_there_is_none_above(
    hubs: list[Hub], tmp_path_factory: pytest.TempPathFactory
) -> None:
    for address in ("memory://a lab", f"unix:{tmp_path_factory.mktemp('s')}/s"):
        assert listening(hubs, address).data_ports == ()


def test_a_port_that_somebody_else_has_is_named_once_and_not_needed(
    hubs: list[Hub], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "streamlink.server"):
        taken = a_hub_below_a_taken_port(hubs)
    assert hubs[-1].data_ports == ()
    (said,) = [each.message for each in caplog.records if "no data port" in each.message]
    assert f"Free port {taken}" in said


def a_hub_below_a_taken_port(hubs: list[Hub]) -> int:
    """Listen at a port whose neighbour is taken; returns the neighbour."""
    for _ in range(TRIES):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = int(taken.getsockname()[1])
            try:
                listening(hubs, f"127.0.0.1:{port - 1}")
                return port
            except AddressInUse:
                continue  # so has somebody else the port below
    raise AssertionError(f"no free port below another in {TRIES} tries")


def test_none_stands_alone() -> None:
    with pytest.raises(ValueError, match="none stands alone"):
        config(stream={"data_listen": "none,auto"})


@pytest.mark.parametrize(
    ("address", "offered", "where"),
    [
        ("127.0.0.1:5000", DataPort("tcp", 8518, above=1), "tcp://127.0.0.1:5001"),
        ("127.0.0.1:5000", DataPort("tcp", 8518), "tcp://127.0.0.1:8518"),
    ],
)
def test_a_client_counts_from_the_port_that_it_has_reached(
    address: str, offered: DataPort, where: str
) -> None:
    carrier = data_carrier_to(address, [offered], SESSION, SMALL, running_time)
    assert carrier is not None
    assert carrier.where.endswith(where)
    carrier.close()


@pytest.mark.parametrize("address", ["127.0.0.1:65535", "unix:/run/forwarded"])
def test_where_no_port_is_above_a_client_does_without(address: str) -> None:
    offered = [DataPort("tcp", 8518, above=1)]
    assert data_carrier_to(address, offered, SESSION, SMALL, running_time) is None


@pytest.mark.parametrize(
    ("address", "offered", "why"),
    [
        ("127.0.0.1:5000", DataPort("pigeon", 8518), "port 8518 (pigeon).*does not know it"),
        ("127.0.0.1:5000", DataPort("tcp", 8518), "port 8518 (tcp).*data_ports permits 80-81 only"),
        ("10.0.0.1:5000", DataPort("tcp", 80), "port 80 (tcp).*through a proxy or without TLS"),
    ],
)
def test_a_client_logs_which_port_it_leaves_alone_and_why(
    address: str, offered: DataPort, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = SMALL.model_copy(update={"stream": StreamConfig(data_ports="80-81")})
    with caplog.at_level(logging.INFO, "streamlink.client"):
        assert data_carrier_to(address, [offered], SESSION, settings, running_time) is None
    (said,) = [each.message for each in caplog.records]
    assert re.search(why.replace("(", r"\(").replace(")", r"\)"), said)


@pytest.mark.parametrize(
    ("data_ports", "is_dialled"),
    [("5000-5001", True), ("5001-5001", True), ("5000-5000", False), ("", True)],
)
def test_a_clients_streams_use_no_port_beyond_those_that_it_permits(
    data_ports: str, is_dialled: bool
) -> None:
    settings = SMALL.model_copy(update={"stream": StreamConfig(data_ports=data_ports)})
    offered = [DataPort("tcp", 8518, above=1)]
    carrier = data_carrier_to("127.0.0.1:5000", offered, SESSION, settings, running_time)
    assert (carrier is not None) == is_dialled
    if carrier is not None:
        carrier.close()
