"""Warnings that strangers cause, on a clock of our own."""

from __future__ import annotations

import logging

import pytest

from streamlink.transport.log import RateLimitedLog
from tests.support.virtual_clock import VirtualClock


def test_a_flood_of_warnings_becomes_one_a_second_that_counts_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock()
    log = RateLimitedLog(logging.getLogger("streamlink.test"), clock=clock)
    for number in range(1000):
        log.warning("refused %d", number)
    assert caplog.messages == [f"refused {number}" for number in range(20)]
    clock.now += 1.0
    for number in range(2):
        log.warning("refused %d", number)
    assert caplog.messages[20:] == ["refused 0 (980 like it were left out)"]
    clock.now += 60.0
    log.warning("refused again")
    assert caplog.messages[21:] == ["refused again (1 like it were left out)"]
