"""A place among the streams: taken, yielded to others, given back when nobody reads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from streamlink.cancel import CancelToken
from streamlink.errors import Cancelled
from streamlink.objects.lines import Lines
from tests.support.peers import WAIT
from tests.support.virtual_clock import VirtualClock


class Reader:
    """A lazy reader that yields its stream, or is busy with it."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self.is_busy = False
        self.yields = 0

    def yield_line(self) -> bool:
        if self.is_busy:
            return False
        self.yields += 1
        self._lines.give_back(self)
        return True


def test_the_one_that_read_longest_ago_makes_room_for_the_next() -> None:
    clock = VirtualClock()
    lines = Lines(clock, most=2)
    first, second, third = (Reader(lines) for _ in range(3))
    with clock.running():
        lines.take(first, CancelToken())
        lines.take(second, CancelToken())
        lines.touch(first)
        lines.take(third, CancelToken())
        assert (first.yields, second.yields, len(lines)) == (0, 1, 2)
        lines.take(third, CancelToken())  # it has one
        for reader in (first, second, third):
            lines.give_back(reader)
        assert len(lines) == 0


def test_a_reader_waits_while_all_others_are_busy() -> None:
    clock = VirtualClock()
    lines = Lines(clock, most=1)
    busy, waiting = Reader(lines), Reader(lines)
    busy.is_busy = True
    with clock.running():
        lines.take(busy, CancelToken())
        has_it = clock.event()

        def take() -> None:
            lines.take(waiting, CancelToken())
            has_it.set()

        threading.Thread(target=take, daemon=True).start()
        assert not has_it.wait(30)
        busy.is_busy = False
        assert has_it.wait(30)
        assert busy.yields == 1
        lines.give_back(waiting)


def test_a_token_ends_the_wait_for_a_place() -> None:
    clock = VirtualClock()
    lines, cancel = Lines(clock, most=1), CancelToken()
    busy, waiting = Reader(lines), Reader(lines)
    busy.is_busy = True
    with clock.running(), ThreadPoolExecutor(1) as pool:
        lines.take(busy, CancelToken())
        taken = pool.submit(lines.take, waiting, cancel)
        clock.event().wait(30)
        assert not taken.done()
        cancel.cancel("enough")
        with pytest.raises(Cancelled, match="enough"):
            taken.result(WAIT)
        assert len(lines) == 1
        lines.give_back(busy)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_streams_are_watched_again_after_one_could_not_be_closed() -> None:
    class Broken(Reader):
        def yield_line(self) -> bool:
            super().yield_line()
            raise OSError("this stream cannot be closed")

    clock = VirtualClock()
    lines = Lines(clock)
    broken, idle = Broken(lines), Reader(lines)
    with clock.running():
        lines.take(broken, CancelToken())
        clock.event().wait(60)
        lines.take(idle, CancelToken())
        clock.event().wait(60)
        assert (broken.yields, idle.yields, len(lines)) == (1, 1, 0)


def test_a_stream_that_stands_still_is_given_back() -> None:
    clock = VirtualClock()
    lines = Lines(clock)
    idle, busy = Reader(lines), Reader(lines)
    busy.is_busy = True
    with clock.running():
        lines.take(idle, CancelToken())
        lines.take(busy, CancelToken())
        clock.event().wait(60)
        assert (idle.yields, len(lines)) == (1, 1)
        lines.give_back(busy)
