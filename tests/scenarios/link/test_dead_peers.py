"""Peers that fall silent: missed within the time the settings state, by name, and alone.

A connection that was reset: ``reconnect_timeout``, at the server never more than 4/3 of it. One
that fell silent, both ways or one: ``session_timeout`` before that. How long it took is not looked
at, since a busy machine takes longer; the number in the log is exact, and virtual time shows the
rest (``tests/protocol``).
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator

import pytest

from streamlink.errors import StreamlinkError
from streamlink.link.assignment import Assignment
from streamlink.link.client import ClientLink
from streamlink.link.peer import Peer
from streamlink.protocol.frames import Attempt
from streamlink.protocol.liveness import SessionLost
from streamlink.stores.memory import MemoryStore
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import WAIT, Federation, config, exchange_models, until
from tests.support.relay import Relay

pytestmark = pytest.mark.slow  # silence has to last as long as it does

SPEC = float_spec(60_001, 3)
FIRST = Attempt("job", 0, 1)
SILENCE, RECONNECT = 2.0, 2.0
SHORT = config(
    heartbeat_interval=0.2, session_timeout=SILENCE, reconnect_timeout=RECONNECT, rejoin_timeout=0.0
)

Fault = Callable[[Relay], object]
SILENT: dict[str, Fault] = {
    "both ways": lambda relay: relay.black_hole("both"),
    "to the server": lambda relay: relay.black_hole("up"),
    "to the client": lambda relay: relay.black_hole("down"),
    "stalled": lambda relay: relay.stall("both"),
}


def _refuse_and(act: Fault) -> Fault:
    def fault(relay: Relay) -> None:
        relay.refuse()
        act(relay)

    return fault


BROKEN: dict[str, Fault] = {
    "reset": _refuse_and(lambda relay: relay.reset()),
    "the server alone hears of it": _refuse_and(lambda relay: relay.half_open("server")),
}


class Two(Federation):
    """A server, a client beside it, and one behind a relay."""

    def __init__(self) -> None:
        super().__init__(SHORT)
        self.relay = Relay("127.0.0.1", self.server.port)
        self.near = self.link("near")
        self.address, direct = f"127.0.0.1:{self.relay.port}", self.address
        self.far = self.link("far", serve=_wait_for_good)
        self.address = direct

    def strike(self, fault: Fault) -> None:
        """Let it happen now."""
        fault(self.relay)

    def wait_missed(self) -> None:
        """Wait until the server has given the far client up."""
        self.wait_left("far")


def _wait_for_good(assignment: Assignment) -> None:
    threading.Event().wait(WAIT)


@pytest.fixture
def two() -> Iterator[Two]:
    with Two() as two:
        for name in ("near", "far"):
            two.peer(name)
        yield two
        two.relay.close()


def said_patience(caplog: pytest.LogCaptureFixture, who: str) -> float:
    """Return the seconds for which the log says that ``who`` is waited for."""
    found = re.search(rf"connection to {who} lost .* for up to ([0-9.]+) s", caplog.text)
    assert found, caplog.text
    return float(found[1])


@pytest.mark.parametrize("way", SILENT)
def test_a_line_that_falls_silent_is_missed_in_time_at_both_ends(
    two: Two, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "streamlink")
    two.strike(SILENT[way])
    two.wait_missed()
    assert two.far.wait(WAIT)
    assert isinstance(two.far.error, SessionLost)
    assert "server 127.0.0.1" in str(two.far.error)
    assert "(session_timeout)" in caplog.text
    assert RECONNECT <= said_patience(caplog, "far") <= RECONNECT * 4 / 3 + 0.1
    assert two.near.error is None


@pytest.mark.parametrize("way", BROKEN)
def test_a_connection_that_breaks_is_missed_after_what_the_log_says(
    two: Two, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "streamlink")
    two.strike(BROKEN[way])
    two.wait_missed()
    said = said_patience(caplog, "far")
    assert said == pytest.approx(RECONNECT * 4 / 3, abs=0.06)
    assert two.near.error is None


@pytest.mark.parametrize("way", ["both ways", "to the server", "to the client"])
def test_the_others_go_on_beside_a_line_that_is_silent(two: Two, way: str) -> None:
    stuck = two.peer("far").request("wait", SPEC, attempt=FIRST)
    two.strike(SILENT[way])
    store = MemoryStore()
    exchange_models(
        two.peer("near").request("echo", SPEC, attempt=FIRST), pattern_model(SPEC), store
    )
    assert content(store.open()) == content(pattern_model(SPEC))
    two.wait_missed()
    with pytest.raises(StreamlinkError, match=r"far|session"):
        stuck.wait_reply(WAIT)


# --- the end of a server ----------------------------------------------------------------------


def _lose(relay: Relay, peer: Peer) -> None:
    """Break the connection of a client, and let it make no other."""
    relay.refuse()
    relay.reset()
    until(lambda: peer.is_disconnected)


def test_a_client_that_is_away_when_the_server_closes_hears_of_it_at_its_return() -> None:
    patient = config(reconnect_timeout=60.0)
    with Federation(patient) as federation, Relay("127.0.0.1", federation.server.port) as relay:
        federation.address = f"127.0.0.1:{relay.port}"
        link: ClientLink = federation.link("site-1")
        _lose(relay, federation.peer("site-1"))
        threading.Timer(0.1, relay.allow).start()
        federation.server.close("the job is done")
        assert link.wait(WAIT)
        assert "left: the job is done" in str(link.error)


def test_a_server_that_fails_does_not_wait_long_for_who_is_away() -> None:
    with Federation(config(reconnect_timeout=600.0)) as federation:
        with Relay("127.0.0.1", federation.server.port) as relay:
            federation.address = f"127.0.0.1:{relay.port}"
            federation.link("site-1")
            _lose(relay, federation.peer("site-1"))
            failed = RuntimeError("the disk is gone")
            federation.server.__exit__(RuntimeError, failed, None)  # or this test hangs
