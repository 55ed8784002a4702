"""The object client: it dials, and fetches what it may."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from streamlink.cancel import CancelToken
from streamlink.config import ObjectLimits
from streamlink.copying import copy_model, digest_of
from streamlink.errors import (
    Cancelled,
    ChecksumError,
    InvalidReference,
    ModelError,
    ObjectExpired,
    ObjectLimit,
    ObjectRefused,
    SourceChanged,
    UnknownObject,
)
from streamlink.link import Server, TransferFacts
from streamlink.objects import ObjectClient, ObjectServer, Reference
from streamlink.objects.wire import READ
from streamlink.stores import ArrayModel, MemoryStore, SafetensorsStore
from streamlink.testing import memory_address
from tests.support.models import pattern_model
from tests.support.objects import Exchange, some_arrays
from tests.support.peers import ODD, SMALL, WAIT, assert_same, until
from tests.support.virtual_clock import VirtualClock


def test_what_the_server_puts_a_client_gets_over_real_sockets() -> None:
    arrays = some_arrays()
    with Exchange("127.0.0.1:0") as exchange:
        reference = exchange.server.put(arrays, readers=("site-1",), reads=1, ttl=60.0)
        store = MemoryStore()
        receipt = exchange.client("site-1").get(str(reference), store)
        assert receipt.digest == reference.digest
        assert_same(store.arrays, arrays)
        until(lambda: not len(exchange.server))


def test_a_client_tells_that_its_session_is_over_for_good() -> None:
    address = memory_address()
    with (
        ObjectServer(address, config=SMALL) as server,
        ObjectClient(address, name="site-1", config=SMALL) as client,
    ):
        assert not client.is_over
        server.close()
        until(lambda: client.is_over)


def test_an_object_goes_into_arrays_or_a_directory_and_progress_is_reported(
    exchange: Exchange, tmp_path: Path
) -> None:
    arrays = some_arrays()
    reference, client = exchange.server.put(arrays), exchange.client()
    into = {name: np.zeros_like(array) for name, array in arrays.items()}
    steps: list[tuple[str, int, int]] = []
    client.get(reference, into, progress=lambda *step: steps.append(step))
    assert_same(into, arrays)
    assert steps[-1] == ("receiving", reference.nbytes, reference.nbytes)
    client.get(reference, tmp_path / "model")
    assert SafetensorsStore(tmp_path / "model").open().digest() == reference.digest


def test_a_client_that_is_no_reader_is_refused_by_the_name_of_its_session(
    exchange: Exchange,
) -> None:
    reference = exchange.server.put(some_arrays(), readers=("site-1",))
    with pytest.raises(ObjectRefused, match="not meant for 'site-2'"):
        exchange.client("site-2").get(reference, MemoryStore())


def test_a_reference_that_was_tampered_with_opens_nothing(exchange: Exchange) -> None:
    text = str(exchange.server.put(some_arrays()))
    other = text[:-8] + ("A" if text[-8] != "A" else "B") + text[-7:]
    client = exchange.client()
    with pytest.raises(ObjectRefused, match="forged"):
        client.get(Reference.parse(other), MemoryStore())
    with pytest.raises(InvalidReference):
        client.get(text[:-1], MemoryStore())


def test_a_reference_of_an_earlier_server_is_unknown(exchange: Exchange) -> None:
    with Exchange() as before:
        reference = before.server.put(some_arrays())
    with pytest.raises(UnknownObject, match="started again"):
        exchange.client().get(reference, MemoryStore())


def test_the_last_read_of_a_client_that_leaves_at_once_is_counted() -> None:
    may_end = threading.Event()

    def hold(facts: TransferFacts) -> None:
        assert may_end.wait(WAIT)

    link = Server(memory_address(), SMALL, on_transfer=hold)
    with ObjectServer(link) as server, link:
        reference = server.put(some_arrays(), reads=1)
        client = ObjectClient(link.address, name="site-1", config=SMALL).start()
        try:
            client.get(reference, MemoryStore())
            client.close()
            # Counted, although the thread that has sent it has not come to that yet.
            with pytest.raises(ObjectRefused, match=r"no reads left; put it again, with more"):
                server.open(reference)
        finally:
            may_end.set()


def test_a_get_that_the_target_refuses_is_no_read(exchange: Exchange) -> None:
    reference, client = exchange.server.put(some_arrays(), reads=1), exchange.client()
    with pytest.raises(ModelError):
        client.get(reference, {"other": np.zeros(3)})
    client.get(reference, MemoryStore())


def test_a_model_that_changed_since_it_was_put_is_not_committed(exchange: Exchange) -> None:
    arrays = some_arrays()
    reference, client = exchange.server.put(arrays), exchange.client()
    arrays["bias"][5] += 1
    store = MemoryStore({"old": np.zeros(2)})
    with pytest.raises(ChecksumError, match="was changed since"):
        client.get(reference, store)
    assert list(store.arrays) == ["old"]


def test_many_gets_of_one_client_run_at_the_same_time(exchange: Exchange) -> None:
    client = exchange.client()
    references = [exchange.server.put(some_arrays(seed)) for seed in range(12)]

    def get(reference: Reference) -> MemoryStore:
        store = MemoryStore()
        client.get(reference, store)
        return store

    with ThreadPoolExecutor(12) as pool:
        for seed, store in enumerate(pool.map(get, references)):
            assert_same(store.arrays, some_arrays(seed))


def test_a_transfer_that_runs_when_its_object_expires_finishes() -> None:
    clock = VirtualClock()

    class Slow:
        """A model each of whose ranges takes a minute."""

        spec = ArrayModel(some_arrays()).spec
        reads = 0

        def read(self, offset: int, length: int) -> tuple[memoryview, ...]:
            self.reads += 1
            clock.event().wait(60)
            return (memoryview(bytes(length)),)

        def close(self) -> None:
            pass

    with clock.running(), Exchange(clock=clock) as exchange:
        model, client, began = Slow(), exchange.client(), clock()
        reference = exchange.server.put(model, ttl=30.0, digest="")
        client.get(reference, MemoryStore())
        assert clock() - began >= 60 * model.reads > 30
        until(lambda: not len(exchange.server))
        with pytest.raises(ObjectExpired):
            client.get(reference, MemoryStore())


# --- putting ----------------------------------------------------------------------------------


@pytest.fixture(params=["spool", "memory"])
def taking(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Exchange]:
    spool = tmp_path / "spool" if request.param == "spool" else None
    with Exchange(spool=spool) as made:
        yield made


def folders(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "spool").glob("*") if path.is_dir()]


def test_what_a_client_puts_the_server_reads_and_the_last_read_removes_it(
    taking: Exchange, tmp_path: Path
) -> None:
    arrays, server = some_arrays(), taking.server
    reference = taking.client().put(arrays, reads=1, ttl=60.0)
    assert reference.readers == ()
    assert reference.nbytes == server.nbytes == sum(each.nbytes for each in arrays.values())
    with server.open(reference) as source:
        assert digest_of(source) == reference.digest == digest_of(arrays)
        assert_same({name: source[name] for name in source}, arrays)
    assert len(server) == 0
    assert not folders(tmp_path)


def test_what_one_client_puts_another_gets_if_it_is_a_reader(taking: Exchange) -> None:
    arrays = some_arrays()
    reference = taking.client("site-1").put(arrays, readers=("site-2",))
    store = MemoryStore()
    taking.client("site-2").get(reference, store)
    assert_same(store.arrays, arrays)
    with pytest.raises(ObjectRefused, match="not meant for 'site-1'"):
        taking.client("site-1").get(reference, MemoryStore())


def test_a_model_without_bytes_travels_both_ways(taking: Exchange) -> None:
    arrays = {"none": np.zeros((0, 4), np.float32)}
    client = taking.client()
    reference = client.put(arrays, readers=None)
    store = MemoryStore()
    client.get(reference, store)
    assert_same(store.arrays, arrays)


def test_two_puts_of_the_same_files_are_two_objects(taking: Exchange, tmp_path: Path) -> None:
    copy_model(some_arrays(), tmp_path / "model")
    client = taking.client()
    first, second = client.put(tmp_path / "model"), client.put(tmp_path / "model")
    assert first.id != second.id
    assert len(taking.server) == 2


def test_a_dropped_upload_leaves_nothing_behind(taking: Exchange, tmp_path: Path) -> None:
    reference = taking.client().put(some_arrays())
    taking.server.drop(reference)
    assert taking.server.nbytes == 0
    assert not folders(tmp_path)


def test_a_client_drops_what_it_has_put_and_may_do_it_twice(
    taking: Exchange, tmp_path: Path
) -> None:
    client = taking.client()
    reference = client.put(some_arrays())
    client.drop(reference)
    client.drop(str(reference))
    assert len(taking.server) == 0
    assert not folders(tmp_path)


def test_a_client_drops_nothing_that_others_have_put(taking: Exchange) -> None:
    arrays, client = some_arrays(), taking.client("site-1")
    others = taking.client("site-2").put(arrays, readers=None), taking.server.put(arrays)
    for reference in others:
        with pytest.raises(ObjectRefused, match="was not put by 'site-1'"):
            client.drop(reference)
    assert len(taking.server) == 2


def test_a_server_reads_on_in_what_its_client_has_dropped(taking: Exchange) -> None:
    arrays, client = some_arrays(), taking.client()
    reference = client.put(arrays, readers=())
    with taking.server.open(reference) as source:
        client.drop(reference)
        assert_same({name: source[name] for name in source}, arrays)
    assert len(taking.server) == 0


@pytest.mark.parametrize("is_kept", [False, True])
def test_what_has_arrived_of_a_put_that_was_cancelled_stays_where_it_can_go_on(
    taking: Exchange, tmp_path: Path, is_kept: bool
) -> None:
    copy_model(some_arrays(), tmp_path / "files")
    model = tmp_path / "files" if is_kept else some_arrays()
    token = CancelToken()

    def stop(phase: str, done: int, total: int) -> None:
        if done > total // 2:
            token.cancel("that is enough")

    with pytest.raises(Cancelled):
        taking.client().put(model, cancel=token, progress=stop)
    goes_on = is_kept and (tmp_path / "spool").exists()
    until(lambda: len(taking.server) == goes_on)


def test_a_put_that_is_too_much_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    limits = ObjectLimits(max_objects=2, max_bytes=200, max_memory_bytes=100, max_ttl=60.0, ttl=9.0)
    many = {"w": np.zeros(101, np.uint8)}
    with Exchange(limits=limits) as exchange:
        client = exchange.client()
        with pytest.raises(ObjectLimit, match="max_memory_bytes"):
            client.put(many)
        with pytest.raises(ObjectLimit, match="max_ttl"):
            client.put({"w": np.zeros(1)}, ttl=61.0)
        with pytest.raises(ObjectRefused, match="at least 1"):
            client.put({"w": np.zeros(1)}, reads=0)
        assert len(exchange.server) == 0
    with Exchange(limits=limits, spool=tmp_path / "spool") as exchange:
        client = exchange.client()
        client.put(many)
        with pytest.raises(ObjectLimit, match="max_bytes"):
            client.put(many)
        client.put({"w": np.zeros(1, np.uint8)})
        with pytest.raises(ObjectLimit, match="max_objects"):
            client.put({"w": np.zeros(1, np.uint8)})


def test_memory_is_free_again_once_an_upload_was_read() -> None:
    limits = ObjectLimits(max_memory_bytes=100)
    with Exchange(limits=limits) as exchange:
        client = exchange.client()
        for _ in range(3):
            reference = client.put({"w": np.zeros(100, np.uint8)}, reads=1)
            exchange.server.open(reference).close()


def test_what_expires_while_nobody_reads_it_leaves_the_disk(tmp_path: Path) -> None:
    clock = VirtualClock()
    with clock.running(), Exchange(spool=tmp_path / "spool", clock=clock) as exchange:
        reference = exchange.client().put(some_arrays(), ttl=50.0)
        clock.event().wait(51)
        assert not folders(tmp_path)
        with pytest.raises(ObjectExpired):
            exchange.server.open(reference)


def test_a_token_ends_a_client_that_connects() -> None:
    cancel = CancelToken()
    with ThreadPoolExecutor(1) as pool:
        client = ObjectClient(memory_address(), name="site-1", config=SMALL, cancel=cancel)
        starting = pool.submit(client.start)
        cancel.cancel("enough")
        with pytest.raises(Cancelled, match="enough"):
            starting.result(WAIT)


def test_a_token_ends_an_open_that_waits_for_the_server(exchange: Exchange) -> None:
    cancel, may_answer = CancelToken(), threading.Event()
    exchange.before[READ] = lambda: may_answer.wait(WAIT)
    reference = exchange.server.put(some_arrays())
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(exchange.client().open, reference, cancel=cancel)
        until(lambda: exchange.asked[READ] > 0)
        cancel.cancel("enough")
        with pytest.raises(Cancelled, match="enough"):
            opening.result(WAIT)
        may_answer.set()


def test_a_disk_that_refuses_to_remove_fails_no_other_put_and_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    copy_model(pattern_model(ODD), model := tmp_path / "model")
    clock = VirtualClock()
    with clock.running(), Exchange(spool=tmp_path / "spool", clock=clock) as exchange:
        cancel = CancelToken()
        with pytest.raises(Cancelled):
            exchange.client().put(
                model, ttl=50.0, cancel=cancel, progress=lambda *_: cancel.cancel()
            )
        # Any thread of the server may be the one that finds the expiry, so the disk refuses all.
        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", refuse)
            clock.event().wait(51)
            other = exchange.client("site-2").put(some_arrays(), ttl=50.0)
        (left,) = (folder for folder in folders(tmp_path) if folder.name != other.id)
        clock.event().wait(200)
        assert not left.exists()
        assert not folders(tmp_path)
        assert not len(exchange.server)


def test_a_model_that_changes_while_it_is_put_is_not_kept(taking: Exchange, tmp_path: Path) -> None:
    class Changing:
        """Detects a change once its last byte was read."""

        spec = ArrayModel(some_arrays()).spec

        def read(self, offset: int, length: int) -> tuple[memoryview, ...]:
            return (memoryview(bytes(length)),)

        def watch(self) -> Callable[[], None]:
            def check() -> None:
                raise SourceChanged("it was written to")

            return check

        def close(self) -> None:
            pass

    with pytest.raises(SourceChanged):
        taking.client().put(Changing())
    until(lambda: not len(taking.server))
    assert not folders(tmp_path)
