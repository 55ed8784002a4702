"""Which of many sockets can be read or written: each is told once, to one thread."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

from streamlink.transport.tcp.readiness import (
    READ,
    WRITE,
    EpollReadiness,
    PollReadiness,
    Readiness,
    new_readiness,
)
from tests.support.peers import WAIT

KINDS: list[Callable[[], Readiness]] = [EpollReadiness, PollReadiness]


class Lab:
    """A readiness, threads that wait for it, and pairs of sockets."""

    def __init__(self, readiness: Readiness, stack: ExitStack) -> None:
        self.readiness, self._stack = readiness, stack
        self.pool = stack.enter_context(ThreadPoolExecutor(8))
        stack.callback(readiness.close)

    def pair(self) -> tuple[socket.socket, socket.socket]:
        near, far = socket.socketpair()
        for each in (near, far):
            self._stack.enter_context(each)
        return near, far


@pytest.fixture(params=KINDS, ids=["epoll", "poll"])
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    with ExitStack() as stack:
        yield Lab(request.param(), stack)


def test_what_can_be_read_is_told_once_until_it_is_armed_again(lab: Lab) -> None:
    near, far = lab.pair()
    other, more = lab.pair()
    lab.readiness.arm(near.fileno(), READ)
    waits = lab.pool.submit(lab.readiness.wait)
    far.send(b"x")
    assert waits.result(WAIT) == near.fileno()
    lab.readiness.arm(other.fileno(), READ)
    more.send(b"x")
    assert lab.readiness.wait() == other.fileno(), "the first has told, though nobody has read"
    lab.readiness.arm(near.fileno(), READ)
    assert lab.readiness.wait() == near.fileno()


def test_one_of_the_threads_that_wait_is_told(lab: Lab) -> None:
    pairs = [lab.pair() for _ in range(4)]
    waits = [lab.pool.submit(lab.readiness.wait) for _ in range(4)]
    for near, far in pairs:
        lab.readiness.arm(near.fileno(), READ)
        far.send(b"x")
    told = {each.result(WAIT) for each in waits}
    assert told == {near.fileno() for near, _ in pairs}


def test_what_can_be_written_is_told_while_a_thread_waits_for_others(lab: Lab) -> None:
    near, _ = lab.pair()
    quiet, _ = lab.pair()
    lab.readiness.arm(quiet.fileno(), READ)
    waits = lab.pool.submit(lab.readiness.wait)
    lab.readiness.arm(near.fileno(), WRITE)
    assert waits.result(WAIT) == near.fileno()


def test_what_was_wanted_before_is_still_told(lab: Lab) -> None:
    near, far = lab.pair()
    near.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            near.send(b"x" * 65536)
    lab.readiness.arm(near.fileno(), READ)
    lab.readiness.arm(near.fileno(), WRITE)
    far.send(b"y")
    assert lab.readiness.wait() == near.fileno()


def test_the_end_of_a_connection_is_told_and_what_was_forgotten_is_not(lab: Lab) -> None:
    near, far = lab.pair()
    gone, left = lab.pair()
    lab.readiness.arm(near.fileno(), READ)
    lab.readiness.arm(gone.fileno(), READ)
    lab.readiness.forget(gone.fileno())
    lab.readiness.forget(gone.fileno())
    left.send(b"x")
    far.close()
    assert lab.readiness.wait() == near.fileno()


def test_closing_lets_all_threads_go_that_wait_or_will(lab: Lab) -> None:
    waits = [lab.pool.submit(lab.readiness.wait) for _ in range(4)]
    lab.readiness.close()
    assert [each.result(WAIT) for each in waits] == [None] * 4
    assert lab.readiness.wait() is None


def test_linux_has_the_one_that_wakes_a_single_thread() -> None:
    readiness = new_readiness()
    assert isinstance(readiness, EpollReadiness)
    readiness.close()
