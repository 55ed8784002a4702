"""The in-memory carrier keeps both contracts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamlink.clock import running_time
from streamlink.transport.dialer import Dialer
from streamlink.transport.hub import Hub
from streamlink.transport.memory import MemoryNetwork
from tests.support.carrier_contract import ControlCarrierContract, DataCarrierContract, Line
from tests.support.peers import SMALL


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
