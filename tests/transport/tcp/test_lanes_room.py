"""A payload for which an end has no memory: its connection is lost, and the stream goes on."""

from __future__ import annotations

import logging

import pytest

from tests.support.lane_lab import LaneLab, with_lanes
from tests.support.scarce import ScarceBuffers


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize(
    ("direction", "said"),
    [("up", "no stream comes of this: unable"), ("down", "ends: unable")],
)
def test_a_payload_without_memory_costs_its_connection_and_not_the_stream(
    direction: str, said: str, lanes: int, caplog: pytest.LogCaptureFixture
) -> None:
    with LaneLab(with_lanes(lanes)) as lab:
        moved = lab.move(direction, sink_waits=True)
        moved.wait_lanes(lanes)
        moved.pumps[1].buffers = scarce = ScarceBuffers()
        with caplog.at_level(logging.WARNING):
            stats = moved.finish()
    assert scarce.refused == 1
    assert said in caplog.text
    assert stats.carrier == "tcp"
    assert stats.resumes == (1 if lanes == 1 else 0)
