"""A data port of a process that has no thread or no memory left: a call is lost, and no place."""

from __future__ import annotations

import gc
import itertools
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from streamlink.clock import running_time
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.transport.receive_pump import ReceivePump
from streamlink.transport.tcp import proof
from streamlink.transport.tcp.listener import TcpListener
from streamlink.transport.tcp.proof import Opening
from tests.support.lane_lab import LaneLab, with_lanes
from tests.support.peers import WAIT, config, until
from tests.support.pumps import pump_of
from tests.support.scarce import no_threads

STREAMS = 4
LANES = 4  # that a client may have beside the first of each stream, where a stream may have three


class Opener:
    """Opens connections by hand, with the key of the lab's client."""

    def __init__(self, lab: LaneLab, stack: ExitStack) -> None:
        self._lab, self._stack = lab, stack
        self._numbers = itertools.count(1000)  # beyond those of the lab's client

    def opens(self, stream_id: int, *, is_lane: bool = False) -> socket.socket:
        """Return a connection that has proven itself."""
        session = self._lab.session
        said = Opening(session.session_id, session.epoch, stream_id, next(self._numbers), is_lane)
        line = self._stack.enter_context(socket.create_connection(self._lab.where, WAIT))
        line.sendall(said.encode(session.key))
        assert line.recv(proof.ANSWER_BYTES, socket.MSG_WAITALL)
        return line


def is_closed(line: socket.socket) -> bool:
    """Return whether the server has closed a connection that it has said nothing on."""
    with suppress(ConnectionResetError):
        return line.recv(1) == b""
    return True


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def lab(stack: ExitStack) -> LaneLab:
    server = with_lanes(0, most=3)
    limits = server.limits.model_copy(update={"max_streams": STREAMS})
    return stack.enter_context(LaneLab(config(), server.model_copy(update={"limits": limits})))


def offered(lab: LaneLab, stream_id: int) -> ReceivePump:
    """Have the server wait for a stream of its client's."""
    pump = pump_of(
        ReceiveTransfer(
            lab.far.config, stream_id=stream_id, peer_name="x", name="in", clock=running_time
        )
    )
    lab.far.offer(pump)
    return pump


def test_calls_without_a_thread_to_work_leave_their_places_to_others(
    lab: LaneLab, stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    opener = Opener(lab, stack)
    pumps = [offered(lab, 100 + number) for number in range(STREAMS)]
    with no_threads("tcp-work", beside="tcp-serve"):
        for each in pumps:
            assert is_closed(opener.opens(each.stream.stream_id))
    until(lambda: not any(each.calls for each in pumps))
    assert "no stream comes of this: can't start new thread" in caplog.text
    assert lab.move("up").finish().carrier == "tcp"


def test_lanes_without_a_thread_to_write_leave_their_places_to_others(
    lab: LaneLab, stack: ExitStack
) -> None:
    opener, moved = Opener(lab, stack), lab.move("down")
    moved.wait_lanes(1)
    with no_threads("tcp-write", beside="tcp-serve"):
        for _ in range(LANES):
            assert is_closed(opener.opens(moved.stream_id, is_lane=True))
    far = moved.pumps[0]
    until(lambda: far.calls == 1)
    opener.opens(moved.stream_id, is_lane=True)
    until(lambda: far.calls == 2)
    assert moved.finish().resumes == 0


def test_a_listener_without_a_thread_to_accept_gives_its_port_back(lab: LaneLab) -> None:
    with no_threads("tcp-accept"), pytest.raises(RuntimeError, match="can't start new thread"):
        TcpListener("127.0.0.1:0", lab.hub)
    gc.collect()  # a socket that was left open would be an error here
