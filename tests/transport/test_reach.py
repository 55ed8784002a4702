"""A server logs once whose streams never come over the port that it offers for them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from streamlink.transport.proving import PROVE_SECONDS
from streamlink.transport.reach import DataReach
from streamlink.transport.session import Session
from tests.support.carrier_contract import Line
from tests.support.virtual_clock import VirtualClock
from tests.transport.test_connect import Lab

PORTS = "port 8518 (tcp)"


@pytest.fixture
def session() -> Iterator[Session]:
    line: Line = Lab(None, None).line
    yield line.joined()[2]
    line.close()


def went(reach: DataReach, session: Session, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what is logged when a stream of ``session`` comes over the usual carrier."""
    caplog.clear()
    with caplog.at_level(logging.WARNING, "streamlink.server"):
        reach.went_without(session, PORTS)
    return [each.message for each in caplog.records]


def test_who_still_may_be_proving_is_not_named(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock()
    reach = DataReach(clock)
    assert went(reach, session, caplog) == []
    clock.advance(PROVE_SECONDS - 1)
    assert went(reach, session, caplog) == []


def test_who_never_reaches_it_is_named_once_with_the_port(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock()
    reach = DataReach(clock)
    went(reach, session, caplog)
    clock.advance(PROVE_SECONDS)
    (said,) = went(reach, session, caplog)
    assert said.startswith(f"site-1 has never reached {PORTS}")
    assert went(reach, session, caplog) == []


def test_who_has_reached_it_is_never_named(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock()
    reach = DataReach(clock)
    reach.reached(session)
    for _ in range(2):
        assert went(reach, session, caplog) == []
        clock.advance(2 * PROVE_SECONDS)
