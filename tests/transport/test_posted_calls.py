"""Session calls that keep no thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

from streamlink.clock import running_time
from streamlink.config import LinkConfig
from streamlink.protocol import frames as f
from streamlink.protocol.session import SessionMachine
from streamlink.transport.posted_calls import PostedCall, carry_posted
from streamlink.transport.pump import Pump
from streamlink.transport.wire import SessionWire
from streamlink.transport.workers import Workers
from tests.support.machines import a_hello
from tests.support.peers import WAIT, until


class Call:
    """A call that notes what is sent on it, or fails to."""

    carrier, remote = "made up", "nowhere"

    def __init__(self, *, fails: bool = False) -> None:
        self.raws: Iterator[bytes] = iter(())
        self.workers = self.writers = Workers(4, "calls", running_time)
        self.sent, self.fails = list[bytes](), fails
        self.is_cut, self.has_ended = threading.Event(), threading.Event()
        self.why = ""
        self.takes = list[Callable[[bytes], None]]()
        self._then: Callable[[], None] = lambda: None

    def on_over(self, then: Callable[[], None]) -> bool:
        self._then = then
        return True

    def on_message(self, take: Callable[[bytes], None]) -> None:
        self.takes.append(take)

    def send(self, raw: bytes) -> None:
        if self.fails:
            raise OSError("no memory for it")
        self.sent.append(raw)

    def cut(self) -> None:
        self.is_cut.set()
        self._then()

    def break_off(self, why: str) -> None:
        self.why = why

    def end(self) -> None:
        self.has_ended.set()


def carried(call: Call) -> tuple[Pump[SessionMachine], Callable[[], None]]:
    pump = Pump(SessionMachine(LinkConfig(), peer_name="a client"), clock=running_time)
    hello = a_hello(name="site-1")
    let_in = carry_posted(cast("PostedCall", call), pump, SessionWire(received=1), hello)
    return pump, let_in


def welcome(pump: Pump[Any]) -> None:
    with pump.locked() as (machine, now):
        machine.welcome("id", "epoch", now=now)


def test_a_message_is_taken_once_the_client_was_let_in() -> None:
    call = Call()
    pump, let_in = carried(call)
    assert not call.takes
    let_in()
    welcome(pump)
    until(lambda: len(call.sent) == 1)
    [take] = call.takes
    take(SessionWire(sent=1).encode(f.Goodbye("that was all")))
    assert call.has_ended.wait(WAIT)
    assert call.why == "", "it ended in order"


def test_a_message_that_cannot_be_sent_costs_the_call() -> None:
    call = Call(fails=True)
    pump, let_in = carried(call)
    let_in()
    welcome(pump)
    assert call.is_cut.wait(WAIT), "what was to be sent is lost, and nobody would hear of it"
    assert pump.calls == 0


def test_a_damaged_message_costs_the_call_in_a_moment() -> None:
    call = Call()
    pump, let_in = carried(call)
    let_in()
    welcome(pump)
    until(lambda: len(call.sent) == 1)
    [take] = call.takes
    take(b"\xff" * 40)
    assert call.is_cut.wait(WAIT)
    assert call.has_ended.wait(WAIT)
    assert call.why, "the client is to open another"
