"""A model that is changed under a round: the server's own on its disk, or a client's in memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamlink.clock import RunningClock
from streamlink.errors import CorruptStore, SourceChanged, StreamlinkError
from streamlink.executors.executor import Task, TaskResult
from streamlink.executors.streaming import StreamingExecutor
from streamlink.executors.whole import WholeExecutor
from streamlink.link.transfer_facts import TransferFacts
from streamlink.model.interfaces import Check, Payload
from streamlink.model.spec import TensorSpec
from streamlink.rounds.events import EventKind, RoundEvent
from streamlink.stores.memory import ArrayModel
from streamlink.stores.safetensors import SafetensorsSource, SafetensorsStore
from tests.support.jobs import Job
from tests.support.models import content, save
from tests.support.peers import WAIT, Array, Federation, config

MODEL = {
    name: np.arange(n, dtype=np.float32) for name, n in {"a": 9, "b": 270_000, "c": 300_000}.items()
}
"""Three blocks of 1 MiB, the last in "c" alone."""

LINK = config(
    stream={
        "chunk_bytes": 64 << 10,
        "min_chunk_bytes": 4096,
        "window_bytes": 256 << 10,
        "initial_window_bytes": 256 << 10,
    }
)


def half_more(tensor: TensorSpec, start: int, values: Array) -> Array:
    return values + np.float32(0.5)


def rot(file: Path) -> None:
    """Flip a bit near the end, as a disk does: nobody wrote to the file."""
    times = file.stat()
    write(file)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def write(file: Path) -> None:
    """Write to the file in place; a second time: back again."""
    with file.open("r+b") as opened:
        opened.seek(-9, os.SEEK_END)
        (byte,) = opened.read(1)
        opened.seek(-9, os.SEEK_END)
        opened.write(bytes([byte ^ 4]))


class LockedSource(SafetensorsSource):
    """Is read and checked only while nobody holds ``lock``."""

    def __init__(self, directory: Path, lock: threading.Lock) -> None:
        super().__init__(directory)
        self._lock = lock

    def read(self, offset: int, length: int) -> Payload:
        with self._lock:
            return super().read(offset, length)

    def watch(self) -> Check:
        check = super().watch()

        def locked() -> None:
            with self._lock:
                check()

        return locked


class LockedStore(SafetensorsStore):
    """Nothing reads its model while ``lock`` is held, so that a change of several steps is one."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.lock = threading.Lock()
        self._path = directory

    def open(self) -> LockedSource:
        return LockedSource(self._path, self.lock)


def require_named(
    tmp_path: Path,
    damage: Callable[[Path], None],
    kind: type[StreamlinkError],
    **options: Any,
) -> None:
    """Damage the server's model under a round: it ends by file and tensor, and nothing is left."""
    store = LockedStore(tmp_path / "model")
    save(store, ArrayModel(MODEL))
    (file,) = (tmp_path / "model").glob("*.safetensors")
    os.utime(file, (1e9, 1e9))
    extras = {"spool": tmp_path / "spool", "ledger": tmp_path / "ledger"}
    with Job(LINK, extras=extras, **options) as job:
        job.store = store  # type: ignore[assignment]
        # Both stand at the first tensor, so that nobody has read the last block beforehand.
        gates = [job.gated(number, "b")[0] for number in range(2)]
        job.start(2)
        for gate in gates:
            assert gate.reached.wait(WAIT)
        with store.lock:
            damage(file)
        for gate in gates:
            gate.opens.set()
        error = job.done.exception(WAIT)
    assert isinstance(error, kind), error  # and no client is blamed
    assert isinstance(error, CorruptStore | SourceChanged)
    assert error.path == str(file)
    assert "tensor 'c'" in str(error) or isinstance(error, SourceChanged)
    damage(file)
    assert content(store.open()) == content(ArrayModel(MODEL))  # the old one stands
    assert not [*tmp_path.rglob("*.part*"), *tmp_path.glob("spool/*")]


@pytest.mark.parametrize("gather", ["lockstep", "spool"])
@pytest.mark.parametrize(("damage", "kind"), [(rot, CorruptStore), (write, SourceChanged)])
def test_a_servers_model_that_changes_under_a_round_ends_it_by_file_and_tensor(
    tmp_path: Path, gather: str, damage: Callable[[Path], None], kind: type[StreamlinkError]
) -> None:
    require_named(tmp_path, damage, kind, gather=gather)


class JoinTold(RunningClock):
    """Tells when somebody waits for the threads that send a model."""

    def __init__(self) -> None:
        super().__init__()
        self.joined = threading.Event()

    def join(self, thread: threading.Thread, seconds: float | None = None) -> None:
        if thread.name.startswith("send-"):
            self.joined.set()
        super().join(thread, seconds)


@pytest.mark.parametrize("gather", ["lockstep", "spool"])
def test_clients_that_hear_first_of_a_fault_of_the_servers_are_not_blamed(
    tmp_path: Path, gather: str
) -> None:
    clock = JoinTold()

    def hold_back(facts: TransferFacts) -> None:
        """Keep the thread that meets the fault until somebody asks: the clients are heard first."""
        if threading.current_thread().name.startswith("send-"):
            assert clock.joined.wait(WAIT)

    federation = Federation(LINK, on_transfer=hold_back, clock=clock)
    require_named(tmp_path, rot, CorruptStore, federation=federation, gather=gather)


def test_a_clients_module_that_changes_under_its_update_is_left_out_in_words() -> None:
    torch = pytest.importorskip("torch")
    parameters = {name: torch.nn.Parameter(torch.zeros(len(MODEL[name]))) for name in MODEL}
    module = torch.nn.ParameterDict(parameters)

    def train(model: Any, task: Task) -> TaskResult:
        return TaskResult()

    def step(event: RoundEvent) -> None:
        if event.kind is EventKind.BEFORE_AGGREGATION and event.attempt.attempt == 1:
            with torch.no_grad():
                module["c"] += 1  # a window of its update is here

    with Job(LINK, arrays=MODEL, extras={"on_event": step}) as job:
        for number in range(2):
            job.site(number, StreamingExecutor(half_more))
        job.site(2, WholeExecutor(train, module))
        job.start(3)
        report = job.report()
    assert sorted(report.weights) == ["site-0", "site-1"]
    assert report.attempt == 2
    assert "tensor 'c': it was written to while it was read" in report.failures["site-2"]
