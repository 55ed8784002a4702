"""What a data port makes of lanes that a client opens beyond what it may have."""

from __future__ import annotations

import itertools
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from streamlink.clock import running_time
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.transport.tcp import proof
from streamlink.transport.tcp.proof import Opening
from tests.support.lane_lab import LaneLab, with_lanes
from tests.support.peers import WAIT, config, until
from tests.support.pumps import pump_of


class Hostile:
    """Opens lanes by hand, with the key of the lab's client."""

    def __init__(self, lab: LaneLab, stack: ExitStack) -> None:
        self._lab, self._stack = lab, stack
        self._numbers = itertools.count(1000)  # beyond those of the honest client

    def opens(self, stream_id: int, number: int = 0) -> socket.socket:
        """Return a connection that has said who it is, and has read the answer, if any."""
        session = self._lab.session
        number = number or next(self._numbers)
        said = Opening(session.session_id, session.epoch, stream_id, number, is_lane=True)
        line = self._stack.enter_context(socket.create_connection(self._lab.where, WAIT))
        line.sendall(said.encode(session.key))
        with suppress(ConnectionResetError):
            line.recv(proof.ANSWER_BYTES, socket.MSG_WAITALL)
        return line


def is_closed(line: socket.socket) -> bool:
    """Return whether the server has closed a connection that it has said nothing on."""
    line.settimeout(WAIT)
    with suppress(ConnectionResetError):
        return line.recv(1) == b""
    return True


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def lab_of(stack: ExitStack, most: int) -> tuple[LaneLab, Hostile]:
    lab = stack.enter_context(LaneLab(config(), with_lanes(0, most=most)))
    return lab, Hostile(lab, stack)


def test_a_server_that_takes_one_connection_for_a_stream_refuses_every_lane(
    stack: ExitStack,
) -> None:
    lab, hostile = lab_of(stack, 1)
    moved = lab.move("up")
    moved.wait_lanes(1)
    assert is_closed(hostile.opens(moved.stream_id))
    assert moved.finish().resumes == 0


def test_a_lane_beyond_the_limit_is_closed_and_the_stream_does_not_hear_of_it(
    stack: ExitStack,
) -> None:
    lab, hostile = lab_of(stack, 2)
    moved = lab.move("up")
    moved.wait_lanes(1)
    hostile.opens(moved.stream_id)
    far = moved.pumps[1]
    until(lambda: far.calls == 2)
    assert all(is_closed(hostile.opens(moved.stream_id)) for _ in range(5))
    assert far.calls == 2
    assert moved.finish().resumes == 0


def test_a_client_that_wants_more_than_its_server_takes_says_so_and_asks_for_no_more(
    stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "streamlink.client"):
        lab = stack.enter_context(LaneLab(with_lanes(4), with_lanes(0, most=2)))
    assert "takes 2 connections for a stream (its stream.max_lanes), not 4" in caplog.text
    moved = lab.move("down")
    moved.wait_lanes(2)
    assert moved.finish().resumes == 0
    assert len(moved.lines) <= 3  # with the one that has tried the way


def test_lanes_do_not_carry_a_stream_that_nothing_carries(stack: ExitStack) -> None:
    lab, hostile = lab_of(stack, 4)
    model = ReceiveTransfer(
        lab.far.config, stream_id=77, peer_name="site-1", name="model", clock=running_time
    )
    lab.far.offer(pump_of(model))
    assert is_closed(hostile.opens(77))
    assert is_closed(hostile.opens(78)), "there is no such stream"
    assert pump_of(model).calls == 0


def test_all_streams_of_a_client_share_so_many_lanes_and_free_them(stack: ExitStack) -> None:
    lab, hostile = lab_of(stack, 3)
    moved = [lab.move("up") for _ in range(3)]
    for each in moved:
        each.wait_lanes(1)

    def carried() -> int:
        return sum(each.pumps[1].calls for each in moved)

    lines = [hostile.opens(each.stream_id) for each in moved[:2] for _ in range(2)]
    until(lambda: carried() == 3 + 4)
    assert is_closed(hostile.opens(moved[2].stream_id))
    for line in lines:
        line.close()
    until(lambda: carried() == 3)
    hostile.opens(moved[2].stream_id)
    until(lambda: carried() == 4)
    assert all(each.finish().resumes == 0 for each in moved)


def test_the_opening_of_a_lane_is_good_once(stack: ExitStack) -> None:
    lab, hostile = lab_of(stack, 4)
    moved = lab.move("up")
    moved.wait_lanes(1)
    hostile.opens(moved.stream_id, number=5000)
    until(lambda: moved.pumps[1].calls == 2)
    assert is_closed(hostile.opens(moved.stream_id, number=5000))
    assert moved.pumps[1].calls == 2
    moved.finish()


def test_all_clients_of_a_server_share_so_many_lanes_and_free_them(stack: ExitStack) -> None:
    server = with_lanes(0, most=3)
    limits = server.limits.model_copy(update={"max_extra_lanes": 1})
    lab = LaneLab(config(), server.model_copy(update={"limits": limits}))
    stack.enter_context(lab)
    hostile, moved = Hostile(lab, stack), [lab.move("up"), lab.move("down")]
    up, down = moved
    for each in moved:
        each.wait_lanes(1)
    for one in (up, down, up):
        line = hostile.opens(one.stream_id)
        until(lambda: lab.hub.lanes.taken == 1)
        assert all(is_closed(hostile.opens(each.stream_id)) for each in moved)
        line.close()
        until(lambda: lab.hub.lanes.taken == 0)
    assert all(each.finish().resumes == 0 for each in moved)


@pytest.mark.parametrize(("direction", "threads"), [("up", 0), ("down", 2)])
def test_only_lanes_of_a_model_that_leaves_have_threads_at_the_server(
    stack: ExitStack, direction: str, threads: int
) -> None:
    lab, hostile = lab_of(stack, 3)
    moved = lab.move(direction)
    moved.wait_lanes(1)
    before = threads_of("tcp-serve")
    for _ in range(2):
        hostile.opens(moved.stream_id)
    far = moved.pumps[1 if direction == "up" else 0]
    until(lambda: far.calls == 3)
    until(lambda: len(threads_of("tcp-serve") - before) == threads)
    assert moved.finish().resumes == 0


@pytest.mark.parametrize(("lanes", "is_bundle"), [(0, False), (2, True)])
def test_on_loopback_a_stream_stays_with_one_connection_unless_their_number_is_set(
    stack: ExitStack, lanes: int, is_bundle: bool
) -> None:
    before = threads_of("tcp-lanes")
    lab = stack.enter_context(LaneLab(with_lanes(lanes)))
    moved = lab.move("up")
    moved.wait_lanes(max(1, lanes))
    assert bool(threads_of("tcp-lanes") - before) == is_bundle
    assert moved.finish().resumes == 0


@pytest.mark.parametrize("extra", [0, 1])
def test_a_client_is_told_how_many_lanes_its_server_may_have(
    stack: ExitStack, extra: int, caplog: pytest.LogCaptureFixture
) -> None:
    server = with_lanes(0)
    limits = server.limits.model_copy(update={"max_extra_lanes": extra})
    with caplog.at_level(logging.INFO, "streamlink.client"):
        server = server.model_copy(update={"limits": limits})
        lab = stack.enter_context(LaneLab(with_lanes(4), server))
    assert f"takes {extra + 1} connections for a stream" in caplog.text
    moved = lab.move("up")
    moved.wait_lanes(1 + extra)
    assert moved.finish().resumes == 0


def threads_of(name: str) -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == name}
