"""A transfer whose connection is gone says so at both ends, and that it goes on."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import streamlink
from streamlink.errors import AbortCode, StreamAborted
from streamlink.link.receive_model import receive_model
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.transfer import WAITING
from streamlink.stores import MemoryStore
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import SMALL, WAIT, until
from tests.support.pumps import pump_of
from tests.support.relay import Relay, Step
from tests.support.virtual_clock import VirtualClock

SPEC = float_spec(200_001, 3, 0, 17_000)


class Phases:
    """What a progress bar would be told."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.waits = threading.Event()

    def __call__(self, peer: str, phase: str, done: int, total: int) -> None:
        if phase not in self.seen[-1:]:
            self.seen.append(phase)
        if phase == WAITING:
            self.waits.set()


def test_both_ends_say_that_they_wait_and_that_they_go_on() -> None:
    here, there, port = Phases(), Phases(), Future[int]()
    source, store = pattern_model(SPEC), MemoryStore()
    with ThreadPoolExecutor(2) as pool:
        received = pool.submit(
            streamlink.receive,
            store,
            config=SMALL,
            on_listening=port.set_result,
            timeout=WAIT,
            progress=there,
        )
        with Relay("127.0.0.1", port.result(WAIT)) as relay:
            relay.play([Step(action=Relay.refuse, after_bytes=300_000, direction="up")])
            relay.play([Step(action=Relay.reset, after_bytes=300_000, direction="up")])
            to = f"127.0.0.1:{relay.port}"
            sent = pool.submit(streamlink.send, source, to, config=SMALL, retry=0, progress=here)
            assert here.waits.wait(WAIT)
            assert there.waits.wait(WAIT)
            relay.allow()
            assert sent.result(WAIT).digest == received.result(WAIT).digest
    assert content(store.open()) == content(source)
    assert here.seen[:3] == ["sending", WAITING, "sending"]
    assert there.seen[:3] == ["receiving", WAITING, "receiving"]


def test_a_receiver_that_does_not_know_of_what_yet_tells_nobody_that_it_waits() -> None:
    clock, told = VirtualClock(), list[int]()
    model = ReceiveTransfer(SMALL, stream_id=7, peer_name="there", name="in", clock=clock)

    def receive() -> None:
        with suppress(StreamAborted):
            receive_model(
                model,
                lambda model: MemoryStore().begin(model.spec),
                on_phase=lambda phase, done: told.append(model.spec.nbytes),
            )

    receiving, pump = threading.Thread(target=receive), pump_of(model)
    receiving.start()
    until(lambda: pump.on_waiting is not None)
    pump.detach(pump.attach(lambda: None))
    clock.advance(1.5)
    pump.tick()
    assert pump.is_waiting
    assert told == []
    model.abort(AbortCode.CANCELLED, "the test is over")
    receiving.join(WAIT)
