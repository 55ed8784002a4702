"""Who is let in, on what terms, and what those who are not are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from streamlink.clock import running_time
from streamlink.errors import (
    AbortCode,
    AddressInUse,
    ConnectFailed,
    StreamAborted,
)
from streamlink.link.server import Server
from streamlink.protocol import frames as f
from streamlink.transport.connect import dial, hub_at
from streamlink.transport.grpc.server import GrpcListener
from streamlink.transport.hub import Hub
from streamlink.transport.session import Session
from tests.support.hostile import HostileClient
from tests.support.machines import a_hello
from tests.support.peers import SMALL, Federation, config


def agreed_chunk(ours: Any, theirs: Any) -> int:
    """Return the chunk size a server of config ``ours`` and a client of ``theirs`` agree on."""
    server = hub_at("127.0.0.1:0", ours, clock=running_time).listen()
    client = dial(f"127.0.0.1:{server.port}", theirs, name="site", clock=running_time)
    try:
        session = client.connect(lambda session, request: None)
        (seen,) = server.sessions
        assert seen.config.stream.chunk_bytes == session.config.stream.chunk_bytes
        return session.config.stream.chunk_bytes
    finally:
        server.close()
        client.close()


@pytest.mark.parametrize(("ours", "theirs"), [(4096, 9000), (9000, 4096), (8192, 8192)])
def test_unequal_chunk_sizes_meet_at_the_smaller(ours: int, theirs: int) -> None:
    sides = [config(stream={"chunk_bytes": size}) for size in (ours, theirs)]
    assert agreed_chunk(*sides) == min(ours, theirs)


@pytest.mark.parametrize("is_server_small", [True, False])
def test_the_smaller_message_limit_shrinks_the_chunk(is_server_small: bool) -> None:
    stream = {"chunk_bytes": "64KiB", "window_bytes": "256KiB"}
    small = config(stream=stream, grpc={"max_message_bytes": "20KiB"})
    large = config(stream=stream)
    sides = (small, large) if is_server_small else (large, small)
    assert agreed_chunk(*sides) == 19 * 1024


@pytest.fixture
def federation() -> Iterator[Federation]:
    with Federation(config(grpc={"max_clients": 2})) as federation:
        yield federation


def refusal(join: Callable[[], Any]) -> StreamAborted:
    """Return what a client is told that is not let in."""
    with pytest.raises(StreamAborted) as refused:
        join()
    assert refused.value.by_peer
    return refused.value


def test_a_second_client_of_a_name_is_refused_in_words(federation: Federation) -> None:
    federation.link("site-1")
    hasty = config(connect_timeout=1.0, session_timeout=0.4, heartbeat_interval=0.2)
    told = refusal(lambda: federation.link("site-1", config=hasty))
    assert told.code is AbortCode.NAME_TAKEN
    assert "either another process runs as 'site-1'" in told.reason
    assert "still waits for the process before this one" in told.reason
    assert "a client named 'site-1' is already connected; names must be unique" in told.reason
    assert [peer.name for peer in federation.server.peers()] == ["site-1"]


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 129, "bell\x07"])
def test_a_name_that_is_none_is_refused_in_words(federation: Federation, name: str) -> None:
    told = refusal(lambda: federation.link(name))
    assert told.code is AbortCode.REFUSED
    assert "is not a valid name: use 1 to 128 printable characters" in told.reason


def test_a_full_server_says_so_and_serves_on(federation: Federation) -> None:
    federation.link("site-1")
    federation.link("site-2")
    told = refusal(lambda: federation.link("site-3"))
    assert "the server is full: 2 of max_clients=2 sessions are taken" in told.reason
    assert all(federation.peer(name).is_here for name in ("site-1", "site-2"))


def test_a_place_that_becomes_free_is_given_again(federation: Federation) -> None:
    federation.link("site-1")
    leaving = federation.link("site-2")
    federation.peer("site-2")
    leaving.close()
    federation.wait_left("site-2")
    federation.link("site-3")
    assert federation.peer("site-3").is_here


def answer_to(federation: Federation, frame: f.SessionFrame) -> f.Abort:
    """Return what a client is told that begins with ``frame``, and is not let in."""
    with HostileClient(federation.address) as client:
        told = client.session().say(frame).abort_heard()
    assert told is not None
    return told


def test_a_client_without_a_common_version_is_told_both(federation: Federation) -> None:
    told = answer_to(federation, a_hello(version_min=7, version_max=9))
    assert told.code is AbortCode.VERSION
    assert "site-1 speaks versions 7 to 9, this server 1 to 1; upgrade the older" in told.reason


@pytest.mark.parametrize("changes", [{"chunk_bytes": 1000}, {"max_message_bytes": 2000}])
def test_sizes_too_small_to_agree_on_are_refused_in_words(
    federation: Federation, changes: dict[str, int]
) -> None:
    told = answer_to(federation, a_hello(**changes))
    assert "the smallest chunk that can be agreed on is 1024 bytes" in told.reason


def test_a_client_that_never_says_hello_takes_no_place(federation: Federation) -> None:
    told = answer_to(federation, f.Heartbeat(1))
    assert "sent heartbeat while session is in state AWAITING_HELLO" in told.reason
    assert federation.server.peers() == []


def test_nobody_there_is_named_within_the_connect_timeout() -> None:
    with Federation() as federation:
        port = federation.server.port
    with pytest.raises(ConnectFailed, match=f"no server answers at 127.0.0.1:{port} within 0.5 s"):
        dial(
            f"127.0.0.1:{port}", config(connect_timeout=0.5), name="site", clock=running_time
        ).connect(_ignore)


def test_a_port_that_is_taken_is_named() -> None:
    with Federation() as federation:
        with pytest.raises(AddressInUse, match=f"cannot listen on {federation.address}"):
            Server(federation.address).listen()


def test_a_hello_between_the_goodbyes_and_the_end_is_refused() -> None:
    told = []

    class Late(GrpcListener):
        def stop(self) -> None:
            told.append(refusal(lambda: client.connect(_ignore)))
            super().stop()

    server = Hub(SMALL, [partial(Late, "127.0.0.1:0")], clock=running_time).listen()
    client = dial(f"127.0.0.1:{server.port}", SMALL, name="late", clock=running_time)
    server.close()
    client.close()
    assert "the server is closing" in told[0].reason
    assert server.sessions == []


def test_every_admitted_client_gets_a_session_of_its_own() -> None:
    seen: list[Session] = []
    server = hub_at("127.0.0.1:0", SMALL, on_session=seen.append, clock=running_time).listen()
    clients = [
        dial(f"127.0.0.1:{server.port}", SMALL, name=f"s{n}", clock=running_time) for n in range(3)
    ]
    for client in clients:
        client.connect(_ignore)
    server.close()
    for client in clients:
        client.close()
    assert len({session.session_id for session in seen}) == 3


def _ignore(session: Session, request: f.Request) -> None:
    pass
