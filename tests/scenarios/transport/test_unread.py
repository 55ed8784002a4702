"""Clients that say nothing, or do not read what they are told: their calls end, others get in."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from typing import Self

import grpc
import pytest

from streamlink.config import LimitsConfig
from streamlink.errors import StreamlinkError
from streamlink.protocol import frames as f
from streamlink.protocol import machine
from streamlink.transport import server_calls
from streamlink.transport.grpc.health import SERVICE as HEALTH
from streamlink.transport.wire import SessionWire, TransferWire
from tests.support.hostile import SERVICE
from tests.support.machines import a_hello
from tests.support.peers import WAIT, Federation, config, echo

CONFIG = config(open_timeout=60.0, grpc={"max_clients": 1}).model_copy(
    update={"limits": LimitsConfig(max_silent_calls=2)}
)
CALLS = 20
"""Twice as many as such a server lets in at once."""

# What a stream may be sent that nobody reads (bytes): gRPC's least.
UNREAD = [("grpc.http2.lookahead_bytes", 5), ("grpc.http2.bdp_probe", 0)]

TRANSFER = TransferWire(7)
SAID: dict[str, tuple[str, list[bytes]]] = {
    "a health check without a question": (f"/{HEALTH}/Check", []),
    "a health check": (f"/{HEALTH}/Check", [b""]),
    "a stream of no session": (f"/{SERVICE}/Transfer", [TRANSFER.encode(f.Attach("x", 7))]),
    "a session to go on with": (
        f"/{SERVICE}/Session",
        [SessionWire().encode(a_hello(name="x", resume="x"))],
    ),
}


@pytest.mark.parametrize("what", SAID)
def test_who_listens_to_nothing_keeps_nobody_out(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_calls, "ANSWER_SECONDS", 0.1)
    method, frames = SAID[what]
    with Federation(CONFIG) as federation, Deaf(federation.address) as deaf:
        for _ in range(CALLS):
            deaf.call(method, frames)
        wait_until_let_in(federation)


def test_visitors_that_read_nothing_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_COMMIT_SECONDS", 0.1)
    with Federation(CONFIG) as federation, Deaf(federation.address) as deaf:
        for number in range(CALLS // 2):
            name, wire, is_here = f"visitor {number}", SessionWire(), threading.Event()

            def visit(name: str, wire: SessionWire, is_here: threading.Event) -> Iterator[bytes]:
                yield wire.encode(a_hello(name=name))
                is_here.wait(WAIT)
                yield wire.encode(f.Goodbye("at once"))

            deaf.call(f"/{SERVICE}/Session", visit(name, wire, is_here))
            federation.peer(name)
            is_here.set()
            federation.wait_left(name)
        wait_until_let_in(federation)


class Deaf:
    """Opens calls, and reads nothing of what comes over them."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, options=UNREAD)
        self._is_over = threading.Event()
        self._calls: list[object] = []

    def call(self, method: str, frames: Iterable[bytes]) -> None:
        """Say ``frames``, and stay."""
        call = self._channel.stream_stream(method, None, None)
        self._calls.append(call(self._requests(frames)))  # gRPC cancels one that is forgotten

    def _requests(self, frames: Iterable[bytes]) -> Iterator[bytes]:
        yield from frames
        self._is_over.wait(WAIT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._channel.close()


def wait_until_let_in(federation: Federation) -> None:
    """Wait until there is a place for a client that keeps to the protocol."""
    until = time.monotonic() + WAIT
    while True:
        try:
            federation.link("good", echo)
        except StreamlinkError:
            assert time.monotonic() < until
        else:
            return
