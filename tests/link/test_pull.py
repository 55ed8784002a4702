"""One model that is served to whoever fetches it: who is taken, who waits, what is resumed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from streamlink.cancel import CancelToken
from streamlink.clock import running_time
from streamlink.errors import (
    AbortCode,
    AddressInUse,
    Cancelled,
    ConnectFailed,
    SourceChanged,
    SpecMismatch,
    StoreError,
    StreamAborted,
)
from streamlink.link.fetch_desk import FetchDesk
from streamlink.link.oneshot import send
from streamlink.link.pull import fetch, serve
from streamlink.link.transfer import Receipt
from streamlink.link.transfer_facts import TransferFacts
from streamlink.model.digest import digest_of
from streamlink.model.interfaces import ModelSource
from streamlink.stores import ArrayModel, CompressedStore, MemoryStore, SafetensorsStore
from streamlink.transport.connect import dial
from tests.link.test_oneshot import FAST, SPEC, MiB, Receiver, Stumbling, arrays, model
from tests.support.models import content, pattern_model, save
from tests.support.peers import WAIT, config


class Server:
    """``serve`` in a thread of its own."""

    def __init__(self, source: ModelSource, **options: Any) -> None:
        self.done: Future[int] = Future()
        self.told: list[tuple[str, str, int, int]] = []
        self.cancel = CancelToken()
        self._port: Future[int] = Future()
        self._source = source
        self._options = {"config": FAST, "cancel": self.cancel, "progress": self._tell, **options}
        threading.Thread(target=self._run, daemon=True).start()
        self.address = f"127.0.0.1:{self._port.result(WAIT)}"

    def _tell(self, peer: str, phase: str, done: int, total: int) -> None:
        self.told.append((peer, phase, done, total))

    def _run(self) -> None:
        try:
            told = self._port.set_result
            self.done.set_result(serve(self._source, on_listening=told, **self._options))
        except BaseException as error:
            self.done.set_exception(error)
            if not self._port.done():
                self._port.set_exception(error)

    def stop(self) -> None:
        self.cancel.cancel("enough")
        assert isinstance(self.done.exception(WAIT), Cancelled)


def fetched(address: str, into: Any, **options: Any) -> Receipt:
    return fetch(address, into, **{"config": FAST, "retry": 0, **options})


def fetching(address: str, into: Any, **options: Any) -> Future[Receipt]:
    """``fetch`` in a thread of its own."""
    done: Future[Receipt] = Future()

    def run() -> None:
        try:
            done.set_result(fetched(address, into, **options))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


class Gate:
    """Holds back whoever reads the model from a byte on, until it is opened."""

    def __init__(self) -> None:
        self.is_reached, self._opened = threading.Semaphore(0), threading.Event()

    def __call__(self) -> None:
        if not self._opened.is_set():
            self.is_reached.release()
            self._opened.wait(WAIT)

    def open(self) -> None:
        self._opened.set()


@pytest.fixture
def store(tmp_path: Path) -> SafetensorsStore:
    return SafetensorsStore(tmp_path / "store")


# --- one fetcher ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "into",
    [
        lambda path: SafetensorsStore(path / "s"),
        lambda path: CompressedStore(path / "s.slz", reserve_bytes=0),
        lambda path: MemoryStore(),
    ],
)
def test_a_model_is_fetched_into_any_store(tmp_path: Path, into: Callable[[Path], Any]) -> None:
    place, source = into(tmp_path), pattern_model(SPEC)
    server = Server(source, count=1)
    got = fetched(server.address, place)
    assert server.done.result(WAIT) == 1
    assert got.digest == digest_of(source)
    assert content(place.open()) == content(source)


def test_both_ends_of_a_fetch_are_told_how_far_it_is_and_what_it_was() -> None:
    told, facts = list[tuple[str, str, int, int]](), list[TransferFacts]()
    server = Server(model(), count=1, on_transfer=facts.append)
    fetched(
        server.address,
        MemoryStore(),
        name="me",
        progress=lambda *facts: told.append(facts),
        on_transfer=facts.append,
    )
    server.done.result(WAIT)
    assert told[-1] == (server.address, "receiving", SPEC.nbytes, SPEC.nbytes)
    assert server.told[-1] == ("me", "sending", SPEC.nbytes, SPEC.nbytes)
    assert {(each.peer_name, each.direction, each.outcome) for each in facts} == {
        (server.address, "received", "done"),
        ("me", "sent", "done"),
    }


def test_arrays_are_filled_in_place_and_other_tensors_are_refused_for_good() -> None:
    server, target = Server(model(), count=1), ArrayModel(arrays())
    with pytest.raises(SpecMismatch, match="the sender has another model"):
        fetched(server.address, ArrayModel({"w": np.zeros(4, np.float32)}), retry=WAIT)
    fetched(server.address, target)
    assert server.done.result(WAIT) == 1
    assert content(target) == content(pattern_model(SPEC))


def test_nobody_fetches_in_time() -> None:
    with pytest.raises(ConnectFailed, match=r"nobody fetched from 127.0.0.1:[1-9]\d* within 0.05"):
        serve(model(), timeout=0.05)


@pytest.mark.slow
def test_a_server_that_is_not_there_yet_is_awaited() -> None:
    probe = Server(model(), count=1)
    fetched(probe.address, MemoryStore())
    probe.done.result(WAIT)  # so that its port is free
    heard = _Heard("retrying")
    with heard:
        quick = config(connect_timeout=0.2)
        got = fetching(probe.address, MemoryStore(), config=quick, retry=WAIT)
        heard.wait()
    assert serve(model(), probe.address, count=1, config=FAST) == 1
    assert got.result(WAIT).digest == digest_of(pattern_model(SPEC))


def test_an_address_that_another_server_has_is_named() -> None:
    server = Server(model())
    with pytest.raises(AddressInUse, match=server.address):
        serve(model(), server.address)
    server.stop()


def test_an_end_that_is_asked_for_what_it_does_not_do_says_so() -> None:
    server, receiver = Server(model()), Receiver(MemoryStore())
    with pytest.raises(ConnectFailed, match="gives one model and does not answer 'push'"):
        send(model(), server.address, config=FAST, retry=0)
    with pytest.raises(ConnectFailed, match="takes one model and does not answer 'pull'"):
        fetched(receiver.address, MemoryStore())
    server.stop()
    send(model(), receiver.address, config=FAST)


def test_no_fetches_and_no_fetchers_are_refused_before_anything_listens() -> None:
    with pytest.raises(ValueError, match=r"count \(0\) and fetchers \(8\) must be positive"):
        serve(model(), count=0)
    with pytest.raises(ValueError, match=r"fetchers \(0\) must be positive"):
        serve(model(), fetchers=0)


# --- many fetchers ------------------------------------------------------------------------------


def test_several_fetch_at_the_same_time() -> None:
    gate = Gate()
    server = Server(model(MiB, gate), count=3)
    stores = [MemoryStore() for _ in range(3)]
    fetches = [fetching(server.address, store) for store in stores]
    for _ in fetches:
        assert gate.is_reached.acquire(timeout=WAIT)  # all three are on their way
    gate.open()
    assert {each.result(WAIT).digest for each in fetches} == {digest_of(pattern_model(SPEC))}
    assert server.done.result(WAIT) == 3
    assert all(content(each.open()) == content(pattern_model(SPEC)) for each in stores)


def test_one_too_many_is_told_to_come_again_and_does() -> None:
    gate, heard = Gate(), _Heard("it is busy with 1 fetchers, the most at a time")
    server = Server(model(MiB, gate), fetchers=1)
    first = fetching(server.address, MemoryStore())
    assert gate.is_reached.acquire(timeout=WAIT)
    with pytest.raises(ConnectFailed, match="busy with 1 fetchers"):
        fetched(server.address, MemoryStore())
    with heard:
        second = fetching(server.address, MemoryStore(), retry=WAIT)
        heard.wait()
    gate.open()
    assert first.result(WAIT).digest == second.result(WAIT).digest
    server.stop()


def test_the_last_of_the_fetches_is_given_once() -> None:
    gate = Gate()
    server = Server(model(MiB, gate), count=1)
    first = fetching(server.address, MemoryStore())
    assert gate.is_reached.acquire(timeout=WAIT)
    with pytest.raises(ConnectFailed, match="busy with the last of 1 fetches"):
        fetched(server.address, MemoryStore())
    gate.open()
    first.result(WAIT)
    assert server.done.result(WAIT) == 1


def test_a_client_has_one_fetch_at_a_time() -> None:
    gate = Gate()
    server = Server(model(0, gate))
    client = dial(server.address, FAST, name="greedy", clock=running_time)
    session = client.connect(lambda session, request: None)
    assert not session.request("pull").result(WAIT).error
    assert "serves this client already" in session.request("pull").result(WAIT).error
    session.close("enough")
    client.close()
    gate.open()
    server.stop()


def test_a_fetcher_for_whom_there_is_no_thread_takes_no_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, start = Server(model(), count=1), threading.Thread.start

    def none_left(thread: threading.Thread) -> None:
        if thread.name.startswith("fetch-"):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_left)
        with pytest.raises(ConnectFailed, match="it cannot serve now: can't start new thread"):
            fetched(server.address, MemoryStore())
    fetched(server.address, MemoryStore())
    assert server.done.result(WAIT) == 1


def test_a_fetcher_that_fails_leaves_the_others_alone(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    server = Server(model(MiB, gate), count=1, fetchers=2)
    broken = _Broken(MemoryStore(), at=MiB // 2)
    with caplog.at_level(logging.WARNING):
        with pytest.raises(StoreError, match="the disk is gone"):
            fetched(server.address, broken, name="unlucky")
        lucky = fetching(server.address, MemoryStore(), retry=WAIT)
        gate.open()
        assert lucky.result(WAIT).digest == digest_of(pattern_model(SPEC))
        assert server.done.result(WAIT) == 1
    assert "the disk is gone" in caplog.text


# --- going on ---------------------------------------------------------------------------------


def test_the_next_fetch_of_the_same_model_goes_on(store: SafetensorsStore) -> None:
    gate, token = Gate(), CancelToken()
    server = Server(model(5 * MiB, gate))
    first = fetching(server.address, store, cancel=token)
    assert gate.is_reached.acquire(timeout=WAIT)
    token.cancel("enough")
    assert isinstance(first.exception(WAIT), Cancelled)
    gate.open()
    got = fetched(server.address, store, retry=WAIT)
    assert 4 * MiB <= got.resumed_at <= 5 * MiB
    assert got.digest == digest_of(pattern_model(SPEC))
    assert content(store.open()) == content(pattern_model(SPEC))
    server.stop()


def test_a_server_that_is_started_again_goes_on(store: SafetensorsStore, tmp_path: Path) -> None:
    place = SafetensorsStore(tmp_path / "source")
    save(place, pattern_model(SPEC))
    gate, source = Gate(), place.open()
    first = Server(Stumbling(source, 5 * MiB, gate, source.identity()))
    got = fetching(first.address, store, retry=WAIT)
    assert gate.is_reached.acquire(timeout=WAIT)
    first.cancel.cancel("enough")
    gate.open()
    assert isinstance(first.done.exception(WAIT), Cancelled)
    assert serve(source, first.address, count=1, config=FAST) == 1
    assert got.result(WAIT).resumed_at >= MiB
    assert content(store.open()) == content(pattern_model(SPEC))


def test_what_a_sender_began_goes_on_as_a_fetch(store: SafetensorsStore) -> None:
    token = CancelToken()
    receiver = Receiver(store, cancel=token)
    with pytest.raises(OSError, match="cable"):
        send(model(5 * MiB), receiver.address, config=FAST, retry=0)
    token.cancel("enough")
    assert isinstance(receiver.done.exception(WAIT), Cancelled)
    server = Server(model(), count=1)
    assert fetched(server.address, store).resumed_at >= 4 * MiB
    assert content(store.open()) == content(pattern_model(SPEC))


# --- what ends it -------------------------------------------------------------------------------


def test_a_model_that_changes_ends_the_serving_and_nothing_of_it_stays(
    store: SafetensorsStore, tmp_path: Path
) -> None:
    class Changing(Stumbling):
        def watch(self) -> Callable[[], None]:
            def check() -> None:
                if gate.is_open:
                    raise SourceChanged("it was modified")

            return check

    class Opened(Gate):
        is_open = False

        def open(self) -> None:
            self.is_open = True
            super().open()

    gate = Opened()
    server = Server(Changing(pattern_model(SPEC), 5 * MiB, gate, "m"))
    got = fetching(server.address, store, retry=WAIT)
    assert gate.is_reached.acquire(timeout=WAIT)
    gate.open()
    error = got.exception(WAIT)
    assert isinstance(error, StreamAborted)
    assert error.code is AbortCode.SOURCE_CHANGED
    assert isinstance(server.done.exception(WAIT), SourceChanged)
    assert not list((tmp_path / "store").glob("*"))


def test_a_model_that_cannot_be_read_any_more_ends_the_serving_with_that_error() -> None:
    server = Server(model(MiB))
    with pytest.raises(StreamAborted, match="the cable is out"):
        fetched(server.address, MemoryStore())
    with pytest.raises(OSError, match="the cable is out"):
        server.done.result(WAIT)


def test_an_operator_ends_the_serving_and_the_fetchers_hear_why() -> None:
    gate, desk = Gate(), FetchDesk(clock=running_time)
    server = Server(model(MiB, gate), desk=desk)
    got = fetching(server.address, MemoryStore())
    assert gate.is_reached.acquire(timeout=WAIT)
    desk.close("the disk is wanted elsewhere")
    gate.open()
    for done in (got, server.done):
        assert "the disk is wanted elsewhere" in str(done.exception(WAIT))


def test_a_fetch_that_was_cancelled_before_it_began_touches_nothing(tmp_path: Path) -> None:
    token = CancelToken()
    token.cancel("enough")
    with pytest.raises(Cancelled):
        fetched("127.0.0.1:9", SafetensorsStore(tmp_path / "s"), cancel=token)
    with pytest.raises(Cancelled):
        serve(model(), cancel=token)
    assert not (tmp_path / "s").exists()


class _Heard(logging.Handler):
    """Notes that a text was logged."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text, self._has_come = text, threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self._text in record.getMessage():
            self._has_come.set()

    def wait(self) -> None:
        assert self._has_come.wait(WAIT)

    def __enter__(self) -> Self:
        logging.getLogger("streamlink.transfer").addHandler(self)
        return self

    def __exit__(self, *error: object) -> None:
        logging.getLogger("streamlink.transfer").removeHandler(self)


class _Broken:
    """A store whose disk fails from a byte on."""

    def __init__(self, store: MemoryStore, at: int) -> None:
        self._store, self._at = store, at

    def open(self) -> ModelSource:
        return self._store.open()

    def begin(self, spec: Any) -> Any:
        sink, at = self._store.begin(spec), self._at

        class Sink:
            def __init__(self) -> None:
                self.spec = sink.spec

            def write(self, offset: int, payload: memoryview) -> None:
                if offset >= at:
                    raise StoreError("the disk is gone")
                sink.write(offset, payload)

            def commit(self, progress: Any = None) -> None:
                sink.commit(progress)

            def discard(self) -> None:
                sink.discard()

        return Sink()
