"""The last words of a process: it waits until they are read, for a while."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from streamlink.clock import RunningClock, running_time
from streamlink.transport.last_words import wait_read
from tests.support.waiting import WAIT


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


class _Looked(RunningClock):
    """A clock that notes when somebody waits."""

    def __init__(self) -> None:
        super().__init__()
        self.is_waited_for = threading.Event()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.is_waited_for.set()
        return super().wait(event, seconds)


def test_an_empty_pipe_is_not_waited_for(pipe: tuple[int, int]) -> None:
    assert wait_read(pipe[1], 0.0, running_time)


def test_what_was_written_is_waited_for_until_it_is_read(pipe: tuple[int, int]) -> None:
    clock, is_read = _Looked(), list[bool]()
    os.write(pipe[1], b"error: no room\n")
    waiter = threading.Thread(target=lambda: is_read.append(wait_read(pipe[1], WAIT, clock)))
    waiter.start()
    assert clock.is_waited_for.wait(WAIT)
    assert not is_read
    os.read(pipe[0], 100)
    waiter.join(WAIT)
    assert is_read == [True]


def test_a_pipe_that_nobody_reads_is_given_up(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"error: no room\n")
    assert not wait_read(pipe[1], 0.03, running_time)


def test_what_is_no_pipe_is_not_waited_for(tmp_path: object) -> None:
    file = os.open(f"{tmp_path}/log", os.O_RDWR | os.O_CREAT)
    os.write(file, b"error: no room\n")
    os.lseek(file, 0, os.SEEK_SET)  # else there is nothing to read either
    assert wait_read(file, 0.0, running_time)
    os.close(file)
    assert wait_read(file, 0.0, running_time)
