"""What a server holds, where the reads of it end at any moment."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from weakref import finalize, ref

import pytest

from streamlink.clock import running_time
from streamlink.config import ObjectLimits
from streamlink.objects import ObjectServer, OpenObject
from streamlink.objects.holding import Holding
from streamlink.stores import MemoryStore
from tests.support.collecting import CollectingSeconds, collecting_only_there, in_cycle
from tests.support.objects import Exchange, some_arrays
from tests.support.peers import WAIT


@pytest.fixture(autouse=True)
def _collects_when_it_is_told_to() -> Iterator[None]:
    with collecting_only_there():
        yield


class Reader:
    """Whoever reads an object, and closes it when nothing refers to the reader any more."""

    def __init__(self, opened: OpenObject) -> None:
        finalize(self, opened.close_later)


def read_in_cycle(server: ObjectServer) -> None:
    """Open an object, which is gone after that read, and leave its reader to the collector."""
    in_cycle(Reader(server.open(server.put(some_arrays(), reads=1))))


def test_a_read_that_the_collector_ends_inside_the_shelf_changes_nothing_there() -> None:
    server = ObjectServer()
    server.put(some_arrays(), ttl=CollectingSeconds(60))
    read_in_cycle(server)
    server.put(some_arrays())
    assert len(server) == 2
    server.close()


def test_many_reads_that_end_together_are_ended_one_after_another() -> None:
    server = ObjectServer()
    for _ in range(900):
        read_in_cycle(server)
    gc.collect()
    assert len(server) == 0
    server.close()


class NotingStore(MemoryStore):
    """A store that notes when its model is closed."""

    def __init__(self) -> None:
        super().__init__(some_arrays())
        self.is_closed = threading.Event()

    def open(self) -> Any:
        model = super().open()
        return SimpleNamespace(spec=model.spec, read=model.read, close=self.is_closed.set)


def test_what_the_collector_ends_is_released_without_another_call(exchange: Exchange) -> None:
    store = NotingStore()
    reference = exchange.server.put(store, reads=1)
    in_cycle(Reader(exchange.server.open(reference)))
    gc.collect()
    assert store.is_closed.wait(WAIT)


def test_a_read_that_fails_to_end_is_nobody_elses_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def failing() -> None:
        raise OSError("the disk is gone")

    holding = Holding(ObjectLimits(), running_time)
    holding.end_later(failing)
    with holding.on_shelf() as shelf:
        assert len(shelf) == 0
    assert "the disk is gone" in caplog.text


def test_what_ends_after_its_server_is_let_go_of() -> None:
    server = ObjectServer()
    opened = server.open(server.put(some_arrays()))
    server.close()
    opened.close_later()
    gone = ref(opened)
    del opened
    assert gone() is None
