"""Only idleness expires a clock, and what expired says who, where and which setting to change."""

from __future__ import annotations

import threading
import time

import pytest

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

SPEC = float_spec(30_000)
LIMIT = 0.5
"""Seconds of standing still. How soon after it a stall is named depends on the machine; that it is
named at the deadline and not after is shown in virtual time, in ``tests/protocol``."""

PACE = 0.2
"""Seconds between two moves of something slow; a quarter of its limit, which is 0.8 s."""


class Stuck:
    """A sink that stops at a byte until it is let go."""

    def __init__(self, at: int) -> None:
        self.spec = SPEC
        self.stopped, self.goes_on = threading.Event(), threading.Event()
        self._at = at

    def write(self, offset: int, payload: memoryview) -> None:
        if offset + payload.nbytes > self._at:
            self.stopped.set()
            self.goes_on.wait()

    def commit(self, progress: Progress | None = None) -> None: ...

    def discard(self) -> None: ...


class Slow:
    """A sink that takes ``PACE`` for each of its first writes and each step of its commit."""

    def __init__(self, *, writes: int = 0, steps: int = 0) -> None:
        self._sink = MemoryStore().begin(SPEC)
        self.spec = SPEC
        self._writes, self._steps = writes, steps
        self._never = threading.Event()

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

    def __init__(self, at: int) -> None:
        super().__init__(SPEC, lambda tensor, start, out: out.fill(0))
        self.goes_on = threading.Event()
        self._at = at

    def read(self, offset: int, length: int) -> Payload:
        if offset + length > self._at:
            self.goes_on.wait()
        return super().read(offset, length)


def idle_until(error: BaseException | None) -> StreamTimeout:
    assert isinstance(error, StreamTimeout)
    assert error.seconds >= LIMIT
    return error


def test_a_stalled_reader_is_named_at_both_ends() -> None:
    sink = Stuck(at=20_000)
    with Transfer(SPEC, config(streaming_read_timeout=LIMIT)) as transfer:
        sent, received = transfer.start(pattern_model(SPEC), sink, at_end=[sink.goes_on])
        sink.stopped.wait()
        told = failure(sent)
        named = idle_until(transfer.incoming.error)
        sink.goes_on.set()
        assert failure(received) is named
    assert isinstance(named, ReadTimeout)
    assert named.setting == "streaming_read_timeout"
    assert isinstance(told, StreamAborted)
    assert (told.code, told.who, told.by_peer) == (AbortCode.READ_TIMEOUT, "site-r", True)
    assert "the reader on this side did not read a chunk" in told.reason


def test_a_slow_reader_that_moves_is_left_alone() -> None:
    limits = config(
        streaming_read_timeout=4 * PACE,
        streaming_ack_wait=4 * PACE,
        communication_timeout=4 * PACE,
    )
    with Transfer(SPEC, limits) as transfer:
        began = time.monotonic()
        sent, _ = transfer.run(pattern_model(SPEC), Slow(writes=12))
        assert time.monotonic() - began > 2 * 4 * PACE
        assert sent.stats.consumed_bytes == SPEC.nbytes


def test_a_receiver_that_never_acknowledges_is_named_at_both_ends() -> None:
    with Transfer(SPEC, config(streaming_ack_wait=LIMIT)) as transfer:
        transfer.carrier.watch = lambda frame: not isinstance(frame, f.Ack)
        sent, received = transfer.start(pattern_model(SPEC), MemoryStore().begin(SPEC))
        named, told = idle_until(failure(sent)), failure(received)
    assert isinstance(named, AckTimeout)
    assert (named.who, named.setting) == ("site-r", "streaming_ack_wait")
    assert isinstance(told, StreamAborted)
    assert (told.code, told.who) == (AbortCode.ACK_TIMEOUT, "site-s")


def test_a_receiver_that_stops_expires_the_stage_sending() -> None:
    sink = Stuck(at=20_000)
    with Transfer(SPEC, config(communication_timeout=LIMIT)) as transfer:
        sent, _ = transfer.start(pattern_model(SPEC), sink, at_end=[sink.goes_on])
        named = idle_until(failure(sent))
    assert isinstance(named, CommunicationTimeout)
    assert (named.stage, named.who) == ("sending", "site-r")


def test_a_sender_that_stops_expires_the_stage_receiving() -> None:
    source = StuckSource(at=20_000)
    with Transfer(SPEC, config(communication_timeout=LIMIT)) as transfer:
        sent, received = transfer.start(source, Slow(), at_end=[source.goes_on])
        named = idle_until(failure(received))
        source.goes_on.set()
        told = failure(sent)
    assert isinstance(named, CommunicationTimeout)
    assert (named.stage, named.who) == ("receiving", "site-s")
    assert isinstance(told, StreamAborted)
    assert told.code is AbortCode.COMMUNICATION_TIMEOUT
    assert "stage receiving" in told.reason


def test_a_slow_commit_that_moves_outlives_the_senders_clock() -> None:
    with Transfer(SPEC, config(communication_timeout=4 * PACE)) as transfer:
        began = time.monotonic()
        transfer.run(pattern_model(SPEC), Slow(steps=12))
        assert time.monotonic() - began > 2 * 4 * PACE


def test_a_commit_that_does_not_move_expires_the_senders_clock() -> None:
    class Hanging(Stuck):
        def commit(self, progress: Progress | None = None) -> None:
            self.stopped.set()
            self.goes_on.wait()

    sink = Hanging(at=1 << 40)
    with Transfer(SPEC, config(communication_timeout=LIMIT)) as transfer:
        sent, _ = transfer.start(pattern_model(SPEC), sink, at_end=[sink.goes_on])
        sink.stopped.wait()
        named = idle_until(failure(sent))
    assert isinstance(named, CommunicationTimeout)
    assert named.stage == "sending"


def test_a_sender_nobody_accepts_is_told_so() -> None:
    with Transfer(SPEC, config(open_timeout=LIMIT)) as transfer:
        transfer.carrier.watch = lambda frame: not isinstance(frame, f.Accept)
        transfer.carrier.joins_again = True  # as a client does whose call brings no greeting
        sent, _ = transfer.start(pattern_model(SPEC), MemoryStore().begin(SPEC))
        named = idle_until(failure(sent))
    assert named.setting == "open_timeout"


@pytest.mark.parametrize("way", ["cut", "stall"])
def test_a_link_that_is_gone_for_longer_than_the_limit_fails_the_stream(way: str) -> None:
    limits = config(communication_timeout=LIMIT)
    sink = Stuck(at=20_000)
    with Transfer(SPEC, limits) as transfer:
        sent, received = transfer.start(pattern_model(SPEC), sink, at_end=[sink.goes_on])
        sink.stopped.wait()
        getattr(transfer.carrier, way)()
        sink.goes_on.set()
        assert isinstance(failure(sent), CommunicationTimeout)
        assert isinstance(failure(received), CommunicationTimeout)


def test_a_link_that_is_gone_for_less_than_the_limit_goes_on() -> None:
    store = MemoryStore()
    reached = threading.Event()

    def halfway(frame: f.Frame) -> bool:
        if isinstance(frame, f.Chunk) and frame.offset > SPEC.nbytes // 2:
            reached.set()
        return True

    with Transfer(SPEC, config(communication_timeout=30)) as transfer:
        transfer.carrier.watch = halfway
        sent, _ = transfer.start(pattern_model(SPEC), store.begin(SPEC))
        reached.wait()
        transfer.carrier.stall()
        transfer.carrier.go_on()
        sent.result(60)
    assert content(store.open()) == content(pattern_model(SPEC))
