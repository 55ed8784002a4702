"""A stream whose call has no thread to write: its owner pulls, and pushes what it has pulled."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from streamlink.clock import running_time
from streamlink.protocol import frames as f
from streamlink.protocol.sender import SendStream
from streamlink.transport.send_pump import SendPump
from tests.support.peers import SMALL, WAIT, until

DATA = bytes(range(256)) * 40
ACCEPT = f.Accept(0, 8192, 4096)


class Call:
    """Writes for one call when it is pushed; counts how often it is woken."""

    def __init__(self, pump: SendPump) -> None:
        self.number = pump.attach(lambda: None)
        self.sent: list[f.Frame] = []
        self.pushers: set[int] = set()
        self.woken = 0
        self._pump = pump
        pump.wake_writer(self.number, self._wake, self._push)

    def _wake(self) -> None:
        self.woken += 1

    def _push(self) -> None:
        self.pushers.add(threading.get_ident())
        self.take()

    def take(self) -> None:
        while frames := self._pump.due(self.number):
            self.sent += frames

    @property
    def payload(self) -> bytes:
        chunks = [each for each in self.sent if isinstance(each, f.Chunk)]
        return b"".join(bytes(view) for each in chunks for view in each.payload)


class Owner:
    """A stream, and its owner, who pulls in a thread of its own."""

    def __init__(self, total: int = len(DATA)) -> None:
        machine = SendStream(SMALL, stream_id=7, total_bytes=total, peer_name="there", name="out")
        self.pump = SendPump(machine, clock=running_time)
        self.pool = ThreadPoolExecutor(1)
        self.thread = self.pool.submit(threading.get_ident).result(WAIT)
        self.gate, self.asked = threading.Event(), threading.Event()
        self.gate.set()

    def supply(self, offset: int, nbytes: int) -> tuple[memoryview, ...]:
        self.asked.set()
        assert self.gate.wait(WAIT)
        return (memoryview(DATA)[offset : offset + nbytes],)

    def pulls(self) -> Future[None]:
        return self.pool.submit(self.pump.pull, self.supply)


def test_the_owner_pulls_and_pushes_and_nobody_is_woken_for_that() -> None:
    owner = Owner(8192)
    call = Call(owner.pump)
    owner.pump.incoming([ACCEPT], call.number)
    call.take()
    woken = call.woken
    owner.pulls().result(WAIT)
    assert call.payload == DATA[:8192]
    assert (call.pushers, call.woken) == ({owner.thread}, woken)


def test_the_owner_goes_on_when_the_receiver_has_room_again() -> None:
    owner = Owner()
    call = Call(owner.pump)
    pulled = owner.pulls()
    owner.pump.incoming([ACCEPT], call.number)
    until(lambda: len(call.payload) == 8192)
    assert not pulled.done()
    owner.pump.incoming([f.Ack(8192, 8192, 0, len(DATA))], call.number)
    pulled.result(WAIT)
    assert call.payload == DATA


def test_a_source_that_waits_does_not_keep_other_frames_back() -> None:
    owner = Owner()
    owner.gate.clear()
    call = Call(owner.pump)
    pulled = owner.pulls()
    owner.pump.incoming([ACCEPT], call.number)
    assert owner.asked.wait(WAIT)
    woken = call.woken
    owner.pump.hold("busy", "the round before")
    assert call.woken > woken
    call.take()
    assert any(isinstance(each, f.Held) for each in call.sent)
    owner.gate.set()
    until(lambda: len(call.payload) == 8192)
    owner.pump.incoming([f.Ack(8192, 8192, 0, len(DATA))], call.number)
    pulled.result(WAIT)


def test_the_call_that_takes_over_is_pushed_from_where_it_resumes() -> None:
    owner = Owner()
    first = Call(owner.pump)
    pulled = owner.pulls()
    owner.pump.incoming([ACCEPT], first.number)
    until(lambda: len(first.payload) == 8192)
    second = Call(owner.pump)
    owner.pump.incoming([f.Accept(4096, len(DATA), 4096)], second.number)
    until(lambda: len(second.payload) >= len(DATA) - 4096)
    pulled.result(WAIT)
    assert second.payload == DATA[4096:]


def test_what_was_pulled_for_a_call_that_was_lost_wakes_the_one_that_took_over() -> None:
    owner = Owner(4096)
    owner.gate.clear()
    first = Call(owner.pump)
    pulled = owner.pulls()
    owner.pump.incoming([ACCEPT], first.number)
    assert owner.asked.wait(WAIT)
    second = Call(owner.pump)
    owner.pump.incoming([ACCEPT], second.number)
    second.take()
    woken = second.woken
    owner.gate.set()
    pulled.result(WAIT)
    assert second.woken > woken
    second.take()
    assert second.payload == DATA[:4096]


def test_what_a_source_raises_is_raised_here_and_its_abort_is_pushed() -> None:
    owner = Owner()
    call = Call(owner.pump)
    owner.pump.incoming([ACCEPT], call.number)

    def broken(offset: int, nbytes: int) -> tuple[memoryview, ...]:
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        owner.pool.submit(owner.pump.pull, broken).result(WAIT)
    assert any(isinstance(each, f.Abort) for each in call.sent)
