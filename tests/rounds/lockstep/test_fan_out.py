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

SPEC = float_spec(10_000, 240)  # 40,960 bytes
BLOCK = 1024  # of 256 elements
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
    give(fan_out, 0, 40_000)
    assert fan_out.wait_room(40_960, 0.0) == ""


def test_what_was_computed_may_be_read_at_once() -> None:
    fan_out, _ = a_fan_out()
    source = fan_out.open("site-1")
    give(fan_out, 0, BLOCK)
    assert fan_out.wait(0, WAIT) == BLOCK
    assert take(source, 0, 600) + take(source, 600, BLOCK - 600) == DATA[:BLOCK]


def test_a_block_is_read_when_all_of_it_was_computed() -> None:
    fan_out, _ = a_fan_out()
    fan_out.open("site-1")
    give(fan_out, 0, 2 * BLOCK + 100)
    assert fan_out.wait(0, WAIT) == 2 * BLOCK
    give(fan_out, 2 * BLOCK + 100, 39 * BLOCK + 64)  # the first tensor, whose last block is short
    assert fan_out.wait(0, WAIT) == 39 * BLOCK + 64


def test_a_read_may_span_what_was_written_in_pieces() -> None:
    fan_out, _ = a_fan_out()
    source = fan_out.open("site-1")
    for start in range(0, 2 * BLOCK, 256):
        give(fan_out, start, start + 256)
    assert take(source, 50, 1500) == DATA[50:1550]


def test_the_slowest_reader_is_named_when_there_is_no_room() -> None:
    fan_out, _ = a_fan_out(limit=2 * BLOCK)
    fast, _slow = fan_out.open("fast"), fan_out.open("slow")
    give(fan_out, 0, 2 * BLOCK)
    take(fast, 0, 2 * BLOCK)
    assert fan_out.wait_room(100, 0.0) == "slow"


def test_room_comes_back_when_everybody_has_read_on() -> None:
    fan_out, _ = a_fan_out(limit=6 * BLOCK)
    source = fan_out.open("site-1")
    for start in range(0, 6 * BLOCK, BLOCK):
        give(fan_out, start, start + BLOCK)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(fan_out.wait_room, 100, WAIT)
        take(source, 0, 5 * BLOCK)  # what the next read may need again is kept
        assert waiting.result(WAIT) == ""


def test_a_block_that_a_read_ended_in_can_be_read_again() -> None:
    fan_out, _ = a_fan_out()
    source = fan_out.open("site-1")
    for start in range(0, 10 * BLOCK, 256):
        give(fan_out, start, start + 256)
    take(source, 0, 9 * BLOCK + 3)
    assert take(source, 9 * BLOCK, BLOCK) == DATA[9 * BLOCK : 10 * BLOCK]


def test_one_piece_passes_whatever_the_limit() -> None:
    fan_out, _ = a_fan_out(limit=0)
    fan_out.open("site-1")
    assert fan_out.wait_room(1024, 0.0) == ""


def test_there_is_room_once_all_that_can_be_read_was_read_whatever_the_limit() -> None:
    fan_out, _ = a_fan_out(limit=1)
    source = fan_out.open("site-1")
    for start in range(0, 3 * BLOCK, BLOCK):
        assert fan_out.wait_room(BLOCK, 0.0) == ""
        give(fan_out, start, start + BLOCK)
        assert fan_out.wait_room(BLOCK, 0.0) == "site-1"
        assert take(source, start, BLOCK) == DATA[start : start + BLOCK]


def test_a_reader_that_leaves_is_waited_for_no_more() -> None:
    fan_out, _ = a_fan_out(limit=BLOCK)
    fan_out.open("site-1")
    give(fan_out, 0, BLOCK)
    assert fan_out.wait_room(BLOCK, 0.0) == "site-1"
    fan_out.leave("site-1")
    assert fan_out.wait_room(BLOCK, 0.0) == ""


def test_the_last_block_waits_for_the_commit() -> None:
    fan_out, _ = a_fan_out(limit=2 * SPEC.nbytes)
    fan_out.open("site-1")
    give(fan_out, 0, SPEC.nbytes)
    last = SPEC.tensors[-1].nbytes
    assert fan_out.wait(0, WAIT) == SPEC.nbytes - last
    assert fan_out.wait(SPEC.nbytes - last, 0.0) == 0
    fan_out.commit()
    assert fan_out.wait(SPEC.nbytes - last, WAIT) == last


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
