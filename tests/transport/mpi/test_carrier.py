"""The MPI carrier keeps both contracts; both ends are this process, which sends to itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamlink.clock import running_time
from streamlink.transport.connect import dial, hub_at
from tests.support.carrier_contract import ControlCarrierContract, DataCarrierContract, Line
from tests.support.peers import SMALL

pytest.importorskip("mpi4py", reason="needs the extra mpi: pip install 'streamlink-fl[mpi]'")

HERE = "mpi://0"


class TestMpiCarrier(ControlCarrierContract, DataCarrierContract):
    @pytest.fixture
    def line(self) -> Iterator[Line]:
        line = Line(
            lambda config, asked: hub_at(
                HERE, config, on_request=asked, clock=running_time
            ).listen(),
            lambda hub, name: dial(HERE, SMALL, name=name, clock=running_time),
        )
        yield line
        line.close()
