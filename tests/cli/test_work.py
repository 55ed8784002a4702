"""What a client's command shows of the task that runs: its progress bars."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlink.cli.work import WatchedWork
from streamlink.executors.executor import Executor, Task
from streamlink.executors.ondisk import OnDiskExecutor
from streamlink.executors.streaming import StreamingExecutor
from streamlink.executors.whole import WholeExecutor
from streamlink.model.copy import copy_model
from streamlink.model.spec import TensorSpec
from streamlink.protocol.frames import Attempt
from streamlink.rounds.report import ClientProgress
from streamlink.stores import open_model
from streamlink.stores.memory import ArrayModel, MemoryStore
from streamlink.stores.safetensors import SafetensorsStore
from tests.support.peers import ODD, WAIT, Array, Federation, exchange_models, initial


class Watched:
    """A client whose work, and whose filter, note what is told at the time."""

    def __init__(self, kind: str, path: Path) -> None:
        self.at_work: list[ClientProgress] = []
        self.while_sent: list[ClientProgress] = []
        self.told = WatchedWork(self._executor(kind, path), "site-1")

    def _executor(self, kind: str, path: Path) -> Executor:
        match kind:
            case "streaming":
                return StreamingExecutor(self.send)
            case "whole":
                return WholeExecutor(self.train, filter_up=self.send)
        return OnDiskExecutor(self.train_file, path, filter_up=self.send)

    def train(self, model: dict[str, Array], task: Task) -> None:
        self.at_work += self.told.client_progress()

    def train_file(self, model_dir: Path, update_dir: Path, task: Task) -> None:
        self.at_work += self.told.client_progress()
        copy_model(open_model(model_dir), SafetensorsStore(update_dir).begin(ODD))

    def send(self, tensor: TensorSpec, start: int, values: Array) -> Array:
        self.while_sent += self.told.client_progress()
        return values


@pytest.fixture
def federation() -> Iterator[Federation]:
    with Federation() as federation:
        yield federation


@pytest.mark.parametrize("kind", ["streaming", "whole", "on disk"])
def test_bars_show_when_the_model_is_worked_on(
    federation: Federation, tmp_path: Path, kind: str
) -> None:
    site = Watched(kind, tmp_path)
    assert site.told.client_progress() == []
    client = federation.client("site-1", site.told)
    exchange = federation.peer("site-1").request("train", ODD, attempt=Attempt("job", 0, 1))
    exchange_models(exchange, ArrayModel(initial()), MemoryStore())
    at_work = [ClientProgress("server", "working", 0, ODD.nbytes, ODD.nbytes, ODD.nbytes)]
    assert site.at_work == ([] if kind == "streaming" else at_work)
    assert {each.phase for each in site.while_sent} == {"streaming"}
    assert site.while_sent[-1].total == ODD.nbytes
    federation.server.close()
    client.done.result(WAIT)
    left = [ClientProgress("server", "done", ODD.nbytes, ODD.nbytes, ODD.nbytes, ODD.nbytes)]
    assert site.told.client_progress() == left  # until the next task: what is over is seen as over
