"""What a client's executors hold in memory, measured in a process of its own.

``python -m tests.scenarios.test_executor_memory PORT KIND DIRECTORY`` is that process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest

import streamlink as sl
from streamlink.executors.executor import Executor, Task
from streamlink.executors.ondisk import OnDiskExecutor
from streamlink.executors.whole import WholeExecutor
from streamlink.fleet import peak_rss_bytes
from streamlink.link import Attempt
from streamlink.link.receive_model import receive_model
from streamlink.link.send_model import send_model
from streamlink.model import GeneratedModel, map_model
from streamlink.model.difference import DifferenceSource
from streamlink.model.interfaces import ModelSource
from streamlink.model.part import part_of, part_source
from streamlink.stores import SafetensorsStore
from tests.support.models import float_spec
from tests.support.peers import WAIT, Array
from tests.support.processes import NARROW, ROOT, fact, tell

pytestmark = pytest.mark.processes

MODEL_BYTES = 256 << 20
SPEC = float_spec(*[MODEL_BYTES // 16] * 4, 1000)
BESIDE = 64 << 20
"""What the windows, the stores' buffers and the threads may take (bytes)."""
ROUNDS = 2

MODELS = {
    "values": 1,
    "differences on disk": 1,
    "differences": 2,
    "differences of a part": 1,
    "next on disk": 1,
    "next": 2,
    "directory": 0.125,  # what the work in this process reads and writes with
    "directory, differences": 0.125,
}
"""How many models each kind of executor may hold."""


def part(kind: str) -> tuple[str, ...]:
    return ("t4",) if "part" in kind else ()


def train(model: dict[str, Array], task: Task) -> None:
    for array in model.values():
        array += 1


def train_file(model_dir: Path, update_dir: Path, task: Task) -> None:
    trained = map_model(sl.open_model(model_dir), lambda tensor, start, values: values + 1)
    sl.copy_model(trained, SafetensorsStore(update_dir).begin(SPEC))


def executor(kind: str, directory: Path) -> Executor:
    store = SafetensorsStore(directory)
    match kind:
        case "values":
            return WholeExecutor(train)
        case "differences on disk":
            return WholeExecutor(train, returns="differences", baseline=store)
        case "differences" | "differences of a part":
            return WholeExecutor(train, returns="differences")
        case "next on disk":
            return WholeExecutor(train, next_model=store)
        case "next":
            return WholeExecutor(train, next_model="memory")
        case "directory":
            return OnDiskExecutor(train_file, directory)
    return OnDiskExecutor(train_file, directory, returns="differences")


def client(port: str, kind: str, directory: str) -> None:
    """Do tasks until the server says goodbye, and tell the most memory that took."""
    sl.tune_allocator()
    base = psutil.Process().memory_info().rss
    with sl.Client(f"127.0.0.1:{port}", "site", executor(kind, Path(directory)), NARROW) as site:
        rounds = len(site.run())
    tell(rounds=rounds, peak_over_base=peak_rss_bytes(os.getpid()) - base)


def before(round: int) -> GeneratedModel:
    def fill(tensor: sl.TensorSpec, start: int, out: Array) -> None:
        out[:] = (np.arange(start, start + out.size) + round) & 1023

    return GeneratedModel(SPEC, fill)


def after(kind: str, round: int) -> ModelSource:
    trained = map_model(before(round), lambda tensor, start, values: values + 1)
    source = DifferenceSource(trained, before(round)) if "differences" in kind else trained
    return part_source(source, part_of(SPEC, part(kind)))


class Nowhere:
    """Takes a model and keeps nothing; the link makes its digest."""

    def __init__(self, spec: sl.ModelSpec) -> None:
        self.spec = spec

    def write(self, offset: int, payload: memoryview) -> None:
        pass

    def commit(self, progress: object = None) -> None:
        pass

    def discard(self) -> None:
        pass


@pytest.fixture
def server() -> Iterator[sl.Server]:
    with sl.Server("127.0.0.1:0", NARROW) as server:
        yield server


def exchange(server: sl.Server, kind: str, round: int) -> str:
    """Send a model and return the digest of the update."""
    peer = server.wait_for_peer("site", WAIT)
    assert peer is not None
    ours = peer.request("train", SPEC, attempt=Attempt("job", round, 1), part=part(kind))
    with ThreadPoolExecutor(2) as pool:
        pool.submit(send_model, ours.outgoing, before(round))
        update = pool.submit(receive_model, ours.incoming, lambda model: Nowhere(model.spec))
        digest = update.result().digest
    assert ours.wait_reply(WAIT) is not None  # a goodbye must not overtake the commit
    return digest


@pytest.mark.parametrize("kind", list(MODELS))
def test_an_executor_holds_as_many_models_as_it_says(
    server: sl.Server, tmp_path: Path, kind: str
) -> None:
    command = [sys.executable, "-m", __name__, str(server.port), kind, str(tmp_path / "store")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        for round in range(ROUNDS):
            assert exchange(server, kind, round) == sl.digest_of(after(kind, round))
        server.close()
        found = fact(process, "rounds")
    finally:
        process.kill()
        process.communicate()
    assert found["rounds"] == ROUNDS
    print(f"{kind}: {found['peak_over_base'] / MODEL_BYTES:.2f} models")
    assert found["peak_over_base"] <= MODELS[kind] * MODEL_BYTES + BESIDE


if __name__ == "__main__":
    client(*sys.argv[1:])
