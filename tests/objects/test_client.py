"""The object client: it dials, and fetches what it may."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from streamlink.errors import (
    ChecksumError,
    InvalidReference,
    ModelError,
    ObjectRefused,
    UnknownObject,
)
from streamlink.objects import Reference
from streamlink.stores import MemoryStore, SafetensorsStore
from tests.support.objects import Exchange, some_arrays
from tests.support.peers import assert_same, until


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    with Exchange() as made:
        yield made


def test_what_the_server_puts_a_client_gets_over_real_sockets() -> None:
    arrays = some_arrays()
    with Exchange("127.0.0.1:0") as exchange:
        reference = exchange.server.put(arrays, readers=("site-1",), reads=1, ttl=60.0)
        store = MemoryStore()
        receipt = exchange.client("site-1").get(str(reference), store)
        assert receipt.digest == reference.digest
        assert_same(store.arrays, arrays)
        until(lambda: not len(exchange.server))


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
