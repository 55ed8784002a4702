"""A stream over several connections at once: whole, whatever becomes of each of them."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest

from streamlink.clock import running_time
from streamlink.errors import AbortCode
from streamlink.protocol.events import Opened
from streamlink.protocol.receiver import ReceiveStream
from streamlink.transport.carriers import CallEnd, ClientCall, largest_message
from streamlink.transport.lane_rule import LaneRule
from streamlink.transport.receive_pump import ReceivePump
from streamlink.transport.send_pump import SendPump
from streamlink.transport.tcp.lanes import Bundle
from streamlink.transport.tcp.opening import open_as
from streamlink.transport.tcp.sockets import PlainSocket, Socket
from streamlink.transport.tcp.stream import StreamCall
from streamlink.transport.traffic import WireCount
from streamlink.transport.wire import TransferWire
from tests.support.lane_lab import SPEC, LaneLab, Moved, with_lanes
from tests.support.machines import an_open
from tests.support.peers import SMALL, WAIT, until
from tests.support.scarce import no_threads
from tests.support.shared_memory import watched_deals

KiB = 1 << 10
both_ways = pytest.mark.parametrize("direction", ["up", "down"])


def most_lost(moved: Moved, lanes: int) -> int:
    """Return how many lanes may have been lost (count): each but the last one was made again.

    On a busy machine a lane may be given up that only waits for its turn.
    """
    return len(moved.lines) - lanes + 1


@both_ways
@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_a_model_arrives_whole_over_so_many_connections(direction: str, lanes: int) -> None:
    with LaneLab(with_lanes(lanes)) as lab:
        moved = lab.move(direction)
        moved.wait_lanes(lanes)
        stats = moved.finish()
    assert stats.resumes == 0
    # Which lane has how much of it is for the threads of this machine to decide.
    assert sum(map(moved.payload, moved.lines)) > SPEC.nbytes


@pytest.mark.slow
@both_ways
def test_lanes_share_what_their_stream_has_of_a_small_memory(direction: str) -> None:
    with watched_deals() as deals:
        with LaneLab(with_lanes(4, memory_bytes=288 * KiB)) as lab:  # its two ends need 272
            moved = lab.move(direction)
            moved.wait_lanes(4)
            assert moved.finish().resumes == 0
    deals.assert_kept(288 * KiB)


@both_ways
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_lane_that_is_cut_costs_what_it_carried_and_no_resume(direction: str, which: int) -> None:
    with LaneLab(with_lanes(3)) as lab:
        moved = lab.move(direction)
        moved.wait_lanes(3)[which].cut()
        stats = moved.finish()
    assert stats.resumes == 0
    assert stats.resent_bytes <= most_lost(moved, 3) * lab.config.stream.window_bytes


@both_ways
@pytest.mark.slow
def test_a_lane_that_is_cut_is_made_again(direction: str) -> None:
    with LaneLab(with_lanes(2)) as lab:
        moved = lab.move(direction)
        moved.wait_lanes(2)[0].cut()
        until(lambda: len(moved.lines) == 3)
        moved.wait_lanes(2)
        assert moved.finish().resumes == 0


@both_ways
@pytest.mark.slow
def test_a_stream_whose_lanes_are_all_cut_resumes_with_as_many(direction: str) -> None:
    with LaneLab(with_lanes(3)) as lab:
        moved = lab.move(direction)
        for each in moved.wait_lanes(3):
            each.cut()
        until(lambda: moved.outgoing.stats.resumes == 1)
        moved.wait_lanes(3)
        assert moved.finish().resumes == 1


@pytest.mark.slow
@both_ways
@pytest.mark.parametrize("which", [0, 1])
def test_a_lane_that_stalls_is_given_up_and_the_other_carries_what_it_owes(
    direction: str, which: int
) -> None:
    with LaneLab(with_lanes(2)) as lab:
        moved = lab.move(direction)
        moved.wait_lanes(2)[which].stall()
        stats = moved.finish()
    assert stats.resumes == 0
    assert stats.resent_bytes <= most_lost(moved, 2) * lab.config.stream.window_bytes


@both_ways
def test_a_stream_whose_lanes_all_stall_resumes(direction: str) -> None:
    with LaneLab(with_lanes(2, call_timeout=1.0)) as lab:
        moved = lab.move(direction)
        for each in moved.wait_lanes(2):
            each.stall()
        # More where a busy machine is silent for that long by itself.
        assert moved.finish().resumes >= 1


@both_ways
@pytest.mark.slow
def test_several_lanes_bring_no_more_than_one_window_to_a_sink_that_takes_nothing(
    direction: str,
) -> None:
    with LaneLab(with_lanes(4)) as lab:
        moved = lab.move(direction, sink_waits=True)
        carrying = moved.wait_lanes(4)
        until(lambda: moved.outgoing.stats.sent_bytes == lab.config.stream.window_bytes)
        # Counted outside of both ends: what a handshake takes comes on top.
        assert sum(map(moved.payload, carrying)) < lab.config.stream.window_bytes + 16 * 1024
        assert moved.finish().resumes == 0


# What a connection may keep unsent decides whether another lane has the next chunk.


@pytest.mark.skipif(not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="the system has no such limit")
@both_ways
@pytest.mark.parametrize(("lanes", "is_little"), [(1, False), (2, True)])
def test_lanes_keep_little_unsent_and_a_single_connection_what_the_system_will(
    direction: str, lanes: int, is_little: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, send = set[int](), socket.socket.sendmsg

    def sendmsg(connected: socket.socket, *args: Any) -> int:
        if connected.family == socket.AF_INET:
            kept.add(connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT))
        return send(connected, *args)

    monkeypatch.setattr(socket.socket, "sendmsg", sendmsg)
    with LaneLab(with_lanes(lanes, most=lanes)) as lab:
        lab.move(direction).finish()
    assert kept == ({256 * 1024} if is_little else {0})


# --- a rule that asks for a fixed number -----------------------------------------------------


class Told(LaneRule):
    """Wants as many as a test says, and counts losses."""

    def __init__(self) -> None:
        super().__init__(most=4)
        self.count, self.losses = 1, 0

    def wanted(self, received: int, *, lanes: int, now: float) -> int:
        return self.count

    def lost(self, *, now: float) -> None:
        self.losses += 1


class Bundled:
    """Carries the client's end of a stream in one bundle."""

    def __init__(self, lab: LaneLab) -> None:
        self._lab, self.rule = lab, Told()
        self._numbers = itertools.count(1000)
        self.connections: list[Socket] = []
        self.may_dial = True
        self.ends: list[CallEnd] = []
        self.thread = threading.Thread()

    def carry(self, pump: SendPump | ReceivePump, stream_id: int) -> None:
        bundle = Bundle(
            ClientCall(pump, TransferWire(stream_id), attached=self._lab.dialer.ticker.add),
            stream_id,
            lambda: self._dialed(stream_id, is_lane=True),
            self.rule,
            most=largest_message(self._lab.config.stream),
            clock=running_time,
        )

        def run() -> None:
            with self._dialed(stream_id, is_lane=False) as first:
                self.ends.append(bundle.carry(first))

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    @contextmanager
    def _dialed(self, stream_id: int, *, is_lane: bool) -> Iterator[Socket]:
        if not self.may_dial:
            raise OSError("no way")
        connection = PlainSocket(socket.create_connection(self._lab.where))
        number = next(self._numbers)
        open_as(connection, self._lab.session, stream_id, number, is_lane=is_lane)
        self.connections.append(connection)
        try:
            yield connection
        finally:
            connection.close()


@both_ways
def test_lanes_are_closed_without_a_resume_and_do_not_count_as_lost(direction: str) -> None:
    with LaneLab(with_lanes(1)) as lab:
        bundled = Bundled(lab)
        moved = lab.move(direction, carry=bundled.carry)
        for count in (3, 1):
            bundled.rule.count = count
            moved.wait_lanes(count)
        assert bundled.rule.losses == 0
        stats = moved.finish()
        assert (stats.resumes, stats.resent_bytes) == (0, 0)
        bundled.thread.join(WAIT)
    assert bundled.ends == [CallEnd.ENDED]


@both_ways
def test_a_bundle_goes_on_without_its_first_connection(direction: str) -> None:
    with LaneLab(with_lanes(1)) as lab:
        bundled = Bundled(lab)
        moved = lab.move(direction, carry=bundled.carry)
        bundled.rule.count = 2
        moved.wait_lanes(2)
        bundled.rule.count = 1
        bundled.connections[0].cut()
        until(lambda: bundled.rule.losses == 1)
        assert moved.finish().resumes == 0
        bundled.thread.join(WAIT)
    assert bundled.ends == [CallEnd.ENDED]


class Paired:
    """Carries a stream's receiving end in a bundle of two connections, whose peers are here."""

    def __init__(self, carrying: int = 2) -> None:
        pairs = [tuple(map(PlainSocket, socket.socketpair())) for _ in range(2)]
        (first, self.peer), (lane, self.lane_peer) = pairs
        self._sockets = tuple(itertools.chain(*pairs))
        self.pump = ReceivePump(
            ReceiveStream(SMALL, stream_id=7, peer_name="there", name="in"), clock=running_time
        )
        self.rule, self.ends = Told(), list[CallEnd]()
        self.rule.count = 2
        self._left = [lane]
        call = ClientCall(self.pump, TransferWire(7))
        bundle = Bundle(call, 7, self._dial, self.rule, most=1 << 16, clock=running_time)
        self.thread = threading.Thread(
            target=lambda: self.ends.append(bundle.carry(first)), daemon=True
        )
        self.thread.start()
        until(lambda: self.pump.calls == carrying)

    def _dial(self) -> AbstractContextManager[PlainSocket]:
        if not self._left:
            raise OSError("there is no other")
        return nullcontext(self._left.pop())

    def close(self) -> None:
        self.thread.join(WAIT)
        for each in self._sockets:
            each.close()


@pytest.fixture
def paired() -> Iterator[Paired]:
    paired = Paired()
    yield paired
    paired.close()


def test_once_the_stream_has_ended_a_silent_lane_is_not_waited_for(paired: Paired) -> None:
    paired.pump.abort(AbortCode.CANCELLED, "that was all")
    StreamCall(paired.peer, TransferWire(7), WireCount(), 1 << 16).end()
    paired.thread.join(WAIT)
    assert paired.ends == [CallEnd.ENDED]


def test_a_bundle_of_which_one_fell_silent_was_cut_however_the_other_ends(paired: Paired) -> None:
    with paired.pump.locked() as (machine, now):
        machine.detach(now=now, channel=1)
    paired.pump.tick()  # as the ticker does, which finds that the machine has given it up
    until(lambda: paired.pump.calls == 1)
    paired.lane_peer.cut()
    paired.thread.join(WAIT)
    assert paired.ends == [CallEnd.CUT]


def test_a_lane_that_retires_does_not_carry_its_stream_alone(paired: Paired) -> None:
    for peer in (paired.peer, paired.lane_peer):
        StreamCall(peer, TransferWire(7), WireCount(), 1 << 16).send((an_open(stream_id=7),))
        if peer is paired.peer:
            assert isinstance(paired.pump.next(WAIT), Opened)
            paired.pump.accept(wants_spec=False)
        assert peer.receive(1), "its handshake is complete"
    paired.rule.count = 1
    until(lambda: paired.pump.is_retiring(2))
    # A server that says nothing more: what the lane carries, and its end, might never come.
    paired.peer.cut()
    paired.thread.join(WAIT)
    assert paired.ends == [CallEnd.BROKEN]
    assert paired.pump.calls == 0


def test_a_lane_without_a_thread_is_not_why_its_stream_is_lost_later() -> None:
    with no_threads("tcp-write", beside="tcp-lane"):
        paired = Paired(carrying=1)
        until(lambda: paired.rule.losses > 0)
    paired.peer.cut()
    paired.thread.join(WAIT)
    assert paired.ends == [CallEnd.BROKEN]
    paired.close()


def test_a_lane_that_cannot_be_made_is_noted_and_costs_nothing() -> None:
    with LaneLab(with_lanes(1)) as lab:
        bundled = Bundled(lab)
        moved = lab.move("down", carry=bundled.carry)
        moved.wait_lanes(1)
        bundled.may_dial = False
        bundled.rule.count = 2
        until(lambda: bundled.rule.losses > 0)
        assert moved.finish().resumes == 0


def test_a_bundle_whose_connections_are_all_lost_is_broken() -> None:
    with LaneLab(with_lanes(1)) as lab:
        bundled = Bundled(lab)
        moved = lab.move("down", carry=bundled.carry)
        bundled.rule.count = 2
        moved.wait_lanes(2)
        bundled.may_dial = False
        for each in bundled.connections:
            each.cut()
        bundled.thread.join(WAIT)
        assert bundled.ends == [CallEnd.BROKEN]
        lab.dialer.open_transfer(lab.near, moved.near_pump)
        assert moved.finish().resumes == 1
