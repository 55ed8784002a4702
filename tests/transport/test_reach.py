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


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    with VirtualClock().running() as clock:
        yield clock


def warned(clock: VirtualClock, seconds: float, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what is logged within so many seconds from now on."""
    caplog.clear()
    with caplog.at_level(logging.WARNING, "streamlink.server"):
        clock.wait(clock.event(), seconds)
    return [each.message for each in caplog.records]


def test_who_never_reaches_it_is_named_once_with_the_port_while_its_stream_still_moves(
    session: Session, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    reach = DataReach(clock)
    reach.went_without(session, PORTS)
    # Who still may be proving is not named.
    assert warned(clock, PROVE_SECONDS - 1, caplog) == []
    (said,) = warned(clock, 2.0, caplog)
    assert said.startswith(f"site-1 has never reached {PORTS}")
    reach.went_without(session, PORTS)
    assert warned(clock, 2 * PROVE_SECONDS, caplog) == []


@pytest.mark.parametrize("is_first", [True, False])
def test_who_has_reached_it_is_never_named(
    is_first: bool, session: Session, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    reach = DataReach(clock)
    if is_first:
        reach.reached(session)
    reach.went_without(session, PORTS)
    if not is_first:
        reach.reached(session)
    assert warned(clock, 2 * PROVE_SECONDS, caplog) == []


def test_who_has_left_is_not_named(
    session: Session, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    reach = DataReach(clock)
    reach.went_without(session, PORTS)
    session.close("it has done its work")
    assert warned(clock, 2 * PROVE_SECONDS, caplog) == []


def test_a_server_that_closes_names_nobody(
    session: Session, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    reach = DataReach(clock)
    reach.went_without(session, PORTS)
    reach.close()
    assert warned(clock, 2 * PROVE_SECONDS, caplog) == []
