"""A client whose session is lost without the server's word begins another; with it, it ends."""

from __future__ import annotations

import re
import threading
from concurrent.futures import Future

import pytest

from benchmarks.pipes import Direction
from streamlink.errors import AbortCode, ProtocolError, StreamAborted, StreamlinkError
from streamlink.link.assignment import Assignment
from streamlink.link.client import ClientLink
from streamlink.link.joining import Patience, is_goodbye, is_lost
from streamlink.protocol.frames import Attempt
from streamlink.protocol.liveness import SessionLost
from streamlink.stores.memory import MemoryStore
from streamlink.transport.connect import Dial, dial
from tests.support.dialing import Dialing
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import WAIT, Federation, config, echo, exchange_models, until
from tests.support.relay import Relay

SPEC = float_spec(17_001)
FIRST = Attempt("job", 0, 1)
PATIENT = config(reconnect_timeout=0.5, rejoin_timeout=WAIT)


def aborted(code: AbortCode, reason: str = "gone") -> StreamAborted:
    return StreamAborted(code, reason, by_peer=True)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, (False, False)),
        (aborted(AbortCode.SESSION_LOST), (True, False)),
        (aborted(AbortCode.SESSION_LOST, "left: gone"), (True, False)),  # no reason is ever parsed
        (aborted(AbortCode.GOODBYE, "the job is done"), (False, True)),
        (StreamAborted(AbortCode.GOODBYE, "we are", by_peer=False), (False, False)),
        (aborted(AbortCode.CANCELLED), (False, False)),
        (aborted(AbortCode.NAME_TAKEN), (False, False)),
        (ProtocolError("a rule was broken"), (False, False)),
        (SessionLost(who="", stream="", seconds=1, bytes_done=0, setting=""), (True, False)),
    ],
)
def test_a_session_is_lost_or_ends_with_the_servers_word(
    error: StreamlinkError | None, expected: tuple[bool, bool]
) -> None:
    assert (is_lost(error), is_goodbye(error)) == expected


def joined(
    relay: Relay, serve: object = echo, rejoin_timeout: float = WAIT, dial: Dial = dial
) -> ClientLink:
    timeouts = PATIENT.timeouts.model_copy(update={"rejoin_timeout": rejoin_timeout})
    link = ClientLink(
        f"127.0.0.1:{relay.port}",
        name="site-1",
        serve=serve,  # type: ignore[arg-type]
        config=PATIENT.model_copy(update={"timeouts": timeouts}),
        dial=dial,
    )
    return link.start()


def test_the_server_that_takes_the_place_of_a_lost_one_is_joined_and_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "streamlink.client")
    began, opens, told = threading.Event(), threading.Event(), Future[StreamlinkError]()

    def serve(assignment: Assignment) -> None:
        began.set()
        if opens.is_set():
            echo(assignment)
            return
        while True:  # work that looks whether anybody waits for it
            try:
                assignment.progress()
            except StreamlinkError as error:
                opens.set()
                told.set_result(error)
                return
            opens.wait(0.05)

    with Federation() as lost, Federation() as other:
        with Relay("127.0.0.1", lost.server.port) as relay:
            link = joined(relay, serve)
            lost.peer("site-1").request("echo", SPEC, attempt=FIRST)
            assert began.wait(WAIT)
            relay.redirect("127.0.0.1", other.server.port)
            relay.reset()
            peer, store = other.peer("site-1"), MemoryStore()
            assert "does not know this session" in str(told.result(WAIT))
            exchange_models(peer.request("echo", SPEC, attempt=FIRST), pattern_model(SPEC), store)
            assert content(store.open()) == content(pattern_model(SPEC))
            assert not link.wait(0)
            link.close()
            assert link.error is not None
    assert f"trying for up to {WAIT:g} s to join again" in caplog.text
    assert "again after" in caplog.text
    assert "it was started again" in caplog.text


def test_a_server_that_has_given_the_client_up_takes_it_in_again() -> None:
    with Federation(config(reconnect_timeout=0.5)) as federation:
        with Relay("127.0.0.1", federation.server.port) as relay:
            link = joined(relay)
            first = federation.peer("site-1")
            relay.refuse()
            relay.reset()
            until(lambda: not first.is_here)
            federation.wait_left("site-1")
            relay.allow()
            assert federation.peer("site-1") is not first
            link.close()


def test_each_loss_of_a_session_that_lasted_has_all_of_the_time() -> None:
    patience = Patience(300.0, lasting=15.0, now=0.0)
    assert patience.lost(5.0) == 300.0  # the first
    patience.joined(10.0)
    assert patience.lost(26.0) == 300.0


def test_sessions_that_do_not_last_share_the_time_of_the_first_loss() -> None:
    patience = Patience(300.0, lasting=15.0, now=0.0)
    assert patience.lost(100.0) == 300.0
    patience.joined(101.0)
    assert patience.lost(111.0) == 289.0
    patience.joined(390.0)
    assert patience.lost(401.0) < 0


class FlippedHeartbeat:
    """Flips one bit of the first heartbeat in one direction, or of every heartbeat."""

    def __init__(self, direction: Direction, *, always: bool = False) -> None:
        self._direction, self.has_flipped = direction, threading.Event()
        self._always = always

    def passing(self, connection: int, direction: Direction, piece: bytes) -> bytes:
        """See ``Tap``."""
        is_over = self.has_flipped.is_set() and not self._always
        if direction != self._direction or is_over:
            return piece
        # A session's frame 3, its counter, and then its check.
        found = re.search(rb"\x1a\x02\x08.\x79", piece, re.DOTALL)
        if found is None:
            return piece
        self.has_flipped.set()
        at = found.start() + 3
        return piece[:at] + bytes([piece[at] ^ 0x40]) + piece[at + 1 :]

    def over(self, connection: int) -> None:
        """See ``Tap``."""


@pytest.mark.parametrize(
    ("direction", "said"),
    [("up", "had given this client up"), ("down", "what it had sent arrived damaged")],
)
def test_a_session_that_arrives_damaged_over_and_over_is_replaced(
    direction: Direction, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "streamlink.client")
    flipping = FlippedHeartbeat(direction)
    settings = config(
        stream={"data_listen": ("none",), "max_repairs": 0},
        heartbeat_interval=0.1,
        rejoin_timeout=WAIT,
    )
    with Federation(settings) as federation:
        with Relay("127.0.0.1", federation.server.port, tap=flipping) as relay:
            address = f"127.0.0.1:{relay.port}"
            link = ClientLink(address, name="site-1", serve=echo, config=settings).start()
            assert flipping.has_flipped.wait(WAIT)
            until(lambda: "again after" in caplog.text)
            assert said in caplog.text
            peer, store = federation.peer("site-1"), MemoryStore()
            exchange_models(peer.request("echo", SPEC, attempt=FIRST), pattern_model(SPEC), store)
            assert content(store.open()) == content(pattern_model(SPEC))
            link.close()


def test_a_client_ends_where_each_of_its_sessions_arrives_damaged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = config(
        stream={"data_listen": ("none",), "max_repairs": 0},
        heartbeat_interval=0.1,
        rejoin_timeout=0.5,
        session_timeout=WAIT,
    )
    flipping = FlippedHeartbeat("down", always=True)
    with Federation(settings) as federation:
        with Relay("127.0.0.1", federation.server.port, tap=flipping) as relay:
            address = f"127.0.0.1:{relay.port}"
            link = ClientLink(address, name="site-1", serve=echo, config=settings).start()
            assert link.wait(WAIT)
            assert "check the network cards" in str(link.error)
            assert "up to -" not in caplog.text
            link.close()


def test_a_client_that_gave_its_session_up_is_not_taken_for_another_process() -> None:
    with Federation(config(reconnect_timeout=60)) as federation:
        with Relay("127.0.0.1", federation.server.port) as relay:
            dialing = Dialing()
            link = joined(relay, dial=dialing)
            first, (given_up,) = federation.peer("site-1"), dialing.sessions
            relay.refuse()
            relay.reset()
            assert given_up.closed.wait(WAIT)
            assert first.is_here  # the server would wait longer
            relay.allow()
            until(lambda: not first.is_here)
            assert isinstance(first.error, StreamAborted)
            assert first.error.code is AbortCode.SESSION_LOST
            assert first.error.reason == "site-1 replaced this session with a new one"
            assert federation.peer("site-1").is_here
            link.close()


def test_a_server_that_stays_away_ends_the_client_in_time() -> None:
    with Federation() as federation, Relay("127.0.0.1", federation.server.port) as relay:
        link = joined(relay, rejoin_timeout=0.5)
        relay.refuse()
        relay.reset()
        assert link.wait(WAIT)
        assert isinstance(link.error, SessionLost)
        link.close()


def test_a_client_can_leave_while_it_tries_to_join_again() -> None:
    with Federation() as federation, Relay("127.0.0.1", federation.server.port) as relay:
        dialing = Dialing()
        link = joined(relay, rejoin_timeout=300, dial=dialing)
        assert dialing.tries.acquire(timeout=WAIT)
        relay.refuse()
        relay.reset()
        assert dialing.tries.acquire(timeout=WAIT)
        link.close()
        assert link.wait(0)
        assert not [each for each in threading.enumerate() if each.name == "keep-session"]


def test_a_client_whose_name_another_process_took_does_not_come_back() -> None:
    with Federation(config(reconnect_timeout=60)) as federation:
        with Relay("127.0.0.1", federation.server.port) as relay:
            settings = config(reconnect_timeout=60, rejoin_timeout=300)
            address = f"127.0.0.1:{relay.port}"
            link = ClientLink(address, name="site-1", serve=echo, config=settings).start()
            first = federation.peer("site-1")
            relay.refuse()
            relay.reset()
            federation.link("site-1")
            until(lambda: not first.is_here)
            relay.allow()
            assert link.wait(WAIT)
            assert "connected as another process" in str(link.error)
            assert federation.peer("site-1").is_here
            link.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_client_that_cannot_even_try_ends_all_the_same() -> None:
    with Federation() as federation, Relay("127.0.0.1", federation.server.port) as relay:
        dialing = Dialing()
        link = joined(relay, rejoin_timeout=300, dial=dialing)
        dialing.fault = RuntimeError("what nobody has thought of")
        relay.refuse()
        relay.reset()
        assert link.wait(WAIT)
        assert is_lost(link.error)
        link.close()


def test_a_session_that_is_about_to_end_is_not_taken_for_a_client_that_came_back() -> None:
    with Federation() as federation, Relay("127.0.0.1", federation.server.port) as relay:
        link = joined(relay)
        first = federation.peer("site-1")  # its streams may hear of its end before it does
        assert federation.server.wait_for_peer("site-1", 0, unless=first) is None
        assert federation.server.wait_for_peer("site-1", WAIT) is first
        link.close()
        again = joined(relay)
        back = federation.server.wait_for_peer("site-1", WAIT, unless=first)
        assert back not in (None, first)
        again.close()
