"""A place among the streams: taken, yielded to others, given back when nobody reads."""

from __future__ import annotations

import threading

import pytest

from streamlink.objects.lines import Lines
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
        lines.take(first)
        lines.take(second)
        lines.touch(first)
        lines.take(third)
        assert (first.yields, second.yields, len(lines)) == (0, 1, 2)
        lines.take(third)  # it has one
        for reader in (first, second, third):
            lines.give_back(reader)
        assert len(lines) == 0


def test_a_reader_waits_while_all_others_are_busy() -> None:
    clock = VirtualClock()
    lines = Lines(clock, most=1)
    busy, waiting = Reader(lines), Reader(lines)
    busy.is_busy = True
    with clock.running():
        lines.take(busy)
        has_it = clock.event()

        def take() -> None:
            lines.take(waiting)
            has_it.set()

        threading.Thread(target=take, daemon=True).start()
        assert not has_it.wait(30)
        busy.is_busy = False
        assert has_it.wait(30)
        assert busy.yields == 1
        lines.give_back(waiting)


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
        lines.take(broken)
        clock.event().wait(60)
        lines.take(idle)
        clock.event().wait(60)
        assert (broken.yields, idle.yields, len(lines)) == (1, 1, 0)


def test_a_stream_that_stands_still_is_given_back() -> None:
    clock = VirtualClock()
    lines = Lines(clock)
    idle, busy = Reader(lines), Reader(lines)
    busy.is_busy = True
    with clock.running():
        lines.take(idle)
        lines.take(busy)
        clock.event().wait(60)
        assert (idle.yields, len(lines)) == (1, 1)
        lines.give_back(busy)
