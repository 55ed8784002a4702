"""What the claim over TCP is judged by."""

from __future__ import annotations

import pytest

from benchmarks import carriers
from benchmarks.__main__ import PROGRAMS
from benchmarks.peers import Run
from benchmarks.processes import Usage
from benchmarks.side_by_side import ratios_to

NOTHING = Usage(0, 0, 0.0, 0)


def a_run(rate: float) -> Run:
    return Run(int(rate * 1e9), 1.0, NOTHING, NOTHING)


def results(**changes: float) -> dict[str, list[Run]]:
    rates = {peer.name: 1.0 for peer in carriers.PEERS} | {"streamlink, tcp": 1.6, **changes}
    return {name: [a_run(rate)] * 5 for name, rate in rates.items()}


def test_it_can_be_asked_for_by_name() -> None:
    assert "carriers" in PROGRAMS


@pytest.mark.parametrize(
    ("slower", "is_met"),
    [
        ({}, True),
        ({"streamlink, tcp": 1.4}, False),  # Flight
        ({"raw TCP": 2.2}, False),
        ({"raw TCP, MSG_WAITALL": 2.2}, False),  # the fastest of all counts
        ({"raw TCP, 1024 KiB": 2.2}, False),
        ({"raw TCP, MSG_WAITALL": 2.1}, True),
        ({"plain grpcio, tuned allocator": 1.4}, False),
        ({"streamlink, grpc": 9.0}, True),
    ],
)
def test_each_bound_has_to_be_reached(slower: dict[str, float], is_met: bool) -> None:
    assert carriers.is_met(ratios_to(carriers.OVER_TCP, results(**slower))) is is_met
