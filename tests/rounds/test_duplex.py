"""The tap: what is computed goes to the store first, and to those who take it early."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from streamlink.errors import ModelError, StreamAborted
from streamlink.rounds.duplex import Tap, TapSource
from streamlink.stores.memory import MemoryStore
from tests.support.models import content, float_spec, random_bytes
from tests.support.peers import WAIT

SPEC = float_spec(1000, 24)  # 4,096 bytes
DATA = random_bytes(SPEC.nbytes)


def a_tap(limit: int = 1024) -> tuple[Tap, MemoryStore]:
    store = MemoryStore()
    return Tap(store.begin(SPEC), limit), store


def give(tap: Tap, start: int, stop: int) -> None:
    tap.write(start, memoryview(DATA)[start:stop])


def take(source: TapSource, offset: int, length: int) -> bytes:
    return b"".join(source.read(offset, length))


def test_what_is_written_goes_into_the_store() -> None:
    tap, store = a_tap()
    give(tap, 0, SPEC.nbytes)
    tap.commit()
    assert content(store.open()) == DATA


def test_nobody_waits_where_nobody_takes() -> None:
    tap, _ = a_tap(limit=0)
    give(tap, 0, 4000)
    assert tap.wait_room(4096, 0.0) == ""


def test_what_was_computed_may_be_read_at_once() -> None:
    tap, _ = a_tap()
    source = tap.open("site-1")
    give(tap, 0, 100)
    assert tap.wait(0, WAIT) == 100
    assert take(source, 0, 60) + take(source, 60, 40) == DATA[:100]


def test_a_read_may_span_what_was_written_in_pieces() -> None:
    tap, _ = a_tap()
    source = tap.open("site-1")
    for start in range(0, 500, 100):
        give(tap, start, start + 100)
    assert take(source, 50, 400) == DATA[50:450]


def test_the_slowest_reader_is_named_when_there_is_no_room() -> None:
    tap, _ = a_tap(limit=200)
    fast, _slow = tap.open("fast"), tap.open("slow")
    give(tap, 0, 200)
    take(fast, 0, 200)
    assert tap.wait_room(100, 0.0) == "slow"


def test_room_comes_back_when_everybody_has_read_on() -> None:
    tap, _ = a_tap(limit=300)
    source = tap.open("site-1")
    for start in (0, 100, 200):
        give(tap, start, start + 100)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(tap.wait_room, 100, WAIT)
        take(source, 0, 150)
        assert waiting.result(WAIT) == ""


def test_an_element_that_a_read_ended_in_can_be_read_again() -> None:
    tap, _ = a_tap()
    source = tap.open("site-1")
    for start in range(0, 300, 100):
        give(tap, start, start + 100)
    take(source, 0, 203)
    assert take(source, 200, 100) == DATA[200:300]


def test_one_piece_passes_whatever_the_limit() -> None:
    tap, _ = a_tap(limit=0)
    tap.open("site-1")
    assert tap.wait_room(1024, 0.0) == ""


def test_there_is_room_once_all_that_can_be_read_was_read_whatever_the_limit() -> None:
    tap, _ = a_tap(limit=1)
    source = tap.open("site-1")
    for start in range(0, 3000, 1000):
        assert tap.wait_room(1000, 0.0) == ""
        give(tap, start, start + 1000)
        assert tap.wait_room(1000, 0.0) == "site-1"
        assert take(source, start, 1000) == DATA[start : start + 1000]


def test_a_reader_that_leaves_is_waited_for_no_more() -> None:
    tap, _ = a_tap(limit=100)
    tap.open("site-1")
    give(tap, 0, 100)
    assert tap.wait_room(100, 0.0) == "site-1"
    tap.leave("site-1")
    assert tap.wait_room(100, 0.0) == ""


def test_the_last_element_waits_for_the_commit() -> None:
    tap, _ = a_tap(limit=8192)
    tap.open("site-1")
    give(tap, 0, SPEC.nbytes)
    assert tap.wait(0, WAIT) == SPEC.nbytes - 4
    assert tap.wait(SPEC.nbytes - 4, 0.0) == 0
    tap.commit()
    assert tap.wait(SPEC.nbytes - 4, WAIT) == 4


def test_readers_of_a_model_that_failed_are_told() -> None:
    tap, _ = a_tap()
    tap.open("site-1")
    is_waiting = threading.Event()

    def read() -> int:
        is_waiting.set()
        return tap.wait(0, WAIT)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(read)
        is_waiting.wait(WAIT)
        tap.discard()
        with pytest.raises(StreamAborted, match="failed"):
            waiting.result(WAIT)


def test_nobody_joins_a_model_that_has_begun() -> None:
    tap, _ = a_tap()
    give(tap, 0, 4)
    with pytest.raises(ModelError, match="too late"):
        tap.open("site-1")
