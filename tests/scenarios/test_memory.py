"""Real processes: what a killed client leaves behind, and that the stated memory is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import streamlink as sl
from streamlink.stores import ArrayModel, MemoryStore
from tests.support.models import float_spec, pattern_model
from tests.support.peers import WAIT, initial, mean_of
from tests.support.processes import NARROW, Processes, fact

MODEL_BYTES = 64 << 20


@pytest.fixture
def processes() -> Iterator[Processes]:
    with Processes() as processes:
        yield processes


@pytest.mark.processes
def test_a_round_goes_on_without_a_client_that_is_killed(processes: Processes) -> None:
    server = processes.start("server", 3, 2, "")
    port = fact(server, "port")
    processes.start("client", port, 0, "")
    killed = processes.start("client", port, 1, "bf16")
    processes.start("client", port, 2, "")
    fact(killed, "stopped")
    killed.kill()
    report = fact(server, "contributors")
    digest = fact(server, "digest")
    assert report["contributors"] == ["site-0", "site-2"]
    assert report["attempt"] == 2
    assert list(report["failures"]) == ["site-1"]
    assert digest == sl.digest_of(ArrayModel(mean_of(initial(), {0: 1.0, 2: 1.0})))
    assert server.wait(WAIT) == 0


@pytest.mark.processes
def test_a_servers_memory_stays_within_what_it_states(processes: Processes, tmp_path: Path) -> None:
    spec = float_spec(MODEL_BYTES // 4)
    store = sl.open_store(tmp_path / "model", "none")
    sl.copy_model(pattern_model(spec), store.begin(spec))
    before = sl.digest_of(store.open())
    server = processes.start("server", 4, 4, tmp_path / "model")
    processes.start("echoes", fact(server, "port"), 4)
    report = fact(server, "contributors")
    assert fact(server, "digest") == before  # the mean of four equal updates
    assert report["peak_over_base"] <= report["stated_peak"]
    assert report["stated_peak"] < 4 * MODEL_BYTES  # else the bound would say nothing


@pytest.mark.processes
def test_a_server_with_one_memory_for_all_streams_stays_within_it_however_many_clients_there_are(
    processes: Processes, tmp_path: Path
) -> None:
    spec, clients = float_spec(MODEL_BYTES // 32), 12
    store = sl.open_store(tmp_path / "model", "none")
    sl.copy_model(pattern_model(spec), store.begin(spec))
    before = sl.digest_of(store.open())
    server = processes.start("server", clients, clients, tmp_path / "model", "12MiB")
    processes.start("echoes", fact(server, "port"), clients)
    report = fact(server, "contributors")
    assert fact(server, "digest") == before
    assert report["peak_over_base"] <= report["stated_peak"]
    # Less than their windows alone, if each stream had its own.
    assert report["stated_peak"] < 2 * clients * NARROW.stream.stream_bytes


def test_the_stated_memory_does_not_depend_on_the_model() -> None:
    with sl.Server("127.0.0.1:0", NARROW) as server:
        stated = {
            sl.ScatterAndGather(server, MemoryStore(initial(float_spec(size)))).peak_bytes(4)
            for size in (1, 1000, 100_000)
        }
    assert len(stated) == 1
