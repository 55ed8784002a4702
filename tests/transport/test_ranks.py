"""MPI in this process: a job of one, which sends messages to itself."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from threading import Event

import pytest

from streamlink.clock import RunningClock
from streamlink.errors import MpiUnavailable
from streamlink.transport.rank_messages import LONGEST_PAUSE_SECONDS, Arrival
from streamlink.transport.ranks import Ranks, require_mpi
from tests.support.mpi import mpi_ranks
from tests.support.peers import WAIT, until

# --- without MPI ------------------------------------------------------------


def test_without_the_extra_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(MpiUnavailable, match=r"pip install 'streamlink-fl\[mpi\]'"):
        require_mpi()


# --- with it ----------------------------------------------------------------


@pytest.fixture
def ranks() -> Iterator[Ranks]:
    with mpi_ranks() as ranks:
        yield ranks


@pytest.fixture
def arrivals(ranks: Ranks) -> SimpleQueue[Arrival]:
    """What arrives at this process, from itself."""
    found: SimpleQueue[Arrival] = SimpleQueue()
    ranks.on_arrival = found.put
    return found


def test_a_message_is_received_where_its_reader_says(
    ranks: Ranks, arrivals: SimpleQueue[Arrival]
) -> None:
    taken, here, memory = Event(), Event(), bytearray(9)
    ranks.send(ranks.rank, 5, memoryview(b"payload"), taken.set)
    arrival = arrivals.get(timeout=WAIT)
    assert (arrival.source, arrival.tag, arrival.nbytes) == (ranks.rank, 5, 7)
    ranks.receive(arrival, memoryview(memory)[1:8], here.set)
    assert here.wait(WAIT)
    assert memory == b"\0payload\0"
    assert taken.wait(WAIT)


def test_a_sender_learns_that_its_message_was_taken_not_before_that(
    ranks: Ranks, arrivals: SimpleQueue[Arrival]
) -> None:
    taken: SimpleQueue[str] = SimpleQueue()
    ranks.send(ranks.rank, 1, b"first", lambda: taken.put("first"))
    ranks.send(ranks.rank, 2, b"second", lambda: taken.put("second"))
    first, second = arrivals.get(timeout=WAIT), arrivals.get(timeout=WAIT)
    assert (first.tag, second.tag) == (1, 2)
    ranks.drop(second)
    assert taken.get(timeout=WAIT) == "second"
    ranks.drop(first)
    assert taken.get(timeout=WAIT) == "first"


def test_a_large_message_that_nobody_wants_costs_no_memory_for_it(
    ranks: Ranks, arrivals: SimpleQueue[Arrival]
) -> None:
    taken = Event()
    ranks.send(ranks.rank, 3, memoryview(bytes(10_000_000)), taken.set)
    ranks.drop(arrivals.get(timeout=WAIT))
    assert taken.wait(WAIT)


def test_what_nobody_has_taken_in_is_dropped_when_its_receiver_leaves(
    ranks: Ranks,
) -> None:
    taken = Event()
    ranks.send(ranks.rank, 1, b"nobody reads it", taken.set)
    ranks.leave()
    assert taken.is_set()
    assert not ranks.is_here


class Recording(RunningClock):
    """A clock that notes how long its conditions are waited on."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def condition(self, lock: threading.Lock | None = None) -> threading.Condition:
        return _Noted(self.waits, lock)


class _Noted(threading.Condition):
    def __init__(self, waits: list[float | None], lock: threading.Lock | None) -> None:
        super().__init__(lock)
        self._waits = waits

    def wait(self, timeout: float | None = None) -> bool:
        self._waits.append(timeout)
        return super().wait(timeout)


def test_a_process_that_waits_sleeps_up_to_the_longest_pause() -> None:
    clock = Recording()
    with mpi_ranks(clock):
        until(lambda: clock.waits[-3:] == [LONGEST_PAUSE_SECONDS] * 3)
