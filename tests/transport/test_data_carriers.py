"""Streams begin over the usual carrier, and change over when the preferred one is proven."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from streamlink.clock import running_time
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.transport.carriers import CallEnd, ClientCall
from streamlink.transport.data_carriers import PreferredCarrier
from streamlink.transport.proving import ProvenCarrier
from streamlink.transport.wire import TransferWire
from tests.support.peers import SMALL, WAIT, until
from tests.support.pumps import pump_of
from tests.support.virtual_clock import VirtualClock


class Held:
    """A carrier whose calls stand until they are cut, and whose proofs wait to be answered."""

    where = "the held port"

    def __init__(self, answers: tuple[str, ...] = ()) -> None:
        self.attached, self.calls, self.tries = threading.Semaphore(0), 0, 0
        self.asked, self.may_answer = threading.Event(), threading.Event()
        self._answers = list(answers)
        self._is_over = threading.Event()

    def carry(self, call: ClientCall) -> CallEnd:
        self.calls += 1
        number = call.attach(self._is_over.set)
        self.attached.release()
        self._is_over.wait(WAIT)
        self._is_over.clear()
        call.pump.detach(number)
        return CallEnd.BROKEN

    def prove(self, seconds: float) -> str:
        self.tries += 1
        self.asked.set()
        self.may_answer.wait(WAIT)
        return self._answers.pop(0) if self._answers else ""

    def renew(self) -> None:
        self._is_over.set()

    def close(self) -> None:
        self._is_over.set()
        self.may_answer.set()


class Endless(Held):
    """A carrier whose proof does not end with it."""

    def close(self) -> None:
        pass


def call_of_a_stream() -> ClientCall:
    """Return a call that carries a stream of which nothing is known yet."""
    model = ReceiveTransfer(SMALL, stream_id=1, peer_name="hub", name="model", clock=running_time)
    return ClientCall(pump_of(model), TransferWire(1))


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def test_a_stream_begins_at_once_and_changes_over_when_the_port_is_proven(
    pool: ThreadPoolExecutor,
) -> None:
    usual, better, call = Held(), Held(), call_of_a_stream()
    carrier = PreferredCarrier(usual, clock=running_time, hold_seconds=0.0)
    carrier.prefer(better)
    first = pool.submit(carrier.carry, call)
    assert usual.attached.acquire(timeout=WAIT)
    better.may_answer.set()
    assert first.result(WAIT) is CallEnd.BROKEN
    second = pool.submit(carrier.carry, call)
    assert better.attached.acquire(timeout=WAIT)
    assert (usual.calls, better.calls) == (1, 1)
    carrier.close()
    second.result(WAIT)


def test_a_stream_waits_for_a_try_that_is_under_way(pool: ThreadPoolExecutor) -> None:
    usual, better = Held(), Held()
    carrier = PreferredCarrier(usual, clock=running_time, hold_seconds=WAIT)
    carrier.prefer(better)
    carrying = pool.submit(carrier.carry, call_of_a_stream())
    assert better.asked.wait(WAIT)
    better.may_answer.set()
    assert better.attached.acquire(timeout=WAIT)
    assert usual.calls == 0
    carrier.close()
    carrying.result(WAIT)


def test_a_stream_does_not_wait_for_a_try_of_a_carrier_that_was_closed(
    pool: ThreadPoolExecutor,
) -> None:
    better = Endless()
    carrier = ProvenCarrier(better, clock=running_time, on_proven=lambda: None)
    assert better.asked.wait(WAIT)
    before, after = pool.submit(carrier.is_ready, 9 * WAIT), pool.submit(carrier.close)
    after.result(WAIT)
    assert not before.result(WAIT)
    assert not pool.submit(carrier.is_ready, 9 * WAIT).result(WAIT)
    better.may_answer.set()


def test_a_blocked_port_is_tried_again_at_once_and_after_1_5_and_15_minutes() -> None:
    clock, port = VirtualClock(), Held(("blocked",) * 5)
    port.may_answer.set()
    began = clock()
    with clock.running():
        carrier = PreferredCarrier(Held(), clock=clock)
        carrier.prefer(port)
        done = clock.condition()
        with done:
            done.wait_for(lambda: port.tries >= 6, 1 + 60 + 300 + 900 + 900 + 1)
        carrier.close()
    assert port.tries == 6
    assert clock() - began >= 1 + 60 + 300 + 900 + 900


def test_a_try_that_goes_wrong_is_one_that_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Held):
        def prove(self, seconds: float) -> str:
            super().prove(seconds)
            if self.tries <= 2:  # the second failure is what is named
                raise UnicodeError("label empty or too long")
            return ""

    carrier = Broken()
    carrier.may_answer.set()
    with VirtualClock().running() as clock, caplog.at_level(logging.WARNING, "streamlink.client"):
        proven = ProvenCarrier(carrier, clock=clock, on_proven=lambda: None)
        clock.wait(clock.event(), 65.0)
        assert proven.is_ready(0.0)
        proven.close()
    (said,) = [each.message for each in caplog.records if "cannot be used" in each.message]
    assert "UnicodeError: label empty" in said


def test_a_port_that_opens_later_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    clock, port = VirtualClock(), Held(("blocked",) * 3)
    port.may_answer.set()
    with caplog.at_level(logging.INFO, "streamlink.client"), clock.running():
        carrier = PreferredCarrier(Held(), clock=clock)
        carrier.prefer(port)
        done = clock.condition()
        with done:
            done.wait_for(lambda: port.tries >= 4, 1000.0)
        carrier.close()
    said = [each.message.partition(":")[0] for each in caplog.records]
    assert said == [
        "the held port cannot be used from here",
        "the held port can be reached now; streams use it",
    ]


def test_after_a_break_the_port_is_proven_again_when_a_stream_asks(
    pool: ThreadPoolExecutor,
) -> None:
    usual, better, call = Held(), Held(), call_of_a_stream()
    better.may_answer.set()
    carrier = PreferredCarrier(usual, clock=running_time, hold_seconds=WAIT)
    carrier.prefer(better)
    first = pool.submit(carrier.carry, call)
    assert better.attached.acquire(timeout=WAIT)
    better.renew()
    assert first.result(WAIT) is CallEnd.BROKEN
    assert better.tries == 1
    second = pool.submit(carrier.carry, call)
    assert better.attached.acquire(timeout=WAIT)
    assert (usual.calls, better.calls, better.tries) == (0, 2, 2)
    carrier.close()
    second.result(WAIT)


def test_a_carrier_that_is_replaced_or_closed_leaves_no_thread() -> None:
    before = threading.active_count()
    carrier = PreferredCarrier(Held(), clock=running_time)
    for _ in range(3):
        carrier.prefer(Held())
    carrier.close()
    carrier.prefer(Held())
    until(lambda: threading.active_count() <= before)  # of tests before, some may end late
