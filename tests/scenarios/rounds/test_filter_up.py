"""A site's own filter: what leaves by any executor has gone through it, and nothing else leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamlink.errors import StreamAborted
from streamlink.executors.executor import Executor, Task, TaskResult
from streamlink.executors.ondisk import OnDiskExecutor
from streamlink.executors.streaming import StreamingExecutor
from streamlink.executors.whole import WholeExecutor
from streamlink.filters import FilterContext, FilterFactory, on_floats
from streamlink.link import UpdateKind
from streamlink.model.computed import RangeFunction, map_model
from streamlink.model.copy import copy_model
from streamlink.model.difference import DifferenceSource
from streamlink.model.interfaces import ModelSource
from streamlink.model.part import part_of, part_source
from streamlink.model.spec import TensorSpec
from streamlink.protocol.frames import Attempt
from streamlink.stores import open_model
from streamlink.stores.memory import ArrayModel, MemoryStore
from streamlink.stores.safetensors import SafetensorsStore
from tests.support.models import content
from tests.support.peers import ODD, Array, Federation, exchange_models, initial, trained

PART = ("*16", "i*", "scalar", "flag")


def train(model: dict[str, Array], task: Task) -> TaskResult:
    for tensor in ODD.tensors:
        flat = model[tensor.name].reshape(-1)
        flat[:] = trained(2)(tensor, 0, flat)
    return TaskResult(2.5)


def train_file(model_dir: Path, update_dir: Path, task: Task) -> TaskResult:
    after = map_model(open_model(model_dir), trained(2))
    copy_model(after, SafetensorsStore(update_dir).begin(ODD))
    return TaskResult(2.5)


def executor(kind: str, path: Path, **settings: Any) -> Executor:
    match kind:
        case "streaming":
            return StreamingExecutor(trained(2), weight=2.5, **settings)
        case "whole":
            return WholeExecutor(train, **settings)
    return OnDiskExecutor(train_file, path, **settings)


@pytest.fixture
def federation() -> Iterator[Federation]:
    with Federation() as federation:
        yield federation


def run(federation: Federation, part: Sequence[str] = ()) -> bytes:
    peer, store = federation.peer("site-1"), MemoryStore()
    exchange = peer.request("train", ODD, attempt=Attempt("job", 3, 1), part=part)
    exchange_models(exchange, ArrayModel(initial()), store)
    return content(store.open())


def expected(returns: str, part: Sequence[str], function: RangeFunction) -> bytes:
    source: ModelSource = map_model(ArrayModel(initial()), trained(2))
    if returns == "differences":
        source = DifferenceSource(source, ArrayModel(initial()))
    return content(map_model(part_source(source, part_of(ODD, part)), function))


each_kind = pytest.mark.parametrize("kind", ["streaming", "whole", "on disk"])


@pytest.mark.product
@each_kind
@pytest.mark.parametrize("part", [(), PART], ids=["all", "part"])
@pytest.mark.parametrize("returns", ["values", "differences"])
def test_every_range_of_what_is_sent_was_filtered(
    federation: Federation, tmp_path: Path, kind: str, returns: Any, part: tuple[str, ...]
) -> None:
    # The work of another client depends on the position, and changes integers and booleans too.
    site = executor(kind, tmp_path, returns=returns, filter_up=trained(5))
    federation.client("site-1", site)
    assert run(federation, part) == expected(returns, part, trained(5))


@each_kind
def test_differences_are_clipped_and_not_the_model(
    federation: Federation, tmp_path: Path, kind: str
) -> None:
    @on_floats
    def clip(tensor: TensorSpec, start: int, values: Array) -> Array:
        assert not values.flags.writeable
        return np.clip(values, -1, 1)

    federation.client("site-1", executor(kind, tmp_path, returns="differences", filter_up=clip))
    update = np.frombuffer(run(federation, ["f32"]), "f4")
    assert (update == 1).all()  # the work adds 2 to 12 everywhere


@each_kind
def test_a_filter_may_be_chosen_for_each_update(
    federation: Federation, tmp_path: Path, kind: str
) -> None:
    seen: list[FilterContext] = []

    def choose(facts: FilterContext) -> RangeFunction:
        seen.append(facts)
        return trained(facts.attempt.round)

    site = executor(kind, tmp_path, returns="differences", filter_up=FilterFactory(choose))
    federation.client("site-1", site)
    assert run(federation) == expected("differences", (), trained(3))
    (facts,) = seen
    assert (facts.update.weight, facts.update.kind) == (2.5, UpdateKind.DIFFERENCES)


@each_kind
def test_a_filter_that_fails_is_told_and_nothing_of_it_leaves(
    federation: Federation, tmp_path: Path, kind: str
) -> None:
    def widen(tensor: TensorSpec, start: int, values: Array) -> Array:
        return values.astype("c16")

    federation.client("site-1", executor(kind, tmp_path, filter_up=widen))
    with pytest.raises(StreamAborted, match="complex128"):
        run(federation)
