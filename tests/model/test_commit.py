from __future__ import annotations

from pathlib import Path

import pytest

from streamlink.errors import StoreError
from streamlink.model.commit import CommitSink, commit_together
from streamlink.model.interfaces import ModelSink, ModelStore, Progress
from streamlink.stores import CompressedStore, SafetensorsStore
from streamlink.stores.memory import MemoryStore
from tests.support.models import content, fill, float_spec, pattern_model, save

SPEC = float_spec(5, 300_000, 3)
OLD, NEW = pattern_model(SPEC), pattern_model(SPEC, seed=9)


@pytest.fixture
def stores(tmp_path: Path) -> list[ModelStore]:
    """One of each kind, with an old model."""
    made: list[ModelStore] = [
        MemoryStore(),
        SafetensorsStore(tmp_path / "model"),
        CompressedStore(tmp_path / "c.slz"),
    ]
    for store in made:
        save(store, OLD)
    return made


class Simple:
    """A sink with one step, that may fail in it."""

    spec = SPEC

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self.did: list[str] = []

    def write(self, offset: int, payload: memoryview) -> None:
        raise NotImplementedError

    def commit(self, progress: Progress | None = None) -> None:
        self.did.append("commit")
        if self._error is not None:
            raise self._error

    def discard(self) -> None:
        self.did.append("discard")


def begun(stores: list[ModelStore], upto: int | None = None) -> list[ModelSink]:
    """Return sinks with the new model; ``upto``: so many bytes of it in the last one."""
    sinks = [store.begin(SPEC) for store in stores]
    for sink in sinks:
        fill(sink, content(NEW)[: upto if sink is sinks[-1] else None], [])
    return sinks


def what(stores: list[ModelStore]) -> list[str]:
    found = (content(store.open()) for store in stores)
    return ["new" if data == content(NEW) else "old" for data in found]


def test_all_models_become_visible(stores: list[ModelStore]) -> None:
    told: list[int] = []
    commit_together(begun(stores), told.append)
    assert what(stores) == ["new"] * 3
    assert told == sorted(told)
    assert told


def test_no_model_becomes_visible_where_one_is_not_whole(stores: list[ModelStore]) -> None:
    with pytest.raises(StoreError, match="first missing one is byte 11"):
        commit_together(begun(stores, SPEC.nbytes - 1))
    assert what(stores) == ["old"] * 3
    commit_together(begun(stores))  # all were discarded: nothing is locked, nothing stays behind
    assert what(stores) == ["new"] * 3


def test_one_that_cannot_prepare_decides_for_all(stores: list[ModelStore]) -> None:
    last = Simple(StoreError("no room"))
    with pytest.raises(StoreError, match="no room"):
        commit_together([*begun(stores), last])
    assert what(stores) == ["old"] * 3
    assert last.did == ["commit", "discard"]


def test_an_error_after_the_first_commit_says_how_many_are_visible(
    stores: list[ModelStore],
) -> None:
    first, second = Simple(), Simple(StoreError("no room"))
    with pytest.raises(StoreError) as caught:
        commit_together([first, *begun(stores), second])
    assert caught.value.__notes__ == ["1 of 5 models were already committed and stay visible"]
    assert what(stores) == ["old"] * 3
    assert (first.did, second.did) == (["commit"], ["commit", "discard"])


def test_a_sink_with_a_commit_of_its_own_is_its_inner_one_in_all_else() -> None:
    store, commits = MemoryStore(), list[Progress | None]()
    inner = store.begin(SPEC)
    sink = CommitSink(inner, commits.append)
    assert sink.spec == SPEC
    fill(sink, content(NEW), [])
    sink.commit(None)
    assert commits == [None]
    inner.commit(None)
    assert content(store.open()) == content(NEW)


def test_a_sink_with_a_commit_of_its_own_discards_the_inner_one() -> None:
    inner = Simple()
    CommitSink(inner, lambda progress: None).discard()
    assert inner.did == ["discard"]
