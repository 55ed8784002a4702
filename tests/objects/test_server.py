"""The object server: what it holds, for whom, and until when."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from streamlink.cancel import CancelToken
from streamlink.config import ObjectLimits
from streamlink.copying import digest_of
from streamlink.errors import (
    Cancelled,
    ModelError,
    ObjectExpired,
    ObjectLimit,
    ObjectRefused,
    StoreError,
    StreamAborted,
    UnknownObject,
)
from streamlink.link import ClientLink, ClientRequest, Server, receive_model
from streamlink.model import GeneratedModel, ModelSpec, TensorSpec
from streamlink.objects import ObjectClient, ObjectServer
from streamlink.objects.server import answering
from streamlink.objects.wire import Facts
from streamlink.stores import MemoryStore
from streamlink.testing import memory_address
from tests.support.objects import Exchange, some_arrays
from tests.support.peers import SMALL, WAIT, Array, assert_same
from tests.support.virtual_clock import VirtualClock

FOUR_MIB = ModelSpec((TensorSpec("w", "F32", (1 << 20,)),))


def test_the_owner_reads_an_object_by_range_by_name_and_whole(exchange: Exchange) -> None:
    arrays = some_arrays()
    reference = exchange.server.put(arrays)
    with exchange.server.open(str(reference)) as source:
        assert digest_of(source) == reference.digest
        assert source.keys() == list(arrays)
        assert_same({name: source[name] for name in source}, arrays)
    store = MemoryStore()
    exchange.server.get(reference, store)
    assert_same(store.arrays, arrays)


def test_a_read_by_the_owner_is_used_up_when_it_is_closed(exchange: Exchange) -> None:
    reference = exchange.server.put(some_arrays(), reads=1)
    source = exchange.server.open(reference)
    with pytest.raises(ObjectRefused, match="the server reads it now"):
        exchange.server.open(reference)
    source.close()
    source.close()
    assert len(exchange.server) == exchange.server.nbytes == 0
    with pytest.raises(ObjectRefused, match="no reads left"):
        exchange.server.get(reference, MemoryStore())


def test_a_copy_that_fails_is_no_read(exchange: Exchange) -> None:
    reference = exchange.server.put(some_arrays(), reads=1)
    with pytest.raises(ModelError):
        exchange.server.get(reference, {"other": np.zeros(3)})
    exchange.server.get(reference, MemoryStore())


def test_a_dropped_object_is_gone(exchange: Exchange) -> None:
    reference = exchange.server.put(some_arrays())
    exchange.server.drop(reference)
    exchange.server.drop(str(reference))
    with pytest.raises(UnknownObject, match="dropped"):
        exchange.server.open(reference)


def test_a_put_that_fails_takes_no_room(exchange: Exchange) -> None:
    for wrong in ({"readers": "site-1"}, {"readers": ("a", "a")}, {"reads": 0}, {"ttl": -1.0}):
        with pytest.raises(ValueError):
            exchange.server.put(some_arrays(), **wrong)
    assert not len(exchange.server)


def test_what_is_put_is_bounded_in_number_and_bytes() -> None:
    with Exchange(limits=ObjectLimits(max_objects=2, max_bytes=3000)) as exchange:
        with pytest.raises(ObjectLimit, match="max_bytes"):
            exchange.server.put({"w": np.zeros(3001, np.uint8)})
        for _ in range(2):
            exchange.server.put({"w": np.zeros(1, np.uint8)})
        with pytest.raises(ObjectLimit, match="max_objects"):
            exchange.server.put({"w": np.zeros(1, np.uint8)})


def test_what_nobody_fetches_is_released_at_its_time_without_a_call() -> None:
    clock = VirtualClock()
    released = []

    class Model:
        spec = MemoryStore({"w": np.zeros(3)}).open().spec

        def read(self, offset: int, length: int) -> tuple[memoryview, ...]:
            return (memoryview(bytes(length)),)

        def close(self) -> None:
            released.append(clock())

    class Store:
        def open(self) -> Model:
            return Model()

        def begin(self, spec: object) -> None:
            raise NotImplementedError

    with clock.running(), Exchange(clock=clock) as exchange:
        began = clock()
        reference = exchange.server.put(Store(), ttl=500.0)  # type: ignore[arg-type]
        gone = clock.event()
        gone.wait(501)
        assert released == [began + 500]
        with pytest.raises(ObjectExpired):
            exchange.server.open(reference)


def test_a_reference_from_before_a_restart_is_unknown_and_the_error_says_so() -> None:
    with Exchange() as before:
        reference = before.server.put(some_arrays())
    with Exchange() as after, pytest.raises(UnknownObject, match="started again"):
        after.server.open(reference)


def test_a_closed_server_is_not_opened_again_and_holds_nothing() -> None:
    with Exchange() as exchange:
        reference = exchange.server.put(some_arrays())
    assert len(exchange.server) == 0
    with pytest.raises(UnknownObject):
        exchange.server.open(reference)
    with pytest.raises(RuntimeError, match="make another one"):
        exchange.server.listen()
    with pytest.raises(RuntimeError, match="closed"):
        exchange.server.put(some_arrays())


def test_the_servers_token_ends_a_put_that_reads_the_model() -> None:
    token, read = CancelToken(), list[int]()

    def fill(tensor: TensorSpec, start: int, out: Array) -> None:
        read.append(out.nbytes)
        token.cancel("enough")
        out.fill(0)

    with ObjectServer(memory_address(), cancel=token) as server:
        with pytest.raises(Cancelled, match="enough"):
            server.put(GeneratedModel(FOUR_MIB, fill))
        assert sum(read) < FOUR_MIB.nbytes
        assert len(server) == 0
        with pytest.raises(Cancelled, match="enough"):
            server.put(some_arrays(), digest="")


@pytest.mark.parametrize("digest", ["abc", "G" * 64, "0" * 63])
def test_a_digest_that_cannot_be_one_is_refused_at_once(digest: str) -> None:
    with ObjectServer(memory_address()) as server:
        with pytest.raises(ValueError, match=r"is none: pass what digest_of\(model\) returns"):
            server.put(some_arrays(), digest=digest)
        assert len(server) == 0


def test_the_servers_token_ends_a_copy_which_is_no_read() -> None:
    token, store = CancelToken(), MemoryStore()
    with ObjectServer(memory_address(), cancel=token) as server:
        reference = server.put({"w": np.zeros(1 << 20, np.float32)}, reads=1)
        with pytest.raises(Cancelled, match="enough"):
            server.get(reference, store, lambda done: token.cancel("enough"))
        assert len(server) == 1
    with pytest.raises(StoreError, match="no model yet"):
        store.open()


def test_a_server_that_is_passed_in_has_a_token_of_its_own() -> None:
    server = Server(memory_address())
    with pytest.raises(ValueError, match="its own token"):
        ObjectServer(server, cancel=CancelToken())
    ObjectServer(server, cancel=server.cancel).close()


def test_objects_are_served_beside_what_a_server_does_already() -> None:
    with Server(memory_address(), SMALL) as server:
        objects = ObjectServer(server)
        with objects:
            assert objects.listen() is objects
            assert objects.address == server.address
            assert objects.port == server.port
            assert server.listen() is server
            with pytest.raises(ValueError, match="handler already"):
                ObjectServer(server)
        with ObjectServer(server) as others:
            reference = others.put(some_arrays())
            with ObjectClient(server.address, name="site-1", config=SMALL) as client:
                client.get(reference, store := MemoryStore())
    assert_same(store.arrays, some_arrays())


def test_a_closed_object_server_refuses_clients_of_the_server_that_goes_on(
    exchange: Exchange,
) -> None:
    client = exchange.client()
    reference = client.put(some_arrays(), readers=None)
    exchange.server.close("the work is done")
    with pytest.raises(ObjectRefused, match="the work is done"):
        client.put(some_arrays())
    with pytest.raises(UnknownObject, match="the work is done"):
        client.get(reference, MemoryStore())
    assert len(exchange.server) == 0


def test_a_server_names_the_clients_that_are_connected_now(exchange: Exchange) -> None:
    assert list(exchange.server.clients) == []
    for name in ("site-2", "site-1"):
        exchange.client(name).put(some_arrays())
    assert list(exchange.server.clients) == ["site-1", "site-2"]
    exchange.client("site-2").close()
    assert exchange.link.wait_until_left("site-2", WAIT)
    assert list(exchange.server.clients) == ["site-1"]


def test_closing_ends_a_lazy_read_that_waits(exchange: Exchange) -> None:
    arrives, goes_on = threading.Event(), threading.Event()

    class Waiting:
        spec = MemoryStore({"w": np.zeros(3)}).open().spec

        def read(self, offset: int, length: int) -> tuple[memoryview, ...]:
            arrives.set()
            assert goes_on.wait(WAIT)
            return (memoryview(bytes(length)),)

        def close(self) -> None:
            pass

    lazy = exchange.client().open(exchange.server.put(Waiting(), digest=""))
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(lazy.read, 0, 8)
        try:
            assert arrives.wait(WAIT)
            exchange.server.close("the work is done")
            with pytest.raises(StreamAborted, match="the work is done"):
                read.result(WAIT)
        finally:
            goes_on.set()


def test_an_error_after_the_answer_reaches_the_client_as_it_was() -> None:
    spec = MemoryStore(some_arrays()).open().spec

    def late(asked: ClientRequest, facts: Facts) -> None:
        asked.send(spec)
        raise ObjectRefused("it was given up meanwhile")

    with Server(memory_address(), SMALL) as server:
        server.serve("late", partial(answering, late))
        with (
            ClientLink(server.address, name="site-1", config=SMALL) as link,
            link.ask("late") as answer,
            pytest.raises(StreamAborted, match="it was given up meanwhile"),
        ):
            receive_model(answer.receive(), lambda model: MemoryStore().begin(model.spec))
