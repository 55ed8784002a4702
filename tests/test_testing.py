"""What an embedder tests with: whole rounds in one process, without a socket."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamlink
from streamlink.errors import Cancelled, QuorumNotReached
from streamlink.stores import ArrayModel, MemoryStore
from streamlink.testing import FailingSource, GeneratedModel, memory_address, run_job
from tests.test_construction import sockets

ADD = streamlink.StreamingExecutor(lambda tensor, start, values: values + 1)


def a_store() -> MemoryStore:
    return MemoryStore({"w": np.zeros(1000, np.float32)})


def test_a_job_runs_in_one_process() -> None:
    store, events = a_store(), list[streamlink.RoundEvent]()
    rules = streamlink.RoundConfig(min_clients=2, num_rounds=3)
    reports = run_job(store, {"a": ADD, "b": ADD}, rules, on_event=events.append)
    assert [list(report.weights) for report in reports] == [["a", "b"]] * 3
    assert store.arrays["w"].tolist() == [3.0] * 1000
    assert events[-1].kind is streamlink.rounds.EventKind.ROUND_DONE


def test_the_facts_of_each_transfer_come_from_both_ends() -> None:
    facts = list[streamlink.TransferFacts]()
    run_job(a_store(), {"a": ADD}, on_transfer=facts.append)
    ends = sorted((each.peer_name, each.direction, each.outcome) for each in facts)
    server, site = (
        [("server", way, "done") for way in ("received", "sent")],
        [("a", way, "done") for way in ("received", "sent")],
    )
    assert ends == site + server


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not list sockets")
def test_it_needs_no_socket() -> None:
    before, during = sockets(), list[int]()

    def work(tensor: streamlink.TensorSpec, start: int, values: Any) -> Any:
        during.append(sockets())
        return values

    run_job(a_store(), {"a": streamlink.StreamingExecutor(work)})
    assert set(during) == {before}


def test_a_job_that_fails_says_why() -> None:
    def broken(tensor: streamlink.TensorSpec, start: int, values: Any) -> Any:
        raise ValueError("no data")

    with pytest.raises(QuorumNotReached, match="no data"):
        run_job(a_store(), {"a": streamlink.StreamingExecutor(broken)})


def test_a_client_that_cannot_begin_is_not_waited_for() -> None:
    nothing: Any = None
    with pytest.raises(TypeError, match="not an executor"):
        run_job(a_store(), {"a": ADD, "b": nothing})


def test_a_token_ends_the_wait_for_the_clients_and_the_job() -> None:
    token = streamlink.CancelToken()

    def work(tensor: streamlink.TensorSpec, start: int, values: Any) -> Any:
        token.cancel("enough")
        return values

    rules = streamlink.RoundConfig(min_clients=1, num_rounds=1_000_000)
    for _ in ("in the job", "before the clients are there"):
        with pytest.raises(Cancelled, match="enough"):
            run_job(a_store(), {"a": streamlink.StreamingExecutor(work)}, rules, cancel=token)


def test_each_address_is_new() -> None:
    first, second = memory_address(), memory_address()
    assert first != second
    with streamlink.Server(first) as one, streamlink.Server(second) as two:
        assert (one.address, two.address) == (first, second)


def test_a_source_fails_from_a_byte_on() -> None:
    spec = ArrayModel({"w": np.zeros(1000, np.float32)}).spec
    whole = GeneratedModel(spec, lambda tensor, start, out: out.fill(1))
    source = FailingSource(whole, 2000, OSError("the disk is gone"))
    assert source.read(0, 2000)[0].nbytes == 2000
    into, address = {"w": np.zeros(1000, np.float32)}, memory_address()
    token = streamlink.CancelToken()
    with ThreadPoolExecutor(1) as pool:
        received = pool.submit(streamlink.receive, into, address, cancel=token)
        with pytest.raises(OSError, match="the disk is gone"):
            streamlink.send(source, address)
        token.cancel("enough")  # it waits for the next sender
        with pytest.raises(Cancelled):
            received.result(60)
