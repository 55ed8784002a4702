"""Models in one directory, updates from another: what is sent, and what is refused before that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from streamlink.errors import StoreError, StoreFull, StreamAborted
from streamlink.executors.executor import Task, TaskResult
from streamlink.executors.ondisk import OnDiskExecutor
from streamlink.link import UpdateKind
from streamlink.link.peer_request import PeerRequest
from streamlink.model.copy import copy_model
from streamlink.model.difference import DifferenceSource
from streamlink.model.part import part_of, part_source
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.protocol.frames import Attempt
from streamlink.rounds.aggregate.clip import norm_of
from streamlink.stores import open_model
from streamlink.stores.memory import ArrayModel, MemoryStore
from streamlink.stores.safetensors import SafetensorsStore
from tests.support.models import content
from tests.support.peers import WAIT, Array, Federation, exchange_models

SPEC = ModelSpec(
    (
        TensorSpec("w", "F32", (701, 9)),
        TensorSpec("b", "F16", (333,)),
        TensorSpec("steps", "I64", (5,)),
        TensorSpec("lora", "F32", (77,)),
    )
)
PART = ("l*", "b")


def before() -> dict[str, Array]:
    return {t.name: np.arange(t.count).astype(t.numpy_dtype).reshape(t.shape) for t in SPEC.tensors}


def train(model_dir: Path, update_dir: Path, task: Task) -> TaskResult:
    """Read the model with another library, and write the update with it: in its own order."""
    (index,) = model_dir.glob("*.index.json")
    assert index.exists()
    arrays = {name: array for file in shards(model_dir) for name, array in load_file(file).items()}
    trained = {name: array + 1 for name, array in arrays.items() if wanted(name, task.part)}
    save_file(trained, update_dir / "model.safetensors")
    return TaskResult(2.5, {"loss": 0.5}, {"site": "here"})


def shards(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.safetensors"))


def wanted(name: str, part: Sequence[str]) -> bool:
    return name in part_of(SPEC, part).names


def expected_update(returns: str, part: Sequence[str]) -> bytes:
    source: Any = ArrayModel({name: array + 1 for name, array in before().items()})
    if returns == "differences":
        source = DifferenceSource(source, ArrayModel(before()))
    return content(part_source(source, part_of(SPEC, part)))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "site"


def run(federation: Federation, part: Sequence[str] = ()) -> tuple[PeerRequest, bytes]:
    store, peer = MemoryStore(), federation.peer("site-1")
    exchange = peer.request("train", SPEC, attempt=Attempt("job", 0, 1), part=part)
    exchange_models(exchange, ArrayModel(before()), store)
    return exchange, content(store.open())


@pytest.mark.parametrize("part", [(), PART], ids=["all", "part"])
@pytest.mark.parametrize("returns", ["values", "differences"])
def test_the_server_gets_what_the_work_left(
    federation: Federation, place: Path, returns: Any, part: tuple[str, ...]
) -> None:
    federation.client("site-1", OnDiskExecutor(train, place, returns=returns))
    for _ in range(2):
        exchange, update = run(federation, part)
        assert update == expected_update(returns, part)
        assert exchange.incoming.spec == part_of(SPEC, part)
        assert exchange.incoming.metrics == {"loss": 0.5}
        kind = UpdateKind.DIFFERENCES if returns == "differences" else UpdateKind.VALUES
        assert exchange.incoming.update.kind is kind
        assert exchange.incoming.update.weight == 2.5
    assert content(open_model(place / "model")) == content(ArrayModel(before()))


@pytest.mark.parametrize("part", [(), PART], ids=["all", "part"])
@pytest.mark.parametrize("returns", ["values", "differences"])
def test_the_norm_of_the_change_is_declared_where_it_is_asked_for(
    federation: Federation, place: Path, returns: Any, part: tuple[str, ...]
) -> None:
    site = OnDiskExecutor(train, place, returns=returns, declares_norm=True)
    federation.client("site-1", site)
    exchange, _ = run(federation, part)
    sent, base = ArrayModel({name: array + 1 for name, array in before().items()}), before()
    wanted = part_source(sent, part_of(SPEC, part))
    norm = norm_of(wanted, ArrayModel(base), UpdateKind.VALUES)
    assert exchange.incoming.update.norm == pytest.approx(norm, rel=1e-6)
    assert norm > 0


def leave_all(model_dir: Path, update_dir: Path, task: Task) -> None:
    save_file(
        {name: array + 1 for name, array in before().items()}, update_dir / "mine.safetensors"
    )


def leave_shards(model_dir: Path, update_dir: Path, task: Task) -> None:
    arrays = ArrayModel({name: array + 1 for name, array in before().items()})
    copy_model(arrays, SafetensorsStore(update_dir, shard_bytes=1 << 12).begin(SPEC))


@pytest.mark.parametrize("work", [leave_all, leave_shards])
@pytest.mark.parametrize("part", [(), PART], ids=["all", "part"])
def test_a_whole_update_under_any_name_or_in_shards_will_do(
    federation: Federation, place: Path, work: Any, part: tuple[str, ...]
) -> None:
    federation.client("site-1", OnDiskExecutor(work, place))
    assert run(federation, part)[1] == expected_update("values", part)


def test_the_next_task_finds_an_empty_directory(federation: Federation, place: Path) -> None:
    found: list[list[Path]] = []

    def note(model_dir: Path, update_dir: Path, task: Task) -> TaskResult:
        assert site.watched is not None
        assert site.watched[0].stats.received_bytes == SPEC.nbytes
        found.append(list(update_dir.iterdir()))
        return train(model_dir, update_dir, task)

    site = OnDiskExecutor(note, place)
    federation.client("site-1", site)
    for _ in range(2):
        run(federation)
    assert found == [[], []]


def leaving(**changes: Array | None) -> Callable[..., None]:
    """Return work that leaves the model with some tensors changed, or, for ``None``, without."""

    def work(model_dir: Path, update_dir: Path, task: Task) -> None:
        arrays = {**before(), **changes}
        kept = {name: array for name, array in arrays.items() if array is not None}
        save_file(kept, update_dir / "model.safetensors")

    return work


def leaving_files(*names: str) -> Callable[..., None]:
    def work(model_dir: Path, update_dir: Path, task: Task) -> None:
        for name in names:
            (update_dir / name).write_bytes(b"not a model")

    return work


@pytest.mark.product
@pytest.mark.parametrize(
    ("work", "part", "why"),
    [
        (leaving(b=None), (), "left has no tensor 'b'"),
        (leaving(b=None), PART, "left has no tensor 'b'"),
        (leaving(b=None, w=None, steps=None), PART, "left has no tensor 'b'"),
        (leaving(extra=np.zeros(3)), (), "left has a tensor 'extra'; the model has none"),
        (leaving(b=np.zeros(333)), (), r"'b' of the update that the work left is F64 of shape"),
        (leaving(w=np.zeros(3, "f4")), (), r"shape \(3,\); the model's is F32 of shape \(701, 9\)"),
        (leaving_files(), (), "must leave its update here as .*; it left nothing there"),
        (leaving_files("a.safetensors", "b.safetensors"), (), "it left a.safetensors, b.safet"),
        (leaving_files("weights.pt"), (), "it left weights.pt"),
        (leaving_files("model.safetensors"), (), "model.safetensors"),
        (lambda *_: 1 / 0, (), "ZeroDivisionError"),
        (lambda *_: 0.5, (), "returned a float; it must return a TaskResult"),
    ],
)
def test_an_update_that_cannot_be_sent_is_refused_in_words(
    federation: Federation, place: Path, work: Any, part: tuple[str, ...], why: str
) -> None:
    works = [work, train]
    federation.client("site-1", OnDiskExecutor(lambda *a: works.pop(0)(*a), place))
    with pytest.raises(StreamAborted, match=why) as told:
        run(federation, part)
    assert told.value.by_peer
    assert run(federation, part)[1] == expected_update("values", part)


class Full(SafetensorsStore):
    def begin(self, *arguments: Any, **named: Any) -> Any:
        sink = super().begin(*arguments, **named)

        def fail(offset: int, payload: memoryview) -> None:
            raise StoreFull("/data: no room while writing the model")

        sink.write = fail  # type: ignore[method-assign]
        return sink


def test_a_full_disk_is_told(federation: Federation, place: Path) -> None:
    federation.client("site-1", OnDiskExecutor(train, place, open_store=Full))
    peer = federation.peer("site-1")
    exchange = peer.request("train", SPEC, attempt=Attempt("job", 0, 1))
    with pytest.raises(StreamAborted, match="no room while writing the model"):
        exchange_models(exchange, ArrayModel(before()), MemoryStore())
    reply = exchange.wait_reply(WAIT)
    assert reply is not None
    assert reply.error == "/data: no room while writing the model"


def test_a_part_there_is_not_is_refused_before_the_model_comes(
    federation: Federation, place: Path
) -> None:
    federation.client("site-1", OnDiskExecutor(train, place))
    with pytest.raises(StreamAborted, match="matches the pattern 'head'"):
        run(federation, ["head"])
    assert not (place / "model").exists()


def test_what_a_killed_process_left_is_removed_and_the_model_is_not(place: Path) -> None:
    copy_model(ArrayModel(before()), SafetensorsStore(place / "model").begin(SPEC))
    (place / "update").mkdir()
    (place / "update" / "half.safetensors").write_bytes(b"half")
    OnDiskExecutor(train, place).close()
    assert list((place / "update").iterdir()) == []
    assert content(open_model(place / "model")) == content(ArrayModel(before()))


def test_one_executor_at_a_time_has_a_directory(place: Path) -> None:
    first = OnDiskExecutor(train, place)
    with pytest.raises(StoreError, match="another"):
        OnDiskExecutor(train, place)
    first.close()
    OnDiskExecutor(train, place).close()


def test_a_directory_that_cannot_be_made_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="making the directory of an executor failed"):
        OnDiskExecutor(train, tmp_path / "file" / "site")
    with pytest.raises(ValueError, match="returns must be"):
        OnDiskExecutor(train, tmp_path, returns="gradients")  # type: ignore[arg-type]
