"""Connections that break under real gRPC: everything goes on where it stood, or ends in words."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

import pytest

import streamlink as sl
from benchmarks.relay import Direction, Where
from streamlink.config import LinkConfig
from streamlink.errors import StreamlinkError
from streamlink.link.assignment import Assignment
from streamlink.link.peer_request import PeerRequest
from streamlink.link.receive_model import receive_model
from streamlink.link.send_model import send_model
from streamlink.link.transfer import Receipt
from streamlink.protocol.frames import Attempt
from streamlink.protocol.liveness import SessionLost
from streamlink.stores.memory import MemoryStore
from streamlink.transport.dialer import Carriers
from streamlink.transport.grpc.client import GrpcCarrier
from streamlink.transport.grpc.credentials import Connector
from tests.support.dialing import Dialing
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import (
    ODD,
    SMALL,
    WAIT,
    Federation,
    assert_same,
    config,
    exchange_models,
    executor,
    initial,
    mean_of,
    until,
)
from tests.support.relay import Relay, Step

SPEC = float_spec(400_001, 3, 0, 17_000)
FIRST = Attempt("job", 0, 1)
WINDOW = SMALL.stream.window_bytes
GREETED_BYTES = 1_500
"""More than any session needs in one direction until it is welcomed."""


class Through(Federation):
    """A server, and a relay through which its clients come."""

    def __init__(self, config: LinkConfig = SMALL) -> None:
        super().__init__(config)
        self.relay = Relay("127.0.0.1", self.server.port)
        self.address = f"127.0.0.1:{self.relay.port}"

    def ask(self, name: str = "site-1") -> PeerRequest:
        return self.peer(name).request("echo", SPEC, attempt=FIRST)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, traceback)
        self.relay.close()


@pytest.fixture
def through() -> Iterator[Through]:
    with Through() as through:
        yield through


class Cuts:
    """Resets all connections so many times, after numbers of bytes drawn from a seed."""

    def __init__(self, seed: int, count: int, most_bytes: int = 60_000) -> None:
        self.left = count
        self._dice, self._most = random.Random(seed), most_bytes

    def start(self, relay: Relay) -> None:
        relay.play([self._next(GREETED_BYTES)])

    def _next(self, least: int) -> Step:
        nbytes = least + self._dice.randrange(self._most)
        direction: Direction = "up" if least else self._dice.choice(("up", "down"))
        if direction == "down":
            nbytes //= 100  # acks alone
        return Step(action=self._cut, after_bytes=nbytes, direction=direction)

    def _cut(self, relay: Relay) -> None:
        self.left -= 1
        relay.reset()
        if self.left:
            relay.play([self._next(0)])


def pushed(config: LinkConfig, faults: Callable[[Relay], object]) -> tuple[Receipt, bytes]:
    """Send a model through a relay that ``faults`` were told to; returns what came of it."""
    store, port, taken = MemoryStore(), Future[int](), Future[Receipt]()

    def take() -> None:
        try:
            taken.set_result(sl.receive(store.begin, config=config, on_listening=port.set_result))
        except BaseException as error:
            taken.set_exception(error)

    threading.Thread(target=take, daemon=True).start()
    with Relay("127.0.0.1", port.result(WAIT)) as relay:
        faults(relay)
        receipt = sl.send(pattern_model(SPEC), f"127.0.0.1:{relay.port}", config=config)
        taken.result(WAIT)
    return receipt, content(store.open())


# --- a model outlives --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_model_outlives_twenty_resets(seed: int) -> None:
    cuts = Cuts(seed, 20)
    receipt, arrived = pushed(SMALL, cuts.start)
    assert arrived == content(pattern_model(SPEC))
    assert cuts.left == 0
    assert receipt.stats.resumes >= 1
    assert receipt.stats.resent_bytes <= 20 * WINDOW


@pytest.mark.slow
def test_a_port_that_refuses_for_a_second_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "streamlink")

    def faults(relay: Relay) -> None:
        def lose(relay: Relay) -> None:
            relay.refuse()
            relay.reset()
            relay.play([Step(action=Relay.allow, after_seconds=1.0)])

        relay.play([Step(action=lose, after_bytes=200_000, direction="up")])

    receipt, arrived = pushed(SMALL, faults)
    assert arrived == content(pattern_model(SPEC))
    assert receipt.stats.resent_bytes <= WINDOW
    assert "waiting for another for up to 30 s" in caplog.text
    assert "is back after" in caplog.text
    assert "resumes at byte" in caplog.text


def test_a_client_whose_address_changes_goes_on() -> None:
    def moved(relay: Relay) -> None:
        relay.come_from("127.0.0.2")
        relay.reset()

    receipt, arrived = pushed(
        SMALL, lambda relay: relay.play([Step(action=moved, after_bytes=300_000, direction="up")])
    )
    assert arrived == content(pattern_model(SPEC))
    assert receipt.stats.resumes >= 1
    assert receipt.stats.resent_bytes <= receipt.stats.resumes * WINDOW


@pytest.mark.slow
def test_a_proxy_that_ends_long_connections_costs_resumes_only() -> None:
    def faults(relay: Relay) -> None:
        # After bytes and not after seconds: on a busy machine no connection might live long enough.
        relay.play(
            [Step(action=Relay.reset, after_bytes=n, direction="up") for n in (300_000, 600_000)]
        )

    # Where it is the goodbye that is cut off, the receiver listens for as long as open_timeout.
    receipt, arrived = pushed(config(open_timeout=5.0), faults)
    assert arrived == content(pattern_model(SPEC))
    assert receipt.stats.resumes >= 2
    assert receipt.stats.resent_bytes <= receipt.stats.resumes * WINDOW


@pytest.mark.slow
@pytest.mark.parametrize("way", ["up", "down"])
def test_a_line_that_swallows_one_direction_is_replaced(way: Direction) -> None:
    impatient = config(
        call_timeout=0.4, session_timeout=1.2, heartbeat_interval=0.3, open_timeout=5.0
    )

    receipt, arrived = pushed(
        impatient, lambda relay: relay.play([a_hole_of_a_second(300_000, "up", way)])
    )
    assert arrived == content(pattern_model(SPEC))
    assert receipt.stats.resumes >= 1
    assert receipt.stats.resent_bytes <= receipt.stats.resumes * WINDOW


def a_hole_of_a_second(after_bytes: int, direction: Direction, way: Where) -> Step:
    """Return a step after which ``way`` swallows all for a second."""

    def swallow(relay: Relay) -> None:
        relay.black_hole(way)
        # Counted from here: in a second from the start a busy machine may not have got here.
        relay.play([Step(action=Relay.resume, after_seconds=1.0)])

    return Step(action=swallow, after_bytes=after_bytes, direction=direction)


class Lines:
    """A relay for the session's connection, and one for the data, of every client."""

    def __init__(self, port: int) -> None:
        self.session, self.data = (Relay("127.0.0.1", port) for _ in range(2))

    def carriers(self, config: LinkConfig) -> Carriers:
        session, data = (f"127.0.0.1:{each.port}" for each in (self.session, self.data))
        return Carriers(
            GrpcCarrier("Session", Connector(session, config).channel),
            GrpcCarrier("Transfer", Connector(data, config).channel),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.session.close()
        self.data.close()


def test_a_broken_data_connection_leaves_the_session_alone() -> None:
    store = MemoryStore()
    with Federation() as federation, Lines(federation.server.port) as lines:
        link = federation.link("site-1", dial=Dialing(carriers=lines.carriers))
        exchange = federation.peer("site-1").request("echo", SPEC, attempt=FIRST)
        lines.data.cut_after(300_000, "down")
        lines.data.cut_after(300_000, "up")
        sent, _ = exchange_models(exchange, pattern_model(SPEC), store)
        assert link.error is None
        assert lines.session.counts.connections == 1
        link.close()
    assert content(store.open()) == content(pattern_model(SPEC))
    assert sent.stats.resumes == 1
    assert 0 < sent.stats.resent_bytes <= WINDOW


def test_a_broken_session_leaves_the_data_alone() -> None:
    store = MemoryStore()
    with Federation() as federation, Lines(federation.server.port) as lines:
        link = federation.link("site-1", dial=Dialing(carriers=lines.carriers))
        exchange = federation.peer("site-1").request("echo", SPEC, attempt=FIRST)
        lines.data.play(
            [Step(action=lambda _: lines.session.reset(), after_bytes=300_000, direction="down")]
        )
        sent, _ = exchange_models(exchange, pattern_model(SPEC), store)
        lines.session.wait_until(lambda counts: counts.connections == 2)
        assert lines.data.counts.connections == 1
        link.close()
    assert content(store.open()) == content(pattern_model(SPEC))
    assert sent.stats.resumes == 0


@pytest.mark.slow
def test_a_half_open_connection_is_replaced_though_the_server_thinks_it_alive(
    through: Through,
) -> None:
    through.link("site-1")
    exchange, store = through.ask(), MemoryStore()
    through.relay.play([Step(action=lambda relay: relay.half_open("client"), after_bytes=300_000)])
    exchange_models(exchange, pattern_model(SPEC), store)
    assert content(store.open()) == content(pattern_model(SPEC))


@pytest.mark.slow
def test_a_line_that_went_silent_is_replaced() -> None:
    silent = config(session_timeout=0.6, heartbeat_interval=0.2)
    store = MemoryStore()
    with Through(silent) as through:
        through.link("site-1")
        exchange = through.ask()
        through.relay.play([a_hole_of_a_second(300_000, "down", "both")])
        sent, _ = exchange_models(exchange, pattern_model(SPEC), store)
    assert content(store.open()) == content(pattern_model(SPEC))
    assert sent.stats.resent_bytes <= sent.stats.resumes * WINDOW


def test_a_connection_that_is_mute_from_its_beginning_is_given_up_for_another(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("streamlink.transport.dialer.MUTE_SECONDS", 0.2)
    hasty = config(connect_timeout=4.0)  # gRPC by itself would take five
    with Through(hasty) as through:
        through.relay.black_hole()
        watch = threading.Thread(target=lambda: heal_once_replaced(through.relay))
        watch.start()
        executor = sl.StreamingExecutor(lambda tensor, start, values: values)
        with sl.Client(through.address, "site-1", executor, hasty):
            assert through.relay.counts.connections > 1
        watch.join(WAIT)
    [waited] = [each for each in caplog.messages if "nobody answers" in each]  # once
    assert waited.startswith(f"nobody answers at {through.address} yet; trying for up to ")


def heal_once_replaced(relay: Relay) -> None:
    """Swallow all that the first connection carries."""
    # Sooner, a part of the client's first words might arrive: the server would end that connection,
    # and gRPC open another one before the client has waited for long enough to replace it.
    relay.wait_until(lambda counts: counts.connections > 1)
    relay.resume()


# --- requests ----------------------------------------------------------------------------


def test_what_is_asked_while_a_client_is_away_is_answered_once_it_is_back(
    through: Through,
) -> None:
    asked: list[str] = []

    def serve(assignment: Assignment) -> None:
        asked.append(assignment.topic)
        assignment.reply()

    through.link("site-1", serve)
    peer = through.peer("site-1")
    through.relay.refuse()
    through.relay.reset()
    exchanges = [peer.request(f"task {n}", SPEC, attempt=FIRST) for n in range(3)]
    through.relay.allow()
    assert all(exchange.wait_reply(WAIT) is not None for exchange in exchanges)
    assert sorted(asked) == ["task 0", "task 1", "task 2"]


def test_an_answer_given_while_the_connection_was_lost_arrives(through: Through) -> None:
    is_asked, goes_on, has_answered = threading.Event(), threading.Event(), threading.Event()

    def serve(assignment: Assignment) -> None:
        is_asked.set()
        goes_on.wait(WAIT)
        assignment.reply(metadata={"n": "1"})
        has_answered.set()

    through.link("site-1", serve)
    exchange = through.ask()
    assert is_asked.wait(WAIT)
    through.relay.refuse()
    through.relay.reset()
    goes_on.set()
    assert has_answered.wait(WAIT)
    through.relay.allow()
    reply = exchange.wait_reply(WAIT)
    assert reply is not None
    assert reply.metadata == {"n": "1"}


# --- a round -----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_round_with_cuts_gives_the_exact_mean() -> None:
    with Through() as through:
        store = MemoryStore(initial(ODD))
        for number in range(2):
            through.client(f"site-{number}", executor(number))
        through.server.wait_for_peers(2, WAIT)
        cuts = Cuts(7, 8, most_bytes=6_000)
        cuts.start(through.relay)
        job = sl.ScatterAndGather(through.server, store, sl.RoundConfig(num_rounds=3))
        reports = job.run()
        assert cuts.left == 0
    expected = initial(ODD)
    for _ in range(3):
        expected = mean_of(expected, {0: 1.0, 1: 1.0})
    assert_same(store.arrays, expected)
    assert [report.attempt for report in reports] == [1, 1, 1]


# --- where it ends -----------------------------------------------------------------------

IMPATIENT = config(reconnect_timeout=0.8)


def test_a_server_that_does_not_come_back_is_an_error_in_time() -> None:
    with Through(IMPATIENT) as through:
        link = through.link("site-1")
        peer = through.peer("site-1")
        through.relay.refuse()
        through.relay.reset()
        lost_at = time.monotonic()
        assert link.wait(WAIT)
        assert time.monotonic() - lost_at >= 0.7
        assert isinstance(link.error, SessionLost)
        assert "raise reconnect_timeout" in str(link.error)
        through.wait_left("site-1")
        assert not peer.is_here


def test_a_transfer_that_does_not_come_back_is_an_error_at_both_ends_in_time() -> None:
    told: Future[StreamlinkError] = Future()

    def serve(assignment: Assignment) -> None:
        told.set_result(_failure(assignment))

    with Federation(IMPATIENT) as federation:
        with Lines(federation.server.port) as lines:
            link = federation.link("site-1", serve, dial=Dialing(carriers=lines.carriers))
            exchange = federation.peer("site-1").request("echo", SPEC, attempt=FIRST)
            lines.data.play([Step(action=_lose, after_bytes=300_000)])
            with pytest.raises(StreamlinkError, match="raise reconnect_timeout"):
                send_model(exchange.outgoing, pattern_model(SPEC))
            assert "raise reconnect_timeout" in str(told.result(WAIT))
            assert link.error is None  # the session lives
            link.close()


def _lose(relay: Relay) -> None:
    relay.refuse()
    relay.reset()


def _failure(assignment: Assignment) -> StreamlinkError:
    with pytest.raises(StreamlinkError) as failed:
        receive_model(assignment.incoming(), lambda model: MemoryStore().begin(model.spec))
    return failed.value


def test_another_server_at_the_same_address_does_not_know_the_session() -> None:
    with Through() as through:
        link = through.link("site-1")
        through.peer("site-1")
        with Federation() as other:
            through.relay.redirect("127.0.0.1", other.server.port)
            through.relay.reset()
            assert link.wait(WAIT)
        assert "does not know this session" in str(link.error)


def test_a_client_whose_process_was_started_again_takes_its_place() -> None:
    with Through(config(reconnect_timeout=60)) as through:
        through.link("site-1")
        first = through.peer("site-1")
        _lose(through.relay)
        until(lambda: first.is_disconnected)
        through.address = f"127.0.0.1:{through.server.port}"  # not through the relay
        through.link("site-1")
        until(lambda: not first.is_here)
        assert "site-1 connected as another process" in str(first.error)
        assert through.peer("site-1").is_here


def test_a_client_that_closes_without_a_goodbye_is_noticed_at_once() -> None:
    with Through(config(reconnect_timeout=300)) as through:
        dialing = Dialing()
        through.link("site-1", dial=dialing)
        through.peer("site-1")
        dialing.dialer.close()
        through.wait_left("site-1")


def test_a_goodbye_is_noticed_at_once_whatever_the_patience() -> None:
    with Through(config(reconnect_timeout=300)) as through:
        link = through.link("site-1")
        through.peer("site-1")
        link.close()
        through.wait_left("site-1")


def test_a_goodbye_said_while_a_client_was_away_is_told_when_it_is_back(through: Through) -> None:
    link = through.link("site-1")
    peer = through.peer("site-1")
    _lose(through.relay)
    until(lambda: peer.is_disconnected)
    peer.dismiss("not today")
    through.relay.allow()
    assert link.wait(WAIT)
    assert "left: not today" in str(link.error)


@pytest.mark.slow
def test_nothing_is_left_behind() -> None:
    before, dialing = _threads(), Dialing()
    with Through() as through:
        through.link("site-1", dial=dialing)
        exchange = through.ask()
        through.relay.cut_after(300_000)
        exchange_models(exchange, pattern_model(SPEC), MemoryStore())
        _lose(through.relay)
        until(lambda: dialing.sessions[0].is_disconnected)  # and no goodbye has to be brought
    until(lambda: not (_threads() - before))


def _threads() -> set[Any]:
    return {each for each in threading.enumerate() if each.is_alive()}
