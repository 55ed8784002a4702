"""Probes at a server: beside its clients, one at a time, within limits, and when they may."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from streamlink.cancel import CancelToken
from streamlink.clock import running_time
from streamlink.config import LimitsConfig, LinkConfig, StreamConfig
from streamlink.errors import (
    AbortCode,
    Cancelled,
    ConnectFailed,
    RequestRefused,
    StreamAborted,
    StreamlinkError,
    TopicNotServed,
)
from streamlink.link.asking import Answer, ask_server
from streamlink.link.client import ClientLink
from streamlink.link.probe_line import ProbeLine
from streamlink.link.probe_wire import (
    BEGIN,
    DOWN,
    ECHO,
    MAX_PROBE_BYTES,
    UP,
    Discard,
)
from streamlink.link.receive_model import receive_model
from streamlink.link.receive_transfer import KnownSpecs
from streamlink.link.send_model import send_model
from streamlink.link.server import Server
from streamlink.probing import measure
from streamlink.protocol.frames import Attempt, Reply
from streamlink.transport.connect import dial
from streamlink.transport.dialer import Dialer
from streamlink.transport.session import Session
from tests.support.models import float_spec, pattern_model
from tests.support.peers import SMALL, WAIT, until
from tests.support.virtual_clock import VirtualClock

CONFIG = LinkConfig()


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(config=CONFIG) as server:
        yield server


def limited(rule: str) -> LinkConfig:
    return LinkConfig(limits=LimitsConfig.model_validate({"probes": rule}))


def test_a_probe_measures_round_trips_and_models_either_way(server: Server) -> None:
    with ProbeLine(server.address) as line:
        assert 0 < line.echo() < WAIT
        moved = line.move([("down", 300_000), ("up", 200_000), ("up", 1)])
    assert [(each.way, each.nbytes) for each in moved.flows] == [
        ("down", 300_000),
        ("up", 200_000),
        ("up", 1),
    ]
    for each in moved.flows:
        assert each.seconds > 0
        assert each.resumes == 0
        assert all(0 < done <= each.nbytes for _, done in each.samples)


def test_a_token_ends_each_call_of_a_probe(server: Server) -> None:
    cancel = CancelToken()
    with ProbeLine(server.address, cancel=cancel) as line:
        cancel.cancel("enough")
        with pytest.raises(Cancelled, match="enough"):
            line.echo()
        with pytest.raises(Cancelled, match="enough"):
            line.move([("down", 1000)])
        with pytest.raises(Cancelled, match="enough"):
            line.move([("up", 1000)])
        with pytest.raises(Cancelled, match="enough"):
            measure(line, address=server.address)
    with pytest.raises(Cancelled, match="enough"), ProbeLine(server.address, cancel=cancel):
        pytest.fail("it has begun")


def test_a_move_that_a_token_ends_and_all_that_is_asked_afterwards_say_so(server: Server) -> None:
    cancel = CancelToken()

    def interrupt() -> None:
        until(lambda: any(each.name == "probe-down" for each in threading.enumerate()))
        cancel.cancel("enough")

    with ProbeLine(server.address, cancel=cancel) as line:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(Cancelled, match="enough"):
            line.move([("down", 60_000_000)])
        with pytest.raises(Cancelled, match="enough"):
            line.move([("up", 1000)])
        with pytest.raises(Cancelled, match="enough"):
            line.echo()


def test_the_server_tells_its_settings(server: Server) -> None:
    with ProbeLine(server.address) as line:
        assert line.server == {
            "chunk_bytes": str(CONFIG.stream.chunk_bytes),
            "window_bytes": str(CONFIG.stream.window_bytes),
            "max_lanes": "4",
            "initial_window_bytes": str(1 << 20),
            "long_initial_bytes": str(4 << 20),
            "longest_window_bytes": str(48 << 20),
            "max_models": "32",
        }
        assert line.most_models == 32


@pytest.mark.slow
def test_a_probe_is_no_client_and_takes_no_name(server: Server) -> None:
    with ClientLink(server.address, name="site-1") as client:
        with ProbeLine(server.address, name="site-1") as line:
            line.echo()
            assert [each.name for each in server.wait_for_peers(1, WAIT)] == ["site-1"]
        assert not client.wait(0.05)
    with (
        ProbeLine(server.address, name="site-1") as line,
        ClientLink(server.address, name="site-1"),
    ):
        line.echo()


def test_a_probe_takes_no_clients_place() -> None:
    full = LinkConfig(grpc=CONFIG.grpc.model_copy(update={"max_clients": 1}))
    with Server(config=full) as server, ProbeLine(server.address) as line:
        with ClientLink(server.address, name="site-1"):
            line.echo()


@pytest.mark.slow
def test_a_second_probe_is_refused_until_the_first_has_ended(server: Server) -> None:
    with ProbeLine(server.address, name="first"):
        with pytest.raises(StreamAborted, match="another probe, of 'first', is under way"):
            ProbeLine(server.address, name="second").start()
    until(lambda: can_probe(server.address))


def can_probe(address: str) -> bool:
    try:
        with ProbeLine(address, name="second") as line:
            return line.echo() > 0
    except StreamAborted:  # the first is about to end
        return False


@pytest.mark.slow
def test_a_probe_waits_while_a_round_runs(server: Server) -> None:
    with server.occupied("round 3 runs"), pytest.raises(RequestRefused, match="round 3 runs"):
        ProbeLine(server.address).start()
    with ProbeLine(server.address) as line:
        line.echo()


def test_a_round_that_begins_ends_a_probe(server: Server) -> None:
    with ProbeLine(server.address) as line:
        line.echo()
        with server.occupied("round 4 runs"):
            with pytest.raises(StreamAborted, match="round 4 runs"):
                until(lambda: line.echo() < 0)


def test_a_probe_waits_while_a_model_moves(server: Server) -> None:
    with ClientLink(server.address, name="site-1", serve=lambda _: None):
        (peer,) = server.wait_for_peers(1, WAIT)
        exchange = peer.request("train", float_spec(10), attempt=Attempt())
        with pytest.raises(RequestRefused, match="a model moves"):
            ProbeLine(server.address).start()
        exchange.end(AbortCode.CANCELLED, "the test is over")


@pytest.mark.parametrize("rule", ["never", "always"])
def test_an_operator_allows_probes_always_or_never(rule: str) -> None:
    with Server(config=limited(rule)) as server, server.occupied("round 1 runs"):
        if rule == "always":
            with ProbeLine(server.address) as line:
                line.move([("down", 1000)])
        else:
            with pytest.raises(RequestRefused, match="answers no probes"):
                ProbeLine(server.address).start()


@pytest.mark.parametrize("nbytes", [0, -1, MAX_PROBE_BYTES + 1])
def test_sizes_beyond_the_limit_are_refused_with_an_example(server: Server, nbytes: int) -> None:
    with ProbeLine(server.address) as line:
        with pytest.raises(StreamlinkError, match=f"'{nbytes}' bytes is refused.*such as 65536"):
            line.move([("down", nbytes)])


def test_all_that_a_probe_moves_is_counted_together(server: Server) -> None:
    with ProbeLine(server.address) as line:
        line.move([("down", 1 << 20)])
        with pytest.raises(StreamlinkError, match=f"{MAX_PROBE_BYTES - (1 << 20)} of"):
            line.move([("up", MAX_PROBE_BYTES)])


@pytest.mark.slow
def test_a_probe_ends_after_a_minute() -> None:
    address = "memory://probe"
    with VirtualClock().running() as clock, Server(address, SMALL, clock=clock):
        with ProbeLine(address, SMALL, clock=clock) as line:
            began, pause = clock(), clock.event()
            with pytest.raises(StreamAborted, match="a probe ends after 60 s"):
                until(lambda: pause.wait(1.0) or line.echo() < 0)
            assert 60 <= clock() - began <= 62


@pytest.fixture
def session(server: Server) -> Iterator[tuple[Dialer, Session]]:
    """A probing session below ``ProbeLine``, which keeps to the rules."""
    dialer = dial(server.address, CONFIG, clock=running_time, name="prober", is_probe=True)
    try:
        yield dialer, dialer.connect(lambda session, request: None)
    finally:
        dialer.close()


def asked(session: Session, topic: str, **facts: str) -> Reply:
    return ask_server(session, topic, facts, WAIT, CancelToken())


def test_a_probe_may_ask_for_nothing_else(session: tuple[Dialer, Session]) -> None:
    with pytest.raises(RequestRefused, match="a probe begins with probe"):
        asked(session[1], ECHO)
    asked(session[1], BEGIN)
    with pytest.raises(RequestRefused, match="only probes; it may not ask for 'push'"):
        asked(session[1], "push")


@pytest.mark.parametrize("nbytes", ["", "many", "9" * 30, "-5", "1e3"])
def test_a_size_that_is_no_number_is_refused(session: tuple[Dialer, Session], nbytes: str) -> None:
    asked(session[1], BEGIN)
    with pytest.raises(RequestRefused, match="such as 65536"):
        asked(session[1], UP, bytes=nbytes)


@pytest.mark.parametrize("window", ["", "many", "9" * 30, "-5", "1", "99999999999"])
def test_a_model_moves_whatever_window_it_should_begin_with(
    session: tuple[Dialer, Session], window: str
) -> None:
    dialer, line = session
    asked(line, BEGIN)
    reply = asked(line, DOWN, bytes="100000", initial_window_bytes=window)
    with Answer(dialer, line, DOWN, reply, KnownSpecs()) as answer:
        receipt = receive_model(answer.receive(), lambda model: Discard(model.spec, 100_000))
    assert receipt.stats.received_bytes == 100_000


def test_a_probe_that_sends_more_than_it_has_asked_for_is_stopped(
    session: tuple[Dialer, Session],
) -> None:
    dialer, line = session
    asked(line, BEGIN)
    answer = Answer(dialer, line, UP, asked(line, UP, bytes="10"), KnownSpecs())
    model = pattern_model(float_spec(1 << 20))
    with answer, pytest.raises(StreamAborted, match="has asked for 10"):
        send_model(answer.send(model.spec), model)


def test_encodings_of_the_server_do_not_shorten_what_is_measured() -> None:
    config = LinkConfig(stream=StreamConfig(encodings=("zstd",)))
    with Server(config=config) as server, ProbeLine(server.address, config) as line:
        line.move([("down", 100_000), ("up", 100_000)])
        assert server.wire_bytes[0] >= 100_000
        assert server.wire_bytes[1] >= 0


def test_a_client_that_is_no_probe_cannot_probe(server: Server) -> None:
    with ClientLink(server.address, name="site-1") as client:
        with pytest.raises(TopicNotServed, match="does not answer"):
            client.ask(BEGIN)


def test_nobody_there_is_an_error_at_once() -> None:
    with pytest.raises(ConnectFailed, match="no server answers"):
        ProbeLine("127.0.0.1:1").start()
