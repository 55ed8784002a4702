"""A pump whose calls come and go: deadlines, its source, and the writers of two calls."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from typing import Any

import grpc
import numpy as np
import pytest

from streamlink.clock import running_time
from streamlink.errors import AbortCode, StreamAborted
from streamlink.protocol import frames as f
from streamlink.protocol.sender import SendStream
from streamlink.protocol.sender_acks import LAG_SECONDS
from streamlink.transport.carriers import CallEnd, ClientCall
from streamlink.transport.grpc.client import GrpcCarrier
from streamlink.transport.reconnect import Carriage
from streamlink.transport.send_pump import SendPump
from streamlink.transport.wire import TransferWire
from tests.support.peers import SMALL, WAIT
from tests.support.sleepers import Sleepers
from tests.support.virtual_clock import VirtualClock

DATA = bytes(range(256)) * 40


@pytest.fixture
def time() -> VirtualClock:
    return VirtualClock(100.0)


def sender(time: VirtualClock | None = None, total: int = len(DATA)) -> SendPump:
    machine = SendStream(SMALL, stream_id=7, total_bytes=total, peer_name="there", name="out")
    return SendPump(machine, clock=time or running_time)


PATIENCE = SMALL.timeouts.reconnect_timeout
ACCEPT = f.Accept(0, 8192, 4096)


def test_a_new_call_cuts_the_one_that_was_thought_alive(time: VirtualClock) -> None:
    cut = threading.Event()
    pump = sender(time)
    pump.attach(cut.set)
    pump.attach(lambda: None)
    assert cut.is_set()


def two_lanes(pump: SendPump, cuts: list[int]) -> tuple[int, int]:
    """Let two calls carry ``pump``, the first of which owes a chunk; returns their numbers."""
    lanes = (
        pump.attach(lambda: cuts.append(1)),
        pump.attach(lambda: cuts.append(2), is_lane=True),
    )
    for each in lanes:
        pump.incoming([ACCEPT], each)
    for call, at in ((lanes[1], 0), (lanes[0], 4096)):
        pump.write(at, (memoryview(DATA)[at : at + 4096],))
        pump.stream.frames_to_send(now=pump.clock(), channel=call)
    return lanes


def test_a_lane_that_owes_the_oldest_chunk_is_cut_alone(
    time: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    pump, cuts = sender(time), list[int]()
    _, second = two_lanes(pump, cuts)
    time.now += 0.1
    pump.incoming([f.Ack(4096, 0, 0, 8192)], second)
    time.now += LAG_SECONDS
    with caplog.at_level(logging.INFO, "streamlink.transport"):
        pump.tick()
    assert (cuts, pump.calls) == ([1], 1)
    assert "out with there: one of its connections lags" in caplog.text


def test_a_lane_more_does_not_forget_that_the_stream_has_moved(time: VirtualClock) -> None:
    pump = sender(time)
    _, second = two_lanes(pump, [])
    pump.incoming([f.Ack(4096, 0, 0, 8192)], second)
    pump.attach(lambda: None, is_lane=True)
    assert pump.has_moved


def test_a_stream_without_a_call_ends_after_the_reconnect_timeout(time: VirtualClock) -> None:
    pump = sender(time)
    pump.detach(pump.attach(lambda: None))
    time.now += PATIENCE - 0.05
    pump.tick()
    assert not pump.is_closed
    time.now += 0.1
    pump.tick()
    assert isinstance(pump.stream.error, StreamAborted)
    assert pump.stream.error.code is AbortCode.SESSION_LOST
    assert "not restored within 30 s" in str(pump.stream.error)
    assert "raise reconnect_timeout" in str(pump.stream.error)


def test_calls_that_move_nothing_do_not_start_the_clock_again(time: VirtualClock) -> None:
    pump = sender(time)
    pump.detach(pump.attach(lambda: None))
    for _ in range(4):
        time.now += PATIENCE / 4 + 0.1
        call = pump.attach(lambda: None)
        pump.incoming([ACCEPT], call)
        pump.detach(call)
    pump.tick()
    assert pump.is_lost
    assert isinstance(pump.stream.error, StreamAborted)


def test_a_call_that_moves_starts_the_clock_again(time: VirtualClock) -> None:
    pump = sender(time)
    call = pump.attach(lambda: None)
    for held in range(1, 5):
        pump.detach(call)
        time.now += PATIENCE - 0.1
        call = pump.attach(lambda: None)
        pump.incoming([ACCEPT, f.Held(held, "lockstep", "site-2")], call)
        assert pump.has_moved
    pump.tick()
    assert pump.stream.error is None


def test_time_on_a_call_that_works_is_not_time_without(time: VirtualClock) -> None:
    pump = sender(time)
    pump.detach(pump.attach(lambda: None))
    time.now += 1.0
    call = pump.attach(lambda: None)
    pump.incoming([ACCEPT], call)
    time.now += 10 * PATIENCE  # nothing to say, and nothing wrong
    pump.detach(call)
    lost = []
    for seconds in (PATIENCE - 2.0, 2.0):
        time.now += seconds
        lost.append(pump.is_lost)
    assert lost == [False, True]


def test_a_servers_stream_waits_until_the_client_must_have_seen_the_break(
    time: VirtualClock,
) -> None:
    pump = sender(time)
    pump.stream.extra_grace_seconds = 10.0
    pump.detach(pump.attach(lambda: None))
    lost = []
    for seconds in (PATIENCE + 10.0, 0.1):
        time.now += seconds
        lost.append(pump.is_lost)
    assert lost == [False, True]


def test_a_break_that_lasts_is_told_once_and_is_over_with_the_next_word(
    time: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    pump, told = sender(time), list[float]()
    pump.on_waiting = lambda: told.append(time.now)
    pump.tick()
    pump.detach(pump.attach(lambda: None))
    with caplog.at_level(logging.INFO):
        for _ in range(6):
            pump.tick()
            time.now += 0.5
    assert told == [101.5]
    assert caplog.messages == ["out waits for its connection"]
    waits = [pump.is_waiting]
    pump.incoming([ACCEPT], pump.attach(lambda: None))
    assert [*waits, pump.is_waiting] == [True, False]
    pump.detach(pump.attach(lambda: None))
    time.now += 1.5
    pump.tick()
    assert len(told) == 2


class NoCarrier:
    """Carries nothing: no call can be made."""

    def carry(self, call: ClientCall) -> CallEnd:
        return CallEnd.BROKEN

    def renew(self) -> None: ...

    def close(self) -> None: ...


def test_only_the_ticker_ends_what_has_no_call(time: VirtualClock) -> None:
    pump = sender(time)
    carriage = Carriage(pump, NoCarrier(), lambda: ClientCall(pump, TransferWire(7)))
    pump.detach(pump.attach(lambda: None))
    time.now += PATIENCE + 0.1  # after a pause, what came meanwhile is read before it looks
    assert not carriage.is_over
    pump.tick()
    assert carriage.is_over


def test_a_call_is_opened_on_the_connection_there_is_after_the_wait(time: VirtualClock) -> None:
    steps: list[str] = []

    def new_channel() -> grpc.Channel:
        steps.append("connection")
        return grpc.insecure_channel("localhost:1")

    carrier = GrpcCarrier("Transfer", new_channel)

    def wait() -> None:
        steps.append("wait")
        carrier.renew()
        carrier.close()

    pump = sender(time)
    carriage = Carriage(pump, carrier, lambda: ClientCall(pump, TransferWire(7)), before=wait)
    assert not carriage.run()  # it is closed by then
    assert steps == ["connection", "wait", "connection"]


class Source:
    """A supply of four bytes, for a stream that is aborted as soon as it is asked."""

    def __init__(self, pump: SendPump) -> None:
        self._pump = pump
        self._data = np.zeros(4, np.uint8)

    def __call__(self, offset: int, nbytes: int) -> f.Payload:
        self._pump.abort(AbortCode.CANCELLED, "not wanted")
        return (self._data.data,)

    def refs(self) -> list[weakref.ref[Any]]:
        return [weakref.ref(self), weakref.ref(self._data)]


def pulled(pump: SendPump, refs: list[weakref.ref[Any]]) -> None:
    """Let the writer of ``pump`` pull from a source that nobody else holds."""
    source = Source(pump)
    refs += source.refs()
    with pytest.raises(StreamAborted) as ended:
        pump.pull(source)
    ended.value.__traceback__ = None  # an error that is kept keeps the frames it went through


def test_a_pump_that_is_over_lets_go_of_its_source(time: VirtualClock) -> None:
    pump, refs = sender(time), list[weakref.ref[Any]]()
    pump.abort(AbortCode.CANCELLED, "not wanted")
    pulled(pump, refs)
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_what_a_source_gives_after_the_end_is_not_kept(time: VirtualClock) -> None:
    pump, refs = sender(time, total=4), list[weakref.ref[Any]]()
    call = pump.attach(lambda: None)
    pump.incoming([ACCEPT], call)
    owner = threading.Thread(target=pulled, args=(pump, refs))
    owner.start()
    list(pump.outgoing(call))
    owner.join(WAIT)
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_what_is_finished_while_the_call_is_lost_is_kept_for_the_next(time: VirtualClock) -> None:
    pump = sender(time, total=4)
    call = pump.attach(lambda: None)
    pump.incoming([ACCEPT], call)
    assert pump.write(0, (memoryview(b"data"),))
    pump.detach(call)
    pump.finish("digest")
    call = pump.attach(lambda: None)
    pump.incoming([ACCEPT], call)
    frames = pump.stream.frames_to_send(now=time.now, channel=call)
    assert f.Finish(4, "digest") in frames


def test_who_waits_for_the_end_is_woken_by_it() -> None:
    pump = sender()
    assert not pump.wait_closed(0.0)
    threading.Timer(0.05, pump.abort, (AbortCode.CANCELLED, "enough")).start()
    assert pump.wait_closed(WAIT)


def test_a_stream_the_peer_has_ended_needs_no_other_call(time: VirtualClock) -> None:
    pump = sender(time)
    pump.incoming([f.Abort(AbortCode.REFUSED, "no")], pump.attach(lambda: None))
    assert pump.is_settled


def test_a_stream_we_have_ended_has_to_be_told(time: VirtualClock) -> None:
    pump = sender(time)
    call = pump.attach(lambda: None)
    pump.detach(call)
    pump.abort(AbortCode.STORE_FAILED, "the disk is full")
    assert not pump.is_settled
    assert list(pump.outgoing(pump.attach(lambda: None))) == [
        f.Abort(AbortCode.STORE_FAILED, "the disk is full")
    ]


def test_the_writer_of_a_new_call_waits_for_what_the_old_one_is_drawing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sleepers = Sleepers(monkeypatch)
    pump = sender()
    inside, goes_on, goes_well = (threading.Event() for _ in range(3))
    asked: list[int] = []

    def supply(offset: int, nbytes: int) -> f.Payload:
        asked.append(offset)
        if len(asked) == 1:
            inside.set()
            goes_on.wait(WAIT)
        if len(asked) == 3:
            goes_well.set()
        return (memoryview(DATA)[offset : offset + nbytes],)

    def write(call: int, sent: list[f.Frame], name: str) -> threading.Thread:
        def carry() -> None:
            sent.extend(pump.outgoing(call))

        thread = threading.Thread(target=carry, name=name, daemon=True)
        thread.start()
        pump.incoming([f.Accept(0, len(DATA), 4096)], call)
        return thread

    def draw() -> None:
        with pytest.raises(StreamAborted):
            pump.pull(supply)

    threading.Thread(target=draw, daemon=True).start()
    first: list[f.Frame] = []
    old = write(pump.attach(lambda: None), first, "old")
    assert inside.wait(WAIT)
    second: list[f.Frame] = []
    new = write(pump.attach(lambda: None), second, "new")
    sleepers.wait("new")
    assert asked == [0]
    goes_on.set()
    assert goes_well.wait(WAIT)
    pump.abort(AbortCode.CANCELLED, "the test is over")
    for thread in (old, new):
        thread.join(WAIT)
    assert asked == sorted(set(asked))
    offsets = [frame.offset for frame in second if isinstance(frame, f.Chunk)]
    assert offsets == asked[: len(offsets)]


def test_an_owner_sleeps_while_its_source_is_drawn_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sleepers = Sleepers(monkeypatch)
    pump = sender()

    def own() -> None:
        pump.pull(lambda offset, nbytes: (memoryview(DATA)[offset : offset + 1024],))

    owner = threading.Thread(target=own, name="owner", daemon=True)
    owner.start()
    sleepers.wait("owner")
    call = pump.attach(lambda: None)
    pump.incoming([f.Accept(0, len(DATA), 4096)], call)
    sleepers.wait("owner", 2)  # it has heard of the accept; until all is drawn nothing is news
    sleepers.woken.clear()
    for frame in pump.outgoing(call):
        if isinstance(frame, f.Chunk):
            if frame.end == len(DATA):
                break
            assert sleepers.woken == []
            pump.incoming([f.Ack(frame.end, frame.end, 0, len(DATA))], call)
    owner.join(WAIT)
    assert not owner.is_alive()
