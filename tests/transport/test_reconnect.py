"""One call after another: how long is waited between them, and when it is over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamlink.transport.reconnect import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    Carriage,
    keep_carried,
)


class Calls:
    """Calls that end at once; each tells whether something moved on it."""

    def __init__(self, *moved: bool) -> None:
        self.left, self.pauses = list(moved), list[float]()

    def carry(self) -> bool:
        return self.left.pop(0)

    def run(self) -> list[float]:
        keep_carried(self.carry, is_over=lambda: not self.left, pause=self.pauses.append)
        return self.pauses


def test_what_is_over_is_not_carried() -> None:
    assert Calls().run() == []


def test_a_call_that_was_the_last_is_not_waited_after() -> None:
    assert Calls(True).run() == []
    assert Calls(False).run() == []


def test_each_call_that_moves_nothing_doubles_the_most_that_is_waited() -> None:
    runs = [Calls(*[False] * 10).run() for _ in range(200)]
    for number in range(9):
        most = min(FIRST_PAUSE_SECONDS * 2**number, LONGEST_PAUSE_SECONDS)
        pauses = [pauses[number] for pauses in runs]
        assert 0.0 <= min(pauses) < most / 4  # full jitter
        assert most / 2 < max(pauses) <= most


def test_a_call_that_moved_starts_the_pauses_again() -> None:
    runs = [Calls(*[False] * 9, True, False, False).run() for _ in range(200)]
    assert max(pauses[8] for pauses in runs) > 10 * FIRST_PAUSE_SECONDS
    assert max(pauses[9] for pauses in runs) <= FIRST_PAUSE_SECONDS


def test_calls_that_always_move_do_not_follow_each_other_in_a_flood() -> None:
    assert sum(Calls(*[True] * 200).run()) > 50 * FIRST_PAUSE_SECONDS


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError("all used")])
def test_a_call_for_which_the_process_has_nothing_left_is_one_that_moved_nothing(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    class Scarce:
        def carry(self, call: Any) -> Any:
            raise error

    stands_for: Any = SimpleNamespace(has_moved=True)  # by a call before this one
    carrier: Any = Scarce()
    carriage = Carriage(stands_for, carrier, lambda: stands_for)
    assert carriage.run() is False
    assert not carriage.was_cut
    assert f"a call ends: {error}; another is tried" in caplog.text
