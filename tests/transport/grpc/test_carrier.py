"""The gRPC carrier keeps both contracts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamlink.clock import running_time
from streamlink.transport.connect import dial, hub_at
from tests.support.carrier_contract import ControlCarrierContract, DataCarrierContract, Line
from tests.support.peers import config

# Without a data port: streams would travel there, and this carrier would not be tested.
ALONE = config(stream={"data_listen": ("none",)})


class TestGrpcCarrier(ControlCarrierContract, DataCarrierContract):
    @pytest.fixture
    def line(self) -> Iterator[Line]:
        line = Line(
            lambda config, asked: hub_at(
                "127.0.0.1:0", config, on_request=asked, clock=running_time
            ).listen(),
            lambda hub, name: dial(f"127.0.0.1:{hub.port}", ALONE, name=name, clock=running_time),
            ALONE,
        )
        yield line
        line.close()
