"""Connections that show nothing, to a server that has clients beside them; over real sockets."""

from __future__ import annotations

import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from streamlink.clock import RunningClock
from streamlink.config import LimitsConfig, LinkConfig
from streamlink.protocol.frames import Attempt
from streamlink.stores.memory import MemoryStore
from streamlink.transport.grpc.strangers import Strangers, address_of
from streamlink.transport.log import RateLimitedLog
from tests.support.models import float_spec, pattern_model
from tests.support.peers import WAIT, Federation, config, exchange_models, until

MOST = 16
SPEC = float_spec(5_001)


def limited(**timeouts: Any) -> LinkConfig:
    limits = LimitsConfig(max_unknown_connections=MOST)
    return config(**timeouts).model_copy(update={"limits": limits})


@pytest.fixture
def federation() -> Iterator[Federation]:
    with Federation(limited()) as federation:
        yield federation


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), WAIT)


def wait_cut(lines: list[socket.socket], count: int) -> list[socket.socket]:
    """Wait until the server has ended so many of the connections; returns those that stand."""
    with selectors.DefaultSelector() as selector:
        for line in lines:
            selector.register(line, selectors.EVENT_READ)
        while len(lines) - len(selector.get_map()) < count:
            events = selector.select(WAIT)
            assert events, f"{len(selector.get_map())} of {len(lines)} connections are left"
            for key, _ in events:
                if is_over(key.fileobj):  # type: ignore[arg-type]
                    selector.unregister(key.fileobj)
        return [key.fileobj for key in selector.get_map().values()]  # type: ignore[misc]


def is_over(line: socket.socket) -> bool:
    try:
        return not line.recv(4096)
    except ConnectionError:
        return True


def swap(federation: Federation, name: str) -> None:
    """Move a model to a client and back."""
    exchange = federation.peer(name).request("task", SPEC, attempt=Attempt("job", 0, 1))
    exchange_models(exchange, pattern_model(SPEC), MemoryStore())
    exchange.close()


def test_of_too_many_connections_that_show_nothing_some_are_cut(
    federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as stack:
        lines = [stack.enter_context(connected(federation.server.port)) for _ in range(MOST)]
        wait_cut(lines, MOST // 2)
        until(lambda: "connections that had not identified themselves" in caplog.text)
    assert "limits.max_unknown_connections" in caplog.text


def test_who_has_sent_something_is_cut_after_those_who_have_not(federation: Federation) -> None:
    with ExitStack() as stack:
        spoken = stack.enter_context(connected(federation.server.port))
        spoken.sendall(b"PRI * HTTP/2.0\r\n")  # it is the oldest, and on its way to a greeting
        lines = [stack.enter_context(connected(federation.server.port)) for _ in range(MOST)]
        assert spoken in wait_cut([spoken, *lines], MOST // 2)


def test_one_that_shows_nothing_for_too_long_is_cut() -> None:
    with Federation(limited(open_timeout=0.5)) as federation:
        with connected(federation.server.port) as line:
            wait_cut([line], 1)


def test_one_that_speaks_http2_and_opens_no_call_for_too_long_is_cut() -> None:
    with Federation(limited(open_timeout=0.5)) as federation:
        with connected(federation.server.port) as line:
            line.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
            wait_cut([line], 1)


def test_clients_are_never_cut_and_one_that_comes_finds_room(federation: Federation) -> None:
    here = federation.link("site-1")
    swap(federation, "site-1")
    with ExitStack() as stack:
        lines = [stack.enter_context(connected(federation.server.port)) for _ in range(MOST)]
        wait_cut(lines, MOST // 2)
        federation.link("site-2")
        for name in ("site-1", "site-2"):
            swap(federation, name)
    assert here.error is None


@contextmanager
def watching(
    listening: socket.socket, clock: Callable[[], float] = time.monotonic
) -> Iterator[Strangers]:
    """Yield what watches a port of which nobody closes what was cut."""
    running = RunningClock(clock)
    log = RateLimitedLog(logging.getLogger("streamlink.server"), clock=running)
    strangers = Strangers(most=MOST, seconds=WAIT, has_tls=False, log=log, clock=running)
    strangers.start(listening.getsockname()[1])
    try:
        yield strangers
    finally:
        strangers.close()


def test_what_was_cut_and_is_not_closed_yet_takes_nobodys_place() -> None:
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

        def come() -> tuple[socket.socket, socket.socket]:
            line = stack.enter_context(connected(listening.getsockname()[1]))
            return line, stack.enter_context(listening.accept()[0])

        lines = [come() for _ in range(MOST)]
        for line, end in lines:
            line.sendall(b"P")
            end.recv(1, socket.MSG_PEEK)  # it has arrived: whoever has sent nothing is cut before
        strangers = stack.enter_context(watching(listening))
        wait_cut([line for line, _ in lines], MOST // 2 + 1)
        newcomer, _ = come()
        strangers.look()
        newcomer.setblocking(False)
        with pytest.raises(BlockingIOError):
            newcomer.recv(1)


def test_who_is_let_in_while_a_look_lasts_is_not_cut() -> None:
    calls, is_watched = threading.local(), threading.Event()
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        lines = [stack.enter_context(connected(listening.getsockname()[1])) for _ in range(MOST)]

        def clock() -> float:
            calls.count = getattr(calls, "count", 0) + is_watched.is_set()
            if calls.count == 2:  # of this thread's first look, which has begun
                for line in lines:
                    host, port = line.getsockname()
                    strangers.vouch(f"ipv4:{host}:{port}")
            return time.monotonic()

        for _ in lines:
            stack.enter_context(listening.accept()[0])
        strangers = stack.enter_context(watching(listening, clock))
        is_watched.set()
        strangers.look()
        for line in lines:
            line.setblocking(False)
            with pytest.raises(BlockingIOError):
                line.recv(1)


def test_neither_a_handshake_nor_a_call_waits_for_a_look() -> None:
    looking, over = threading.Event(), threading.Event()
    waited = []

    def clock() -> float:
        if threading.current_thread().name == "strangers" and not over.is_set():
            looking.set()
            waited.append(over.wait(WAIT))
        return time.monotonic()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        with watching(listening, clock) as strangers:
            assert looking.wait(WAIT)
            strangers.announce()
            strangers.called("ipv4:127.0.0.1:1")
            strangers.vouch("ipv4:127.0.0.1:1")
            over.set()
    assert waited == [True]


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:127.0.0.1:4711", ("127.0.0.1", 4711)),
        ("ipv6:%5B::1%5D:4711", ("::1", 4711)),
        ("ipv6:[::ffff:10.0.0.7]:4711", ("10.0.0.7", 4711)),
        ("ipv6:%5Bfe80::1%252%5D:4711", ("fe80::1", 4711)),
        ("unix:/tmp/socket", None),
        ("unix:", None),
    ],
)
def test_a_peer_is_known_by_the_address_grpc_gives(
    peer: str, address: tuple[str, int] | None
) -> None:
    assert address_of(peer) == address
