"""The server's end: who is here, what they are asked, and what is let go."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

from benchmarks.relay import Relay
from streamlink.errors import (
    AbortCode,
    JobAborted,
    QuorumNotReached,
    StreamAborted,
    StreamlinkError,
)
from streamlink.link.assignment import Assignment
from streamlink.link.peer import Peer
from streamlink.link.server import Server
from streamlink.protocol.frames import Attempt
from tests.support.models import float_spec
from tests.support.peers import WAIT, Federation, config, until

SPEC = float_spec(10)


def test_peers_are_listed_by_name(federation: Federation) -> None:
    for name in ("zoe", "adam", "mia"):
        federation.link(name)
        federation.peer(name)
    assert [peer.name for peer in federation.server.peers()] == ["adam", "mia", "zoe"]
    assert [peer.name for peer in federation.server.wait_for_peers(2, WAIT)] == [
        "adam",
        "mia",
        "zoe",
    ]


def test_a_peer_that_comes_later_is_waited_for(federation: Federation) -> None:
    found: Future[Peer | None] = Future()
    waiting = threading.Thread(
        target=lambda: found.set_result(federation.server.wait_for_peer("site-1", WAIT))
    )
    waiting.start()
    federation.link("site-1")
    peer = found.result(WAIT)
    assert peer is not None
    assert peer.is_here


def test_a_peer_that_does_not_come_is_none(federation: Federation) -> None:
    assert federation.server.wait_for_peer("site-1", 0.05) is None


def test_a_request_that_was_ended_counts_nothing_of_it(federation: Federation) -> None:
    begun: Future[Assignment] = Future()
    federation.link("site-1", begun.set_result)
    exchange = federation.peer("site-1").request("train", SPEC, attempt=Attempt("job", 1, 1))
    assignment = begun.result(WAIT)
    exchange.end(AbortCode.STALE_ATTEMPT, "the attempt is over")
    assignment.reply()  # too late, and harmless
    assert exchange.failure is None
    for model in (exchange.outgoing, exchange.incoming):
        assert isinstance(model.error, StreamAborted)
        assert model.error.code is AbortCode.STALE_ATTEMPT
    assert federation.peer("site-1").is_here


def test_an_answer_not_there_yet_is_none(federation: Federation) -> None:
    may_end = threading.Event()

    def work(assignment: Assignment) -> None:
        may_end.wait(WAIT)

    federation.link("site-1", work)
    exchange = federation.peer("site-1").request("train", SPEC, attempt=Attempt())
    assert exchange.wait_reply(0.05) is None
    assert exchange.failure is None
    may_end.set()


def test_a_server_that_fails_says_so_to_its_clients() -> None:
    with Federation() as federation:
        link = federation.link("site-1")
        federation.peer("site-1")
        federation.server.__exit__(ValueError, ValueError("disk on fire"), None)
        assert link.wait(WAIT)
        assert "the server failed" in str(link.error)
        assert "disk on fire" in str(link.error)


def test_what_one_site_raised_is_not_told_to_the_others() -> None:
    failures = {"site-2": ValueError("patient 4711 has no scan")}
    failure = QuorumNotReached("round 0: 1 of 2 clients left (min_clients)", failures)
    told_by_a_command = StreamlinkError(str(failure))
    told_by_a_command.__cause__ = failure
    for error in (failure, told_by_a_command):
        with Federation() as federation:
            link = federation.link("site-1")
            federation.peer("site-1")
            federation.server.__exit__(type(error), error, None)
            assert link.wait(WAIT)
            assert "the server failed: round 0: 1 of 2 clients left" in str(link.error)
            assert "4711" not in str(link.error)


def test_an_operators_abort_and_an_interrupt_are_no_failure_of_the_server() -> None:
    told_by_a_command = StreamlinkError("aborted")
    told_by_a_command.__cause__ = JobAborted("wrong data")
    for error, said in (
        (JobAborted("wrong data"), "aborted by the operator: wrong data; the last whole model"),
        (told_by_a_command, "aborted by the operator: wrong data; the last whole model"),
        (KeyboardInterrupt(), "the server was stopped"),
    ):
        with Federation() as federation:
            link = federation.link("site-1")
            federation.peer("site-1")
            federation.server.__exit__(type(error), error, None)
            assert link.wait(WAIT)
            assert said in str(link.error)
            assert "failed" not in str(link.error)


def test_who_is_barred_is_not_waited_for(federation: Federation) -> None:
    federation.link("site-2")
    federation.server.bar("site-1", "no")
    (peer,) = federation.server.wait_for_peers(1, 600.0, named=("site-1", "site-2"))
    assert peer.name == "site-2"


def test_a_token_ends_a_close_that_waits_for_who_is_away() -> None:
    with Federation(config(reconnect_timeout=600.0)) as federation, ThreadPoolExecutor(1) as pool:
        with Relay("127.0.0.1", federation.server.port) as relay:
            federation.address = f"127.0.0.1:{relay.port}"
            federation.link("site-1")
            peer = federation.peer("site-1")
            relay.refuse()
            relay.reset()
            until(lambda: peer.is_disconnected)
            closing = pool.submit(federation.server.close)
            federation.server.cancel.cancel("enough")
            closing.result(WAIT)


def test_a_server_of_its_own_settings_takes_a_free_port() -> None:
    with Server() as one, Server() as two:
        assert one.port != two.port
        assert one.wire_bytes == (0, 0)
