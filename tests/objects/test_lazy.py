"""Lazy reading: the bytes of the object, whatever the order, in the memory of a window."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import numpy as np
import pytest

from streamlink.cancel import CancelToken
from streamlink.config import LinkConfig
from streamlink.copying import digest_of
from streamlink.errors import (
    AbortCode,
    Cancelled,
    ChecksumError,
    CommunicationTimeout,
    ObjectExpired,
    ObjectRefused,
    StreamAborted,
    StreamlinkError,
    UnknownObject,
)
from streamlink.link import SendTransfer
from streamlink.objects.lines import LINES_PER_CLIENT
from streamlink.objects.opened import OpenObject
from streamlink.stores import MemoryStore
from tests.support.models import content, pattern_model
from tests.support.objects import Exchange, some_arrays
from tests.support.peers import ODD, SMALL, WAIT, assert_same, until
from tests.support.virtual_clock import VirtualClock


def test_an_object_is_a_source_and_a_mapping_of_tensors(exchange: Exchange) -> None:
    arrays = some_arrays()
    reference = exchange.server.put(arrays)
    with exchange.client().open(str(reference)) as lazy:
        assert lazy.keys() == list(arrays)
        assert all(np.array_equal(arrays[name], array) for name, array in lazy.items())
        assert [array.nbytes for array in lazy.values()] == [a.nbytes for a in arrays.values()]
        assert "bias" in lazy
        assert "other" not in lazy
        assert len(lazy) == len(arrays)
        assert_same({name: lazy[name] for name in lazy}, arrays)
        assert digest_of(lazy) == reference.digest
        with pytest.raises(KeyError):
            lazy["other"]


def test_ranges_in_any_order_bring_their_bytes(exchange: Exchange) -> None:
    model = pattern_model(ODD)
    whole, dice = content(model), random.Random(7)
    with exchange.client().open(exchange.server.put(model), kept_bytes=1) as lazy:
        for _ in range(60):
            start = dice.randrange(len(whole) + 1)
            length = min(dice.choice([0, 1, 3, 500, 9000]), len(whole) - start)
            payload = lazy.read(start, length)
            assert b"".join(payload) == whole[start : start + length]
        with pytest.raises(ValueError, match="not inside"):
            lazy.read(len(whole), 1)


class Watched:
    """A model that notes what is read of it."""

    def __init__(self) -> None:
        self._model = pattern_model(ODD)
        self.spec = ODD
        self.reads: list[tuple[int, int]] = []

    def read(self, offset: int, length: int) -> tuple[memoryview, ...]:
        self.reads.append((offset, length))
        return self._model.read(offset, length)

    def close(self) -> None:
        """Do nothing."""


def test_reading_in_order_takes_one_stream_and_a_jump_takes_another(exchange: Exchange) -> None:
    facts: list[int] = []
    client = exchange.client()
    with client.open(exchange.server.put(pattern_model(ODD)), kept_bytes=1) as lazy:
        for start in range(0, ODD.nbytes, 1000):
            lazy.read(max(0, start - 16), min(1000, ODD.nbytes - start))
        facts.append(exchange.asked["object.read"])
        lazy.read(100, 10)
        lazy.read(50, 10)
        facts.append(exchange.asked["object.read"])
    assert facts == [2, 4]  # the description, the line; two jumps


def test_several_threads_read_one_object(exchange: Exchange) -> None:
    model = pattern_model(ODD)
    whole = content(model)
    with (
        exchange.client().open(exchange.server.put(model), kept_bytes=1) as lazy,
        ThreadPoolExecutor(4) as pool,
    ):
        starts = range(0, len(whole) - 100, 997)
        found = pool.map(lambda start: b"".join(lazy.read(start, 100)), starts)
        assert list(found) == [whole[start : start + 100] for start in starts]


def test_more_objects_than_streams_are_read_in_turn(exchange: Exchange) -> None:
    client, number = exchange.client(), 3 * LINES_PER_CLIENT
    references = [exchange.server.put(pattern_model(ODD, seed)) for seed in range(number)]
    wholes = [content(pattern_model(ODD, seed)) for seed in range(number)]
    objects = [client.open(reference, kept_bytes=1) for reference in references]
    for start in range(0, 6000, 2000):
        for lazy, whole in zip(objects, wholes, strict=True):
            assert b"".join(lazy.read(start, 2000)) == whole[start : start + 2000]
    with ThreadPoolExecutor(number) as pool:
        for found, whole in zip(pool.map(content, objects), wholes, strict=True):
            assert found == whole
    for lazy in objects:
        lazy.close()


def test_closing_uses_up_one_read_and_an_error_returns_it(exchange: Exchange) -> None:
    reference, client = exchange.server.put(some_arrays(), reads=1), exchange.client()
    with pytest.raises(KeyError), client.open(reference) as lazy:
        lazy["other"]
    lazy = client.open(reference)
    with pytest.raises(ObjectRefused, match="no reads left"):
        exchange.client("site-2").open(reference)
    lazy["bias"]
    lazy.close()
    lazy.close()
    until(lambda: not len(exchange.server))
    with pytest.raises(ObjectRefused, match="no reads left"):
        client.open(reference)
    with pytest.raises(ValueError, match="was closed"):
        lazy["bias"]


def test_a_reader_that_has_had_every_byte_has_used_up_its_read(exchange: Exchange) -> None:
    reference, client = exchange.server.put(some_arrays(), reads=1), exchange.client()
    lazy = client.open(reference)
    digest_of(lazy)
    with pytest.raises(KeyError), lazy:
        lazy["other"]
    with pytest.raises(ObjectRefused, match="no reads left"):
        client.open(reference)


def test_reads_after_the_expiry_or_the_drop_say_why() -> None:
    clock = VirtualClock()
    with clock.running(), Exchange(clock=clock) as exchange:
        client = exchange.client()
        lazy = client.open(exchange.server.put(some_arrays(), ttl=50.0))
        lazy["bias"]
        clock.event().wait(60)
        with pytest.raises(ObjectExpired):
            lazy["weight"]
        reference = exchange.server.put(some_arrays())
        other = client.open(reference)
        exchange.server.drop(reference)
        with pytest.raises(UnknownObject, match="dropped"):
            other["weight"]


def test_a_stream_that_nobody_reads_is_given_back_and_reading_goes_on_later() -> None:
    clock = VirtualClock()
    with clock.running(), Exchange(clock=clock) as exchange:
        model = pattern_model(ODD)
        lazy = exchange.client().open(exchange.server.put(model), kept_bytes=1)
        lazy.read(0, 1000)
        before = exchange.asked["object.read"]
        clock.event().wait(100)
        assert content(lazy) == content(model)
        assert exchange.asked["object.read"] == before + 1


def test_an_object_that_was_changed_is_noticed_when_it_was_read_to_its_end(
    exchange: Exchange,
) -> None:
    arrays = some_arrays()
    reference = exchange.server.put(arrays)
    arrays["bias"][5] += 1
    with (
        pytest.raises(ChecksumError, match="was changed since"),
        exchange.client().open(reference) as lazy,
    ):
        digest_of(lazy)


def test_a_token_ends_a_read_that_waits(exchange: Exchange) -> None:
    arrives, goes_on = exchange.clock.event(), exchange.clock.event()

    class Waiting(Watched):
        def read(self, offset: int, length: int) -> tuple[memoryview, ...]:
            arrives.set()
            goes_on.wait(60)
            return super().read(offset, length)

    cancel = CancelToken()
    lazy = exchange.client().open(exchange.server.put(Waiting(), digest=""), cancel=cancel)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(lazy.read, 0, 10)
        arrives.wait(60)
        cancel.cancel("enough")
        with pytest.raises(Cancelled, match="enough"):
            read.result(60)
        goes_on.set()


@contextmanager
def all_lines_taken(exchange: Exchange) -> Iterator[list[OpenObject]]:
    """Let as many readers of one client as may have a stream wait for a slow model."""
    arrive, goes_on = threading.Semaphore(0), exchange.clock.event()

    class Waiting(Watched):
        def read(self, offset: int, length: int) -> tuple[memoryview, ...]:
            arrive.release()
            assert goes_on.wait(WAIT)
            return super().read(offset, length)

    def read(lazy: OpenObject) -> None:
        with suppress(ValueError, StreamlinkError):
            lazy.read(0, 10)

    client = exchange.client()
    with ThreadPoolExecutor(LINES_PER_CLIENT) as pool:
        try:
            slow = [
                client.open(exchange.server.put(Waiting(), digest=""))
                for _ in range(LINES_PER_CLIENT)
            ]
            for lazy in slow:
                pool.submit(read, lazy)
            for _ in slow:
                assert arrive.acquire(timeout=WAIT)
            yield slow
        finally:
            goes_on.set()


def one_handler_of_each_kind() -> LinkConfig:
    limits = SMALL.limits.model_copy(update={"max_handlers": 1, "max_streams": 4})
    return SMALL.model_copy(update={"limits": limits})


def test_what_is_read_lazily_is_put_at_the_same_time() -> None:
    with Exchange(config=one_handler_of_each_kind()) as exchange:
        client = exchange.client()
        with client.open(exchange.server.put(pattern_model(ODD))) as lazy:
            copy = client.put(lazy, timeout=WAIT)
        with exchange.server.open(copy) as source:
            assert content(source) == content(pattern_model(ODD))


def test_a_read_is_ended_while_slow_readers_have_all_handlers() -> None:
    arrives, goes_on = threading.Event(), threading.Event()

    class Waiting(Watched):
        def read(self, offset: int, length: int) -> tuple[memoryview, ...]:
            arrives.set()
            assert goes_on.wait(WAIT)
            return super().read(offset, length)

    with Exchange(config=one_handler_of_each_kind()) as exchange, ThreadPoolExecutor(1) as pool:
        slow = exchange.server.put(Waiting(), digest="")
        client, once = exchange.client(), exchange.server.put(some_arrays(), reads=1)
        lazy = client.open(once)
        lazy["bias"]
        got = pool.submit(client.get, slow, MemoryStore())
        try:
            assert arrives.wait(WAIT)
            lazy.close()
            until(lambda: len(exchange.server) == 1)
        finally:
            goes_on.set()
        got.result(WAIT)


def test_an_open_object_costs_the_server_no_transfer(exchange: Exchange) -> None:
    def transfers() -> int:
        gc.collect()
        # Not ``isinstance``, which asks strange objects of other tests for their class.
        return sum(type(each) is SendTransfer for each in gc.get_objects())

    before = transfers()
    reference, client = exchange.server.put(some_arrays()), exchange.client()
    lazies = [client.open(reference) for _ in range(3)]
    until(lambda: transfers() <= before)
    assert_same({"bias": lazies[-1]["bias"]}, {"bias": some_arrays()["bias"]})


def test_a_read_whose_end_the_server_did_not_hear_is_ended_later() -> None:
    clock, tries = VirtualClock(), iter(range(9))

    def lose_the_first() -> None:
        if next(tries) == 0:
            clock.event().wait(10)  # for longer than ``close`` waits
            raise StreamAborted(AbortCode.CANCELLED, "lost", by_peer=False)

    with clock.running(), Exchange(clock=clock) as exchange:
        exchange.before["object.close"] = lose_the_first
        lazy = exchange.client().open(exchange.server.put(some_arrays(), reads=1))
        lazy["bias"]
        lazy.close()
        assert len(exchange.server) == 1
        is_released = clock.event()
        while len(exchange.server):
            assert not is_released.wait(1)
            assert clock() < 1100


def test_a_reader_that_waits_for_a_stream_obeys_its_timeout() -> None:
    clock = VirtualClock()
    with clock.running(), Exchange(clock=clock) as exchange, all_lines_taken(exchange):
        lazy = exchange.client().open(exchange.server.put(some_arrays()), timeout=1.0)
        began = clock()
        with pytest.raises(CommunicationTimeout, match="timeout"):
            lazy.read(0, 10)
        assert clock() < began + 5  # not when another reader gives up its stream


def test_closing_ends_a_read_that_waits_for_bytes_or_for_a_stream(exchange: Exchange) -> None:
    with ThreadPoolExecutor(2 + LINES_PER_CLIENT) as pool, all_lines_taken(exchange) as slow:
        lazy = exchange.client().open(exchange.server.put(some_arrays()))
        waiting = pool.submit(lazy.read, 0, 10)
        until(waiting.running)
        for closed in [pool.submit(each.close) for each in (lazy, *slow)]:
            closed.result(WAIT / 2)
        with pytest.raises(ValueError, match="was closed"):
            waiting.result(WAIT / 2)


def test_many_readers_that_run_close_together_read_the_source_once(exchange: Exchange) -> None:
    model = Watched()
    reference = exchange.server.put(model, digest="")
    clients = [exchange.client(f"site-{n}") for n in range(3)]
    objects = [client.open(reference, kept_bytes=1) for client in clients]
    for start in range(0, ODD.nbytes, 5000):
        for lazy in objects:
            lazy.read(start, min(5000, ODD.nbytes - start))
    assert sum(length for _, length in model.reads) == ODD.nbytes
