"""Only idleness expires a clock, and what expired says who, where and which setting to change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamlink.clock import Clock
from streamlink.errors import (
    AbortCode,
    AckTimeout,
    CommunicationTimeout,
    ReadTimeout,
    StreamAborted,
    StreamTimeout,
)
from streamlink.model.computed import GeneratedModel
from streamlink.model.interfaces import Payload, Progress
from streamlink.protocol import frames as f
from streamlink.stores.memory import MemoryStore
from tests.support.joined_pumps import Transfer, failure
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import config
from tests.support.virtual_clock import VirtualClock

SPEC = float_spec(30_000)
LIMIT = 5.0
"""Seconds of standing still."""

PACE = 1.5
"""Seconds between two moves of something slow; a third of its limit."""


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    with (clock := VirtualClock()).running():
        yield clock


class Stuck:
    """A sink that stops at a byte until it is let go."""

    def __init__(self, at: int, clock: Clock) -> None:
        self.spec = SPEC
        self.stopped, self.goes_on = clock.event(), clock.event()
        self._at = at

    def write(self, offset: int, payload: memoryview) -> None:
        if offset + payload.nbytes > self._at:
            self.stopped.set()
            self.goes_on.wait()

    def commit(self, progress: Progress | None = None) -> None: ...

    def discard(self) -> None: ...


class Slow:
    """A sink that takes ``PACE`` for each of its first writes and each step of its commit."""

    def __init__(self, clock: Clock, *, writes: int = 0, steps: int = 0) -> None:
        self._sink = MemoryStore().begin(SPEC)
        self.spec = SPEC
        self._writes, self._steps = writes, steps
        self._never = clock.event()

    def write(self, offset: int, payload: memoryview) -> None:
        if self._writes > 0:
            self._writes -= 1
            self._never.wait(PACE)
        self._sink.write(offset, payload)

    def commit(self, progress: Progress | None = None) -> None:
        for step in range(self._steps):
            self._never.wait(PACE)
            if progress is not None:
                progress(step)
        self._sink.commit()

    def discard(self) -> None:
        self._sink.discard()


class StuckSource(GeneratedModel):
    """A source that stops at a byte until it is let go."""

    def __init__(self, at: int, clock: Clock) -> None:
        super().__init__(SPEC, lambda tensor, start, out: out.fill(0))
        self.goes_on = clock.event()
        self._at = at

    def read(self, offset: int, length: int) -> Payload:
        if offset + length > self._at:
            self.goes_on.wait()
        return super().read(offset, length)


def idle_until(error: BaseException | None) -> StreamTimeout:
    assert isinstance(error, StreamTimeout)
    assert error.seconds >= LIMIT
    return error


def test_a_stalled_reader_is_named_at_both_ends(clock: VirtualClock) -> None:
    sink = Stuck(20_000, clock)
    with Transfer(SPEC, config(streaming_read_timeout=LIMIT), clock=clock) as transfer:
        sent, received = transfer.start(pattern_model(SPEC), sink, at_end=[sink.goes_on])
        sink.stopped.wait()
        told = failure(sent)
        named = idle_until(transfer.incoming.error)
        sink.goes_on.set()
        assert str(failure(received)) == str(named)
    assert isinstance(named, ReadTimeout)
    assert named.setting == "streaming_read_timeout"
    assert isinstance(told, StreamAborted)
    assert (told.code, told.who, told.by_peer) == (AbortCode.READ_TIMEOUT, "site-r", True)
    assert "the reader on this side did not read a chunk" in told.reason


def test_a_slow_reader_that_moves_is_left_alone(clock: VirtualClock) -> None:
    limits = config(
        streaming_read_timeout=LIMIT, streaming_ack_wait=LIMIT, communication_timeout=LIMIT
    )
    with Transfer(SPEC, limits, clock=clock) as transfer:
        began = clock()
        sent, _ = transfer.run(pattern_model(SPEC), Slow(clock, writes=12))
        assert clock() - began == 12 * PACE
        assert sent.stats.consumed_bytes == SPEC.nbytes


def test_a_receiver_that_never_acknowledges_is_named_at_both_ends(clock: VirtualClock) -> None:
    with Transfer(SPEC, config(streaming_ack_wait=LIMIT), clock=clock) as transfer:
        transfer.carrier.watch = lambda frame: not isinstance(frame, f.Ack)
        sent, received = transfer.start(pattern_model(SPEC), MemoryStore().begin(SPEC))
        named, told = idle_until(failure(sent)), failure(received)
    assert isinstance(named, AckTimeout)
    assert (named.who, named.setting) == ("site-r", "streaming_ack_wait")
    assert isinstance(told, StreamAborted)
    assert (told.code, told.who) == (AbortCode.ACK_TIMEOUT, "site-s")


def test_a_receiver_that_stops_expires_the_stage_sending(clock: VirtualClock) -> None:
    sink = Stuck(20_000, clock)
    with Transfer(SPEC, config(communication_timeout=LIMIT), clock=clock) as transfer:
        sent, _ = transfer.start(pattern_model(SPEC), sink, at_end=[sink.goes_on])
        named = idle_until(failure(sent))
    assert isinstance(named, CommunicationTimeout)
    assert (named.stage, named.who) == ("sending", "site-r")


def test_a_sender_that_stops_expires_the_stage_receiving(clock: VirtualClock) -> None:
    source = StuckSource(20_000, clock)
    with Transfer(SPEC, config(communication_timeout=LIMIT), clock=clock) as transfer:
        sent, received = transfer.start(source, Slow(clock), at_end=[source.goes_on])
        named = idle_until(failure(received))
        source.goes_on.set()
        told = failure(sent)
    assert isinstance(named, CommunicationTimeout)
    assert (named.stage, named.who) == ("receiving", "site-s")
    assert isinstance(told, StreamAborted)
    assert told.code is AbortCode.COMMUNICATION_TIMEOUT
    assert "stage receiving" in told.reason


def test_a_slow_commit_that_moves_outlives_the_senders_clock(clock: VirtualClock) -> None:
    with Transfer(SPEC, config(communication_timeout=LIMIT), clock=clock) as transfer:
        began = clock()
        transfer.run(pattern_model(SPEC), Slow(clock, steps=12))
        assert clock() - began == 12 * PACE


def test_a_commit_that_does_not_move_expires_the_senders_clock(clock: VirtualClock) -> None:
    class Hanging(Stuck):
        def commit(self, progress: Progress | None = None) -> None:
            self.stopped.set()
            self.goes_on.wait()

    sink = Hanging(1 << 40, clock)
    with Transfer(SPEC, config(communication_timeout=LIMIT), clock=clock) as transfer:
        sent, _ = transfer.start(pattern_model(SPEC), sink, at_end=[sink.goes_on])
        sink.stopped.wait()
        named = idle_until(failure(sent))
    assert isinstance(named, CommunicationTimeout)
    assert named.stage == "sending"


def test_a_sender_nobody_accepts_is_told_so(clock: VirtualClock) -> None:
    with Transfer(SPEC, config(open_timeout=LIMIT), clock=clock) as transfer:
        transfer.carrier.watch = lambda frame: not isinstance(frame, f.Accept)
        transfer.carrier.joins_again = True  # as a client does whose call brings no greeting
        sent, _ = transfer.start(pattern_model(SPEC), MemoryStore().begin(SPEC))
        named = idle_until(failure(sent))
    assert named.setting == "open_timeout"


@pytest.mark.parametrize("way", ["cut", "stall"])
def test_a_link_that_is_gone_for_longer_than_the_limit_fails_the_stream(
    way: str, clock: VirtualClock
) -> None:
    limits = config(communication_timeout=LIMIT)
    sink = Stuck(20_000, clock)
    with Transfer(SPEC, limits, clock=clock) as transfer:
        sent, received = transfer.start(pattern_model(SPEC), sink, at_end=[sink.goes_on])
        sink.stopped.wait()
        getattr(transfer.carrier, way)()
        sink.goes_on.set()
        assert isinstance(failure(sent), CommunicationTimeout)
        assert isinstance(failure(received), CommunicationTimeout)


def test_a_link_that_is_gone_for_less_than_the_limit_goes_on(clock: VirtualClock) -> None:
    store = MemoryStore()
    reached = clock.event()

    def halfway(frame: f.Frame) -> bool:
        if isinstance(frame, f.Chunk) and frame.offset > SPEC.nbytes // 2:
            reached.set()
        return True

    with Transfer(SPEC, config(communication_timeout=LIMIT), clock=clock) as transfer:
        transfer.carrier.watch = halfway
        sent, _ = transfer.start(pattern_model(SPEC), store.begin(SPEC))
        reached.wait()
        transfer.carrier.stall()
        transfer.carrier.go_on()
        sent.result()
    assert content(store.open()) == content(pattern_model(SPEC))
