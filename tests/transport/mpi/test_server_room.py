"""An MPI rank of a process that has no thread or memory left: a call is lost, and no place."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from streamlink.clock import running_time
from streamlink.link.receive_model import receive_model
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_model import send_model
from streamlink.link.send_transfer import SendTransfer
from streamlink.model.interfaces import ModelSink
from streamlink.protocol.frames import Attach
from streamlink.stores.memory import MemoryStore
from streamlink.transport.carriers import CallEnd, ClientCall
from streamlink.transport.mpi.switchboard import switchboard_of_this_process
from streamlink.transport.send_pump import SendPump
from streamlink.transport.session import Session
from streamlink.transport.wire import TransferWire
from tests.support.carrier_contract import SPEC, Line, Moving
from tests.support.models import content, pattern_model
from tests.support.mpi import mpi_line, require_mpi4py
from tests.support.peers import SMALL, WAIT, until
from tests.support.pumps import pump_of
from tests.support.scarce import ScarceBuffers, no_threads

STREAMS = 4


@pytest.fixture
def line() -> Iterator[Line]:
    require_mpi4py()
    limits = SMALL.limits.model_copy(update={"max_streams": STREAMS})
    line = mpi_line(SMALL.model_copy(update={"limits": limits}))
    yield line
    line.close()
    until(lambda: switchboard_of_this_process(running_time).calls == 0)


def offered(line: Line, far: Session) -> SendPump:
    """Have the hub wait for its client to fetch a model."""
    number = line.hub.new_stream_id()
    pump = pump_of(
        SendTransfer(
            far.config, SPEC, stream_id=number, peer_name="x", name="out", clock=running_time
        )
    )
    far.offer(pump)
    return pump


def call_for(pump: SendPump, near: Session) -> ClientCall:
    """Return a call that is to carry the client's end of a stream."""
    number = pump.stream.stream_id
    wanted = ReceiveTransfer(
        near.config, stream_id=number, peer_name="hub", name="in", clock=running_time
    )
    first = (Attach(near.session_id, number),)
    return ClientCall(pump_of(wanted), TransferWire(number), first=first)


def test_calls_without_a_thread_to_write_leave_their_places_to_others(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    dialer, near, far = line.joined()
    pumps = [offered(line, far) for _ in range(STREAMS)]
    with no_threads("mpi-write", beside="mpi-serve"), ThreadPoolExecutor(STREAMS) as pool:
        with caplog.at_level(logging.WARNING, "streamlink.server"):
            calls = [call_for(each, near) for each in pumps]
            ends = list(pool.map(dialer.carriers.data.carry, calls, timeout=WAIT))
    assert ends == [CallEnd.BROKEN] * STREAMS
    until(lambda: not any(each.calls for each in pumps))
    assert "cannot serve a call of rank 0: can't start new thread" in caplog.text
    moving = Moving(line, dialer, near, far)
    moving.start()
    assert moving.finish().stats.resumes == 0


class NothingLent:
    """A sink that lends nothing, so that payloads are read elsewhere first."""

    def __init__(self, sink: ModelSink) -> None:
        self.spec = sink.spec
        self.write, self.commit, self.discard = sink.write, sink.commit, sink.discard


@pytest.mark.parametrize(
    ("is_up", "said"),
    [(True, "cannot serve a call of rank 0: unable"), (False, "a call ends: unable")],
)
def test_a_payload_without_memory_costs_its_call_and_not_the_stream(
    line: Line, is_up: bool, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    dialer, near, far = line.joined()
    facts: dict[str, Any] = {"stream_id": line.hub.new_stream_id(), "clock": running_time}
    source, target = (near, far) if is_up else (far, near)
    outgoing = SendTransfer(source.config, SPEC, peer_name="to", name="out", **facts)
    incoming = ReceiveTransfer(target.config, peer_name="from", name="in", **facts)
    pump_of(incoming).buffers = scarce = ScarceBuffers()
    pumps = pump_of(outgoing), pump_of(incoming)
    near_pump, far_pump = pumps if is_up else reversed(pumps)
    far.offer(far_pump)
    line.hub.ticker.add(far_pump)
    dialer.open_transfer(near, near_pump)
    store = MemoryStore()
    with caplog.at_level(logging.WARNING), ThreadPoolExecutor(2) as pool:
        sent = pool.submit(send_model, outgoing, pattern_model(SPEC))
        pool.submit(receive_model, incoming, lambda _: NothingLent(store.begin(SPEC)))
        stats = sent.result(WAIT).stats
    assert content(store.open()) == content(pattern_model(SPEC))
    assert (stats.resumes, scarce.refused) == (1, 1)
    assert said in caplog.text
