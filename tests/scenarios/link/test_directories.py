"""Directories between two ends: the small files go with their model, whoever dials."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamlink as sl
from streamlink.config import LimitsConfig
from streamlink.errors import AbortCode, StreamAborted
from streamlink.link.oneshot import send
from streamlink.model.beside import PREFIX, Beside
from streamlink.model.beside_ends import BesideSource
from streamlink.model.interfaces import ModelSource, Payload
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.stores import MemoryStore, SafetensorsStore
from streamlink.stores.safetensors import SafetensorsSource
from streamlink.testing import run_job
from tests.link.test_oneshot import FAST, SPEC, MiB, Receiver, broken
from tests.support.models import content, pattern_model, save
from tests.support.peers import WAIT

FILES = {"config.json": b'{"model_type": "llama"}', "tokenizer.model": bytes(range(256)) * 9000}
PT = {"format": "pt"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    save(SafetensorsStore(tmp_path / "source"), whole(FILES))
    return tmp_path / "source"


def whole(files: dict[str, bytes]) -> BesideSource:
    return BesideSource(pattern_model(SPEC), Beside(files, PT))


def listening(call: Callable[..., Any], *args: Any, **options: Any) -> tuple[str, Future[Any]]:
    """Call what listens in a thread of its own; returns its address, and what it returns."""
    port, done = Future[int](), Future[Any]()

    def run() -> None:
        try:
            done.set_result(call(*args, config=FAST, on_listening=port.set_result, **options))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return f"127.0.0.1:{port.result(WAIT)}", done


def pushed(source: Any, target: Any) -> str:
    address, received = listening(sl.receive, target)
    sent = sl.send(source, address, config=FAST)
    assert received.result(WAIT).digest == sent.digest
    return sent.digest


def pulled(source: Any, target: Any) -> str:
    address, served = listening(sl.serve, source, count=1)
    got = sl.fetch(address, target, config=FAST)
    assert served.result(WAIT) == 1
    return got.digest


def check(target: Path, files: dict[str, bytes] = FILES) -> None:
    stored = SafetensorsSource(target)
    assert stored.beside(LimitsConfig()) == Beside(files, PT)
    assert content(stored) == content(pattern_model(SPEC))


both = pytest.mark.parametrize("move", [pushed, pulled])


@both
def test_a_directory_arrives_with_its_small_files(
    source: Path, tmp_path: Path, move: Callable[[Any, Any], str]
) -> None:
    digest = move(source, tmp_path / "target")
    check(tmp_path / "target")
    assert digest == sl.digest_of(source) == sl.digest_of(tmp_path / "target")
    assert digest != sl.digest_of(source, files=False)


@both
def test_what_has_no_place_for_files_gets_the_tensors_and_logs_what_stays_behind(
    source: Path, tmp_path: Path, move: Callable[[Any, Any], str], caplog: pytest.LogCaptureFixture
) -> None:
    arrays = {each.name: np.zeros(each.shape, each.numpy_dtype) for each in SPEC.tensors}
    caplog.set_level(logging.INFO, "streamlink")
    for number, target in enumerate((arrays, MemoryStore(), tmp_path / "m.slz"), 1):
        move(source, target)
        line = "only tensors are stored here, which leaves behind 2 small files (config.json, "
        assert caplog.text.count(line) == number
    assert sl.digest_of(arrays) == sl.digest_of(pattern_model(SPEC))
    assert sl.digest_of(tmp_path / "m.slz") == sl.digest_of(pattern_model(SPEC))


def test_a_guarded_directory_brings_its_files_too(source: Path, tmp_path: Path) -> None:
    address, received = listening(sl.receive, tmp_path / "target")
    sl.send(source, address, config=FAST, guard=True)
    received.result(WAIT)
    check(tmp_path / "target")


def test_a_text_that_the_sender_names_needs_no_setting_at_the_receiver(
    source: Path, tmp_path: Path
) -> None:
    for name in ("README.md", "notes.txt"):
        (source / name).write_bytes(b"mine")
    named = FAST.model_copy(update={"limits": LimitsConfig(more_side_files=("*.md",))})
    address, received = listening(sl.receive, tmp_path / "target")
    sent = sl.send(source, address, config=named)
    received.result(WAIT)
    check(tmp_path / "target", {"README.md": b"mine", **FILES})
    # A model has brought it there, so it is a part of that model from now on.
    assert sl.digest_of(tmp_path / "target") == sent.digest != sl.digest_of(source)


# --- going on -----------------------------------------------------------------------------------


class Breaking:
    """A directory whose line breaks at a byte."""

    def __init__(self, source: ModelSource, at: int) -> None:
        self._source, self._at = source, at
        self.spec = source.spec

    def read(self, offset: int, length: int) -> Payload:
        if offset >= self._at:
            broken()
        return self._source.read(offset, length)

    def identity(self) -> str:
        return self._source.identity()  # type: ignore[attr-defined, no-any-return]

    def close(self) -> None:
        self._source.close()


def of_directory(source: Path) -> BesideSource:
    stored = SafetensorsSource(source)
    return BesideSource(stored, stored.beside(LimitsConfig()))


@pytest.mark.parametrize("at", [5 * MiB, SPEC.nbytes + MiB], ids=["tensors", "files"])
def test_an_interrupted_directory_goes_on_in_its_tensors_and_in_its_files(
    source: Path, tmp_path: Path, at: int
) -> None:
    receiver = Receiver(SafetensorsStore(tmp_path / "target"))
    with pytest.raises(OSError, match="cable"):
        send(Breaking(of_directory(source), at), receiver.address, config=FAST, retry=0)
    assert not (tmp_path / "target" / "config.json").exists()
    sent = sl.send(source, receiver.address, config=FAST)
    assert at - 2 * MiB <= sent.resumed_at <= at
    assert receiver.done.result(WAIT).digest == sent.digest == sl.digest_of(source)
    check(tmp_path / "target")


def test_with_another_file_beside_it_a_model_begins_at_its_start(
    source: Path, tmp_path: Path
) -> None:
    receiver = Receiver(SafetensorsStore(tmp_path / "target"))
    with pytest.raises(OSError, match="cable"):
        send(Breaking(of_directory(source), 5 * MiB), receiver.address, config=FAST, retry=0)
    # As many bytes as before: only what they are differs.
    changed = {**FILES, "config.json": b'{"model_type": "LLAMA"}'}
    (source / "config.json").write_bytes(changed["config.json"])
    assert sl.send(source, receiver.address, config=FAST).resumed_at == 0
    receiver.done.result(WAIT)
    check(tmp_path / "target", changed)


# --- what is refused ------------------------------------------------------------------------------


class Hostile:
    """A model with an entry that no honest sender makes."""

    def __init__(self, name: str, nbytes: int = 8) -> None:
        entry = TensorSpec(PREFIX + name, "U8", (nbytes,))
        self.spec = ModelSpec((TensorSpec("w", "F32", (2,)), entry))

    def read(self, offset: int, length: int) -> Payload:
        return (memoryview(bytes(length)),)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    "name", ["../config.json", "/tmp/config.json", "a/b.txt", ".netrc", "x.py", "model.safetensors"]
)
def test_a_file_that_may_not_be_beside_a_model_is_refused_before_its_first_byte(
    tmp_path: Path, name: str
) -> None:
    receiver = Receiver(SafetensorsStore(tmp_path / "target"))
    with pytest.raises(StreamAborted, match="is not the name of a small file") as caught:
        send(Hostile(f"file/{name}"), receiver.address, config=FAST, retry=WAIT)
    assert caught.value.code is AbortCode.SPEC_MISMATCH
    assert not list(tmp_path.rglob("*.*"))


@pytest.mark.parametrize("text", ["5", "[" * 985], ids=["number", "nested"])
def test_a_receiver_refuses_a_hostile_fact_and_takes_the_next_model(
    source: Path, tmp_path: Path, text: str
) -> None:
    receiver = Receiver(SafetensorsStore(tmp_path / "target"))
    with pytest.raises(StreamAborted, match="is not a fact of a model's metadata"):
        send(Hostile(f"metadata/{text}", 0), receiver.address, config=FAST, retry=0)
    sent = sl.send(source, receiver.address, config=FAST)
    assert receiver.done.result(WAIT).digest == sent.digest


def test_more_files_than_the_receiver_takes_are_refused_in_words(
    source: Path, tmp_path: Path
) -> None:
    few = FAST.model_copy(update={"limits": LimitsConfig(max_side_bytes=1000)})
    receiver = Receiver(SafetensorsStore(tmp_path / "target"), few)
    with pytest.raises(StreamAborted, match=r"sender has \d+ bytes of small .* receiver is 1000"):
        sl.send(source, receiver.address, config=FAST, retry=WAIT)
    none = FAST.model_copy(update={"limits": LimitsConfig(max_side_files=0)})
    sl.send(source, receiver.address, config=none)
    receiver.done.result(WAIT)
    assert not (tmp_path / "target" / "config.json").exists()


# --- rounds ---------------------------------------------------------------------------------------


def test_the_servers_directory_keeps_its_files_across_the_rounds(source: Path) -> None:
    before = sl.digest_of(source, files=False)
    executor = sl.StreamingExecutor(lambda tensor, start, values: values + np.float32(1))
    run_job(
        sl.open_store(source), {"site-1": executor}, sl.RoundConfig(min_clients=1, num_rounds=2)
    )
    stored = SafetensorsSource(source)
    assert stored.beside(LimitsConfig()) == Beside(FILES, PT)
    assert stored.digest() != before
