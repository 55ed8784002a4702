"""Connections at the server share a few threads, and none of them waits for another."""

from __future__ import annotations

import logging
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from streamlink.transport.tcp.poller import THREADS, Poller
from streamlink.transport.tcp.readiness import READ
from tests.support.lane_lab import LaneLab, Moved, with_lanes
from tests.support.peers import WAIT, until
from tests.support.scarce import no_threads

MANY = 2 * THREADS


class Lab(LaneLab):
    """A server of one connection for each stream; it knows its own threads from those before."""

    def __init__(self) -> None:
        self._others = {*threading.enumerate()}
        super().__init__(with_lanes(1, most=1, call_timeout=WAIT))

    def threads(self, name: str) -> int:
        own = {*threading.enumerate()} - self._others
        return sum(each.name == name for each in own)


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab() as lab:
        yield lab


def moving(lab: LaneLab, *directions: str, sink_waits: bool = False) -> list[Moved]:
    moved = [lab.move(each, sink_waits=sink_waits) for each in directions]
    for each in moved:
        each.wait_lanes(1)
    return moved


def test_many_streams_have_few_threads_at_the_server(lab: Lab) -> None:
    moved = moving(lab, *("up", "down") * (MANY // 2))
    until(lambda: lab.threads("tcp-serve") == 0)
    assert 0 < lab.threads("tcp-work") <= THREADS
    for each in moved:
        each.go_on()
    for each in moved:
        stats = each.finish()
        assert (stats.carrier, stats.resumes, stats.repairs) == ("tcp", 0, 0)


@pytest.mark.parametrize("direction", ["up", "down"])
def test_streams_whose_source_or_sink_waits_hold_up_no_other(lab: LaneLab, direction: str) -> None:
    waiting = moving(lab, *(direction,) * (THREADS + 1), sink_waits=True)
    for other in ("up", "down"):
        assert lab.move(other).finish().carrier == "tcp"
    for each in waiting:
        each.finish()


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_connection_that_is_cut_is_resumed_on_the_next(lab: LaneLab, direction: str) -> None:
    (moved,) = moving(lab, direction)
    (line,) = moved.wait_lanes(1)
    line.cut()
    moved.go_on()
    assert moved.finish().resumes == 1


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_system_without_epoll_moves_models_as_well(
    direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(select, "epoll")
    with Lab() as lab:
        moved = moving(lab, *(direction,) * MANY)
        assert {each.finish().carrier for each in moved} == {"tcp"}


def test_a_server_that_closes_lets_its_threads_go(lab: Lab) -> None:
    moving(lab, "up")[0].finish()
    assert lab.threads("tcp-work") > 0
    lab.close()
    until(lambda: lab.threads("tcp-work") == 0)


# --- the threads alone --------------------------------------------------------------------------


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with ExitStack() as stack:
        near, far = (stack.enter_context(each) for each in socket.socketpair())
        yield near, far


def test_work_that_fails_is_logged_and_its_thread_goes_on(
    pair: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    (near, far), done = pair, threading.Semaphore(0)
    outcomes = iter([ValueError("no"), None])

    def act() -> None:
        near.recv(1)
        done.release()
        if (outcome := next(outcomes)) is not None:
            raise outcome

    with caplog.at_level(logging.ERROR, "streamlink"):
        working = Poller("spare")
        working.add(near.fileno(), act)
        for _ in range(2):
            working.arm(near.fileno(), READ)
            far.send(b"x")
            assert done.acquire(timeout=WAIT)
        working.close()
    assert "work on a connection failed" in caplog.text


def test_without_any_thread_a_connection_is_not_taken_and_with_one_it_is(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    (near, far), done, working = pair, threading.Event(), Poller("scarce")
    with no_threads("scarce"), pytest.raises(RuntimeError, match="can't start new thread"):
        working.add(near.fileno(), done.set)
    working.add(near.fileno(), done.set)
    with no_threads("scarce") as refused:
        working.add(near.fileno(), done.set)
    assert refused
    working.arm(near.fileno(), READ)
    far.send(b"x")
    assert done.wait(WAIT)
    working.close()
