"""The fan-out: what is computed goes to the store first, and to those who take it early."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from streamlink.clock import running_time
from streamlink.errors import ModelError, StreamAborted
from streamlink.rounds.lockstep.fan_out import FanOutSink, FanOutSource
from streamlink.stores.memory import MemoryStore
from tests.support.models import content, float_spec, random_bytes
from tests.support.peers import WAIT

SPEC = float_spec(1000, 24)  # 4,096 bytes
DATA = random_bytes(SPEC.nbytes)


def a_fan_out(limit: int = 1024) -> tuple[FanOutSink, MemoryStore]:
    store = MemoryStore()
    return FanOutSink(store.begin(SPEC), limit, clock=running_time), store


def give(fan_out: FanOutSink, start: int, stop: int) -> None:
    fan_out.write(start, memoryview(DATA)[start:stop])


def take(source: FanOutSource, offset: int, length: int) -> bytes:
    return b"".join(source.read(offset, length))


def test_what_is_written_goes_into_the_store() -> None:
    fan_out, store = a_fan_out()
    give(fan_out, 0, SPEC.nbytes)
    fan_out.commit()
    assert content(store.open()) == DATA


def test_nobody_waits_where_nobody_takes() -> None:
    fan_out, _ = a_fan_out(limit=0)
    give(fan_out, 0, 4000)
    assert fan_out.wait_room(4096, 0.0) == ""


def test_what_was_computed_may_be_read_at_once() -> None:
    fan_out, _ = a_fan_out()
    source = fan_out.open("site-1")
    give(fan_out, 0, 100)
    assert fan_out.wait(0, WAIT) == 100
    assert take(source, 0, 60) + take(source, 60, 40) == DATA[:100]


def test_a_read_may_span_what_was_written_in_pieces() -> None:
    fan_out, _ = a_fan_out()
    source = fan_out.open("site-1")
    for start in range(0, 500, 100):
        give(fan_out, start, start + 100)
    assert take(source, 50, 400) == DATA[50:450]


def test_the_slowest_reader_is_named_when_there_is_no_room() -> None:
    fan_out, _ = a_fan_out(limit=200)
    fast, _slow = fan_out.open("fast"), fan_out.open("slow")
    give(fan_out, 0, 200)
    take(fast, 0, 200)
    assert fan_out.wait_room(100, 0.0) == "slow"


def test_room_comes_back_when_everybody_has_read_on() -> None:
    fan_out, _ = a_fan_out(limit=300)
    source = fan_out.open("site-1")
    for start in (0, 100, 200):
        give(fan_out, start, start + 100)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(fan_out.wait_room, 100, WAIT)
        take(source, 0, 150)
        assert waiting.result(WAIT) == ""


def test_an_element_that_a_read_ended_in_can_be_read_again() -> None:
    fan_out, _ = a_fan_out()
    source = fan_out.open("site-1")
    for start in range(0, 300, 100):
        give(fan_out, start, start + 100)
    take(source, 0, 203)
    assert take(source, 200, 100) == DATA[200:300]


def test_one_piece_passes_whatever_the_limit() -> None:
    fan_out, _ = a_fan_out(limit=0)
    fan_out.open("site-1")
    assert fan_out.wait_room(1024, 0.0) == ""


def test_there_is_room_once_all_that_can_be_read_was_read_whatever_the_limit() -> None:
    fan_out, _ = a_fan_out(limit=1)
    source = fan_out.open("site-1")
    for start in range(0, 3000, 1000):
        assert fan_out.wait_room(1000, 0.0) == ""
        give(fan_out, start, start + 1000)
        assert fan_out.wait_room(1000, 0.0) == "site-1"
        assert take(source, start, 1000) == DATA[start : start + 1000]


def test_a_reader_that_leaves_is_waited_for_no_more() -> None:
    fan_out, _ = a_fan_out(limit=100)
    fan_out.open("site-1")
    give(fan_out, 0, 100)
    assert fan_out.wait_room(100, 0.0) == "site-1"
    fan_out.leave("site-1")
    assert fan_out.wait_room(100, 0.0) == ""


def test_the_last_element_waits_for_the_commit() -> None:
    fan_out, _ = a_fan_out(limit=8192)
    fan_out.open("site-1")
    give(fan_out, 0, SPEC.nbytes)
    assert fan_out.wait(0, WAIT) == SPEC.nbytes - 4
    assert fan_out.wait(SPEC.nbytes - 4, 0.0) == 0
    fan_out.commit()
    assert fan_out.wait(SPEC.nbytes - 4, WAIT) == 4


def test_readers_of_a_model_that_failed_are_told() -> None:
    fan_out, _ = a_fan_out()
    fan_out.open("site-1")
    is_waiting = threading.Event()

    def read() -> int:
        is_waiting.set()
        return fan_out.wait(0, WAIT)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(read)
        is_waiting.wait(WAIT)
        fan_out.discard()
        with pytest.raises(StreamAborted, match="failed"):
            waiting.result(WAIT)


def test_nobody_joins_a_model_that_has_begun() -> None:
    fan_out, _ = a_fan_out()
    give(fan_out, 0, 4)
    with pytest.raises(ModelError, match="too late"):
        fan_out.open("site-1")
