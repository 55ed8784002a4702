"""One model between two ends, without rounds: who is taken, who is refused, what is resumed."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamlink.clock import running_time
from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    AddressInUse,
    ConnectFailed,
    StoreError,
    StoreFull,
    StreamAborted,
)
from streamlink.link.into import Into
from streamlink.link.oneshot import receive, send
from streamlink.link.transfer import Receipt
from streamlink.model.computed import GeneratedModel
from streamlink.model.digest import digest_of
from streamlink.model.interfaces import ModelSource, Payload
from streamlink.model.spec import ModelSpec
from streamlink.stores import ArrayModel, CompressedStore, MemoryStore, SafetensorsStore
from streamlink.stores.safetensors import SafetensorsSource
from streamlink.transport.connect import dial
from tests.support.disk import flip
from tests.support.models import content, float_spec, pattern_model, save
from tests.support.peers import WAIT, config

MiB = 1 << 20
SPEC = float_spec(5, 3 * MiB // 2, 700_001)
"""A little less than 9 MiB."""
FAST = config(
    stream={"chunk_bytes": 64 << 10, "min_chunk_bytes": 64 << 10, "window_bytes": 256 << 10},
    connect_timeout=5,
)


class Receiver:
    """``receive`` in a thread of its own."""

    def __init__(self, into: Into, config: LinkConfig = FAST, **options: Any) -> None:
        self.done: Future[Receipt] = Future()
        self.told: list[tuple[str, str, int, int]] = []
        self._port: Future[int] = Future()
        self._options = {"config": config, "progress": self._tell, **options}
        self._into = into
        threading.Thread(target=self._run, daemon=True).start()
        self.address = f"127.0.0.1:{self._port.result(WAIT)}"

    def _tell(self, peer: str, phase: str, done: int, total: int) -> None:
        self.told.append((peer, phase, done, total))

    def _run(self) -> None:
        try:
            self.done.set_result(
                receive(self._into, on_listening=self._port.set_result, **self._options)
            )
        except BaseException as error:
            self.done.set_exception(error)


class Stumbling:
    """A source that is what its files are, but for a fault from byte ``at`` on."""

    def __init__(self, model: ModelSource, at: int, act: Callable[[], None], name: str) -> None:
        self._model, self._at, self._act, self._name = model, at, act, name
        self.spec = model.spec

    def read(self, offset: int, length: int) -> Payload:
        if offset >= self._at:
            self._act()
        return self._model.read(offset, length)

    def identity(self) -> str:
        return self._name

    def close(self) -> None:
        pass


def broken() -> None:
    raise OSError("the cable is out")


def model(at: int = 1 << 60, act: Callable[[], None] = broken, name: str = "m") -> Stumbling:
    return Stumbling(pattern_model(SPEC), at, act, name)


def given(source: ModelSource, to: str, **options: Any) -> Receipt:
    return send(source, to, **{"config": FAST, "retry": 0, **options})


@pytest.fixture
def store(tmp_path: Path) -> SafetensorsStore:
    return SafetensorsStore(tmp_path / "store")


def stumble(receiver: Receiver, at: int = 5 * MiB, **facts: Any) -> None:
    """Let a sender fail at byte ``at``."""
    with pytest.raises(OSError, match="cable"):
        given(model(at, **facts), receiver.address)


# --- one sender -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "into",
    [
        lambda path: SafetensorsStore(path / "s"),
        lambda path: CompressedStore(path / "s.slz", reserve_bytes=0),
        lambda path: MemoryStore(),
    ],
)
def test_a_model_goes_into_any_store(tmp_path: Path, into: Callable[[Path], Any]) -> None:
    place = into(tmp_path)
    receiver, source = Receiver(place), pattern_model(SPEC)
    sent = given(source, receiver.address)
    got = receiver.done.result(WAIT)
    assert sent.digest == got.digest == digest_of(source)
    assert content(place.open()) == content(source)
    assert (sent.resumed_at, got.resumed_at) == (0, 0)


def test_a_function_makes_the_sink_for_the_tensors_that_come() -> None:
    store, seen = MemoryStore(), []

    def sink(spec: ModelSpec) -> Any:
        seen.append(spec)
        return store.begin(spec)

    receiver = Receiver(sink)
    given(pattern_model(SPEC), receiver.address)
    receiver.done.result(WAIT)
    assert seen == [SPEC]
    assert content(store.open()) == content(pattern_model(SPEC))


def test_both_ends_are_told_how_far_it_is() -> None:
    told: list[tuple[str, str, int, int]] = []
    receiver = Receiver(MemoryStore())
    given(model(), receiver.address, name="me", progress=lambda *facts: told.append(facts))
    receiver.done.result(WAIT)
    assert told[-1] == (receiver.address, "sending", SPEC.nbytes, SPEC.nbytes)
    assert receiver.told[-1] == ("me", "receiving", SPEC.nbytes, SPEC.nbytes)
    for facts in (told, receiver.told):
        assert [each[2] for each in facts] == sorted(each[2] for each in facts)


def test_nobody_comes_in_time() -> None:
    with pytest.raises(ConnectFailed, match=r"no sender came to 127.0.0.1:[1-9]\d* within 0.05 s"):
        receive(MemoryStore(), timeout=0.05)


def test_an_address_that_is_taken_is_named() -> None:
    receiver = Receiver(MemoryStore())
    with pytest.raises(AddressInUse, match=receiver.address):
        receive(MemoryStore(), receiver.address)
    given(model(), receiver.address)


def test_nobody_listens() -> None:
    with pytest.raises(ConnectFailed, match="no server answers"):
        given(model(), "127.0.0.1:1", config=config(connect_timeout=0.3))


# --- one after the other ----------------------------------------------------------------------


@pytest.mark.parametrize("into", [MemoryStore, lambda: ArrayModel(arrays())])
def test_a_sender_that_fails_makes_room_for_the_next(
    into: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        receiver = Receiver(into())
        stumble(receiver)
        sent = given(model(), receiver.address)
    assert receiver.done.result(WAIT).digest == sent.digest
    assert "the cable is out; waiting for the next sender" in caplog.text


def test_a_plain_sink_gets_one_attempt() -> None:
    receiver = Receiver(MemoryStore().begin(SPEC))
    stumble(receiver)
    with pytest.raises(StreamAborted, match="cable"):
        receiver.done.result(WAIT)


def test_other_tensors_than_the_sinks_are_refused_and_the_right_ones_are_taken() -> None:
    target = ArrayModel(arrays())
    receiver = Receiver(target)
    with pytest.raises(StreamAborted, match=r"the sender has another model: .*shape") as caught:
        given(pattern_model(float_spec(5, 6, 7)), receiver.address, retry=60)
    assert caught.value.code is AbortCode.SPEC_MISMATCH
    given(model(), receiver.address)
    receiver.done.result(WAIT)
    assert content(target) == content(pattern_model(SPEC))


def test_a_second_sender_is_told_who_is_before_it() -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        goes_on.wait(WAIT)

    receiver = Receiver(MemoryStore())
    first: Future[Receipt] = Future()
    threading.Thread(
        target=lambda: first.set_result(given(model(MiB, wait), receiver.address, name="first")),
        daemon=True,
    ).start()
    assert begun.wait(WAIT)
    for name in ("m", "other"):  # of the same model, too: the first one is alive
        with pytest.raises(ConnectFailed, match="busy with a model from first"):
            given(model(name=name), receiver.address)
    goes_on.set()
    assert first.result(WAIT).digest == receiver.done.result(WAIT).digest


def test_what_is_no_push_is_refused_by_name() -> None:
    receiver = Receiver(MemoryStore())
    client = dial(receiver.address, FAST, name="odd", clock=running_time)
    session = client.connect(lambda session, request: None)
    assert "does not answer 'pull'" in session.request("pull").result(WAIT).error
    session.close("enough")
    client.close()
    given(model(), receiver.address)


def test_a_disk_that_is_full_ends_the_receiver(tmp_path: Path) -> None:
    receiver = Receiver(SafetensorsStore(tmp_path / "s", reserve_bytes=1 << 60))
    with pytest.raises(StreamAborted, match="but only") as caught:
        given(model(), receiver.address, retry=60)
    assert caught.value.code is AbortCode.STORE_FAILED
    with pytest.raises(StoreError, match="but only"):
        receiver.done.result(WAIT)
    assert not (tmp_path / "s").exists()


# --- going on ---------------------------------------------------------------------------------


def test_the_next_sender_of_the_same_model_goes_on(store: SafetensorsStore) -> None:
    receiver = Receiver(store)
    stumble(receiver)
    source = model()
    sent = given(source, receiver.address)
    got = receiver.done.result(WAIT)
    assert 4 * MiB <= sent.resumed_at == got.resumed_at <= 5 * MiB
    assert got.stats.chunks * FAST.stream.chunk_bytes < SPEC.nbytes - 3 * MiB
    assert sent.digest == got.digest == digest_of(pattern_model(SPEC))
    assert content(store.open()) == content(pattern_model(SPEC))


def test_a_disk_that_fills_up_keeps_what_came_for_the_next_receiver(
    tmp_path: Path, store: SafetensorsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, left = os.pwrite, [20]

    def filling(fd: int, data: Any, offset: int) -> int:
        left[0] -= len(data) >= FAST.stream.chunk_bytes
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(fd, data, offset)

    receiver = Receiver(store)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", filling)
        with pytest.raises(StreamAborted, match="no room while writing"):
            given(model(), receiver.address)
        with pytest.raises(StoreFull):
            receiver.done.result(WAIT)
    with pytest.raises(StoreError):
        store.open()
    following = Receiver(store)
    assert given(model(), following.address).resumed_at >= MiB
    assert content(store.open()) == content(pattern_model(SPEC))


class Noted:
    """A stored model that notes where it is read."""

    def __init__(self, model: SafetensorsSource) -> None:
        self.spec, self._model = model.spec, model
        self.reads: list[int] = []

    def read(self, offset: int, length: int) -> Payload:
        self.reads.append(offset)
        return self._model.read(offset, length)

    def identity(self) -> str:
        return self._model.identity()

    def block_hash(self, block: int) -> bytes | None:
        return self._model.block_hash(block)

    def digest(self) -> str:
        return self._model.digest()

    def close(self) -> None:
        self._model.close()


def test_a_stored_model_is_not_read_again_to_go_on(tmp_path: Path, store: SafetensorsStore) -> None:
    place = SafetensorsStore(tmp_path / "source")
    save(place, pattern_model(SPEC))
    source, receiver = Noted(place.open()), Receiver(store)
    stumble(receiver, name=source.identity())
    sent = given(source, receiver.address)
    assert min(source.reads) == sent.resumed_at > 0
    assert receiver.done.result(WAIT).digest == sent.digest == source.digest()


def test_a_model_that_no_memory_holds_is_the_senders_error() -> None:
    receiver, spec = Receiver(MemoryStore()), float_spec(1 << 47)
    with pytest.raises(StreamAborted, match="does not fit into the receiver's memory"):
        given(GeneratedModel(spec, lambda tensor, start, out: None), receiver.address)
    assert not receiver.done.done()  # another sender may come


def test_another_model_begins_at_its_start(
    store: SafetensorsStore, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = Receiver(store)
    stumble(receiver)
    with caplog.at_level(logging.INFO):
        sent = given(model(name="other"), receiver.address)
        receiver.done.result(WAIT)
    assert sent.resumed_at == 0
    assert "removing the partial model of another transfer" in caplog.text


def test_a_changed_byte_of_the_partial_is_found_before_the_rest_comes(
    tmp_path: Path, store: SafetensorsStore, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = Receiver(store)
    stumble(receiver)
    part = next((tmp_path / "store").glob("*.part"))
    flip(part, 3 * MiB)
    with caplog.at_level(logging.WARNING):
        sent = given(model(), receiver.address, retry=0)
    # One attempt was enough: nothing had come when the damage was found.
    assert sent.resumed_at == 0
    assert content(store.open()) == content(pattern_model(SPEC))
    assert receiver.done.result(WAIT).resumed_at == 0
    assert "so the transfer starts from the beginning" in caplog.text
    assert str(part.parent) in caplog.text


def test_bytes_that_changed_at_the_sender_are_found_at_the_end(
    tmp_path: Path, store: SafetensorsStore
) -> None:
    receiver = Receiver(store)
    stumble(receiver)
    changed = Stumbling(pattern_model(SPEC, seed=1), 1 << 60, broken, "m")
    with pytest.raises(StreamAborted, match="its source changed") as caught:
        given(changed, receiver.address, retry=60)
    assert caught.value.code is AbortCode.DIGEST_MISMATCH
    assert not list((tmp_path / "store").glob("*"))
    assert given(changed, receiver.address).resumed_at == 0
    assert content(store.open()) == content(pattern_model(SPEC, seed=1))


def test_a_sender_tries_again_by_itself(
    store: SafetensorsStore, caplog: pytest.LogCaptureFixture
) -> None:
    left = [2]

    def lose() -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise ConnectFailed("the line is dead")

    receiver = Receiver(store)
    with caplog.at_level(logging.INFO):
        sent = given(model(5 * MiB, lose), receiver.address, retry=60)
    assert sent.resumed_at >= 4 * MiB
    assert caplog.text.count("the line is dead; retrying") == 2
    assert receiver.done.result(WAIT).digest == sent.digest


def test_a_sender_waits_for_its_receiver(store: SafetensorsStore) -> None:
    probe = Receiver(MemoryStore())
    given(model(), probe.address)
    probe.done.result(WAIT)  # so that its port is free
    quick = config(connect_timeout=0.2)
    sent: Future[Receipt] = Future()
    tries = threading.Semaphore(0)

    class Noted(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "retrying" in record.getMessage():
                tries.release()

    handler = Noted()
    logging.getLogger("streamlink.transfer").addHandler(handler)
    threading.Thread(
        target=lambda: sent.set_result(given(model(), probe.address, config=quick, retry=WAIT)),
        daemon=True,
    ).start()
    assert tries.acquire(timeout=WAIT)
    receive(store, probe.address, config=FAST)
    logging.getLogger("streamlink.transfer").removeHandler(handler)
    assert sent.result(WAIT).digest == digest_of(pattern_model(SPEC))


def arrays() -> dict[str, Any]:
    return {each.name: np.zeros(each.shape, each.numpy_dtype) for each in SPEC.tensors}
