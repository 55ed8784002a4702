"""Models from anything into anything, by the public functions."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch

import streamlink
from streamlink.errors import (
    ModelError,
    SourceChanged,
    SpecMismatch,
    StoreError,
    StreamAborted,
    TooManySideFiles,
)
from streamlink.model import Beside, SideLimits
from streamlink.stores import ArrayModel
from tests.support.peers import WAIT, until

Arrays = dict[str, Any]


def arrays() -> Arrays:
    # The order of names is neither the alphabet's nor that of a safetensors file.
    return {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([7.0, 8.0], "f8")}


def empty() -> Arrays:
    return {name: np.zeros_like(array) for name, array in arrays().items()}


def is_equal(some: Arrays) -> bool:
    return all(np.array_equal(some[name], array) for name, array in arrays().items())


class Watched(ArrayModel):
    """A model that tells whether it was closed."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True


class OneStore:
    """A store whose model is watched."""

    def __init__(self) -> None:
        self.model = Watched(arrays())

    def open(self) -> streamlink.ModelSource:
        return self.model

    def begin(self, spec: streamlink.ModelSpec) -> streamlink.ModelSink:
        raise NotImplementedError


# --- on this machine --------------------------------------------------------


def test_a_file_goes_to_a_directory_and_into_a_dict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    safetensors.numpy.save_file(arrays(), "weights.safetensors")
    streamlink.copy_model("weights.safetensors", "model")
    streamlink.copy_model(Path("model"), "packed.slz")
    mine = empty()
    streamlink.copy_model("packed.slz", mine)
    assert is_equal(mine)
    assert (tmp_path / "packed.slz").is_file()


def test_a_module_goes_to_a_store_and_back(tmp_path: Path) -> None:
    store, one, other = streamlink.open_store(tmp_path), *(torch.nn.Linear(3, 2) for _ in range(2))
    streamlink.copy_model(one, store)
    streamlink.copy_model(store, other)
    assert torch.equal(one.weight, other.weight)
    assert streamlink.digest_of(one) == streamlink.digest_of(other) == streamlink.digest_of(store)


def test_a_module_is_filled_from_a_file_of_another_order(tmp_path: Path) -> None:
    one, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    state = {name: tensor.numpy() for name, tensor in reversed(one.state_dict().items())}
    streamlink.copy_model(state, tmp_path / "reversed")
    streamlink.copy_model(tmp_path / "reversed", other)
    assert torch.equal(one.bias, other.bias)


def test_what_was_opened_is_closed_and_what_was_given_is_not() -> None:
    given, store = Watched(arrays()), OneStore()
    for source in (given, store):
        streamlink.copy_model(source, empty())
        streamlink.digest_of(source)
    assert (given.is_closed, store.model.is_closed) == (False, True)


def test_what_was_opened_is_closed_when_it_fails() -> None:
    store = OneStore()
    with pytest.raises(SpecMismatch):
        streamlink.copy_model(store, {"w": np.zeros(1)})
    assert store.model.is_closed


def test_a_wrong_place_is_told_before_anything_is_opened() -> None:
    wrong: Any = 7
    with pytest.raises(ModelError, match="an int, into which no model can be received"):
        streamlink.copy_model("there is no such file", wrong)


def test_nothing_is_made_where_there_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no model here"):
        streamlink.copy_model(tmp_path / "none", tmp_path / "copy")
    assert not list(tmp_path.iterdir())


def test_progress_is_told_and_pieces_are_positive() -> None:
    told: list[int] = []
    streamlink.copy_model(arrays(), empty(), 10, told.append)
    streamlink.digest_of(arrays(), 10, told.append)
    assert told == [10, 20, 30, 40] * 2
    with pytest.raises(ValueError, match="positive, not 0"):
        streamlink.copy_model(arrays(), empty(), 0)
    with pytest.raises(ValueError, match="positive, not -1"):
        streamlink.digest_of(arrays(), -1)


# --- to another one ---------------------------------------------------------


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def received(pool: ThreadPoolExecutor, into: Any) -> tuple[Future[streamlink.Receipt], str]:
    port: Future[int] = Future()
    done = pool.submit(streamlink.receive, into, timeout=60, on_listening=port.set_result)
    return done, f"127.0.0.1:{port.result(WAIT)}"


def test_a_module_is_received_into_a_module(pool: ThreadPoolExecutor) -> None:
    one, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    done, address = received(pool, other)
    sent = streamlink.send(one, address)
    assert done.result(WAIT).digest == sent.digest == streamlink.digest_of(other)
    assert torch.equal(one.weight, other.weight)


def test_a_path_is_sent_to_a_path(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    streamlink.copy_model(arrays(), tmp_path / "from")
    done, address = received(pool, tmp_path / "to")
    streamlink.send(tmp_path / "from", address)
    done.result(WAIT)
    assert streamlink.digest_of(tmp_path / "to") == streamlink.digest_of(arrays())


def test_a_dict_waits_for_a_model_that_fits(
    pool: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    mine, store = empty(), OneStore()
    done, address = received(pool, mine)
    caplog.set_level(logging.WARNING, "streamlink")
    with pytest.raises(StreamAborted, match="'b'"):
        streamlink.send({"w": arrays()["w"]}, address, retry=0)
    until(lambda: "waiting for the next sender" in caplog.text)
    streamlink.send(store, address)
    done.result(WAIT)
    assert is_equal(mine)
    assert store.model.is_closed


def test_what_cannot_be_sent_is_refused_before_anybody_is_called() -> None:
    wrong: Any = [1.0]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        with pytest.raises(ModelError, match="a list, which cannot be read"):
            streamlink.send(wrong, f"127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_what_cannot_be_filled_is_refused_before_anybody_can_come() -> None:
    listening = threading.Event()
    with pytest.raises(ModelError, match="no tensors to fill"):
        streamlink.receive({}, on_listening=lambda port: listening.set())
    assert not listening.is_set()


class Configured(ArrayModel):
    """A model with so many small files beside it."""

    def __init__(self, count: int) -> None:
        super().__init__(arrays())
        self.files = {f"n{number}_config.json": b"{}" for number in range(count)}

    def beside(self, limits: SideLimits) -> Beside:
        return Beside(self.files)


class Moved(Configured):
    """One whose files were changed, in a directory that is called like a group of settings."""

    def beside(self, limits: SideLimits) -> Beside:
        raise SourceChanged("it was replaced", path="limits.d/config.json")


def test_too_many_small_files_are_an_error_of_their_own_in_the_words_of_the_call() -> None:
    assert streamlink.digest_of(Configured(64))
    with pytest.raises(TooManySideFiles, match=r"at most 64, .* leave them out \(files=False"):
        streamlink.digest_of(Configured(65))


def test_what_else_is_wrong_with_small_files_stays_as_it_is_whatever_its_path() -> None:
    with pytest.raises(SourceChanged, match=r"limits\.d/config\.json: it was replaced"):
        streamlink.digest_of(Moved(1))
