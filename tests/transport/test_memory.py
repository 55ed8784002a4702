"""The in-memory carrier keeps both contracts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamlink.clock import running_time
from streamlink.transport.connect import carriers_to, data_carrier_to, hub_at
from streamlink.transport.dialer import Dialer
from streamlink.transport.hub import DataOffer, Hub
from streamlink.transport.memory import MemoryNetwork
from tests.support.carrier_contract import ControlCarrierContract, DataCarrierContract, Line
from tests.support.peers import SMALL, WAIT, config

OFFERS = config(stream={"data_listen": "memory://"})


class TestMemoryCarrier(ControlCarrierContract, DataCarrierContract):
    @pytest.fixture
    def line(self) -> Iterator[Line]:
        network = MemoryNetwork(running_time)
        line = Line(
            lambda config, asked: Hub(
                config, [network.listen], on_request=asked, clock=running_time
            ).listen(),
            lambda hub, name: Dialer(
                "memory", SMALL, network.carriers(), name=name, clock=running_time
            ),
        )
        yield line
        line.close()


class TestMemoryBesideTheConnectionsOfSessions(DataCarrierContract):
    @pytest.fixture
    def line(self) -> Iterator[Line]:
        def address(hub: Hub) -> str:
            return f"127.0.0.1:{hub.port}"

        line = Line.offering(
            lambda _, asked: hub_at(
                "127.0.0.1:0", OFFERS, on_request=asked, clock=running_time
            ).listen(),
            lambda hub: carriers_to(address(hub), SMALL, clock=running_time),
            lambda hub, offered, session: data_carrier_to(
                address(hub), offered, session, SMALL, running_time
            ),
        )
        yield line
        line.close()


def test_a_carrier_in_memory_is_proven_while_its_server_listens() -> None:
    network = MemoryNetwork(running_time, 7)
    hub = Hub(SMALL, [], data=[DataOffer("memory", network.listen)], clock=running_time).listen()
    carrier = network.data_carrier()
    assert carrier.prove(WAIT) == ""
    hub.close()
    assert carrier.prove(0.0) == "nobody listens there"
    carrier.close()
    assert carrier.prove(WAIT)
