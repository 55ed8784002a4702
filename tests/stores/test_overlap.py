"""Targets that share memory are refused; those that only look so are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from streamlink.copying import copy_model, receive
from streamlink.errors import ModelError
from streamlink.executors.trainable import Trainable
from streamlink.stores import ArrayModel, MemoryStore, SafetensorsStore, as_model, overlap
from streamlink.stores.overlap import require_disjoint

Array = npt.NDArray[Any]


def line(count: int = 6) -> Array:
    return np.arange(count, dtype=np.float32)


def halves(x: Array) -> dict[str, Array]:
    return {"a": x[:4], "b": x[2:]}


SHARED: dict[str, Callable[[Array], Mapping[str, Array]]] = {
    "parts": halves,
    "twice": lambda x: {"a": x, "b": x},
    "inside": lambda x: {"b": x[1:2], "a": x},
    "other dtype": lambda x: {"a": x, "b": x.view(np.int32)},
    "crossed": lambda x: {"a": x[::2], "b": x[::3]},
    "reversed": lambda x: {"a": x[::-1], "b": x[3:]},
    "inner": lambda x: {"a": x, "c": line(), "b": x.reshape(2, 3)[:, 1]},
}
TWISTED: dict[str, Callable[[Array], Array]] = {
    "rolling": lambda x: as_strided(x, (3, 3), (4, 4)),
    "still": lambda x: as_strided(x, (5,), (0,)),
    "backward": lambda x: as_strided(x[5:], (3, 2), (-4, -4)),
    "between": lambda x: as_strided(x, (4,), (2,)),
}
APART: dict[str, Callable[[Array], Mapping[str, Array]]] = {
    "neighbours": lambda x: {"a": x[:3], "b": x[3:]},
    "interleaved": lambda x: {"a": x[::2], "b": x[1::2]},
    "columns": lambda x: {str(n): x.reshape(2, 3)[:, n] for n in range(3)},
    "transposed": lambda x: {"a": x.reshape(2, 3).T, "b": line()},
    "reversed": lambda x: {"a": x[::-1]},
    "without elements": lambda x: {"a": x, "b": x[2:2], "c": x[:0]},
    "one element with any stride": lambda x: {"a": as_strided(x, (1, 6), (0, 4))},
}


def ways(target: Mapping[str, Array], directory: Path) -> list[Callable[[], object]]:
    """Return everything that would fill the target."""
    model = {name: array.copy() for name, array in target.items()}
    store = SafetensorsStore(directory / "model")
    copy_model(model, store)
    return [
        lambda: ArrayModel(target).write(0, memoryview(bytes(4))),
        lambda: copy_model(store, target),
        lambda: receive(target, "127.0.0.1:0"),
        lambda: Trainable(target),
    ]


@pytest.mark.parametrize("kind", SHARED)
def test_arrays_that_share_memory_are_never_filled(kind: str, tmp_path: Path) -> None:
    memory = line()
    for way in ways(SHARED[kind](memory), tmp_path):
        with pytest.raises(ModelError, match=r"tensors '[ab]' and '[ab]' share memory.*copy"):
            way()
    assert memory.tobytes() == line().tobytes()


@pytest.mark.parametrize("kind", TWISTED)
def test_an_array_that_may_self_overlap_is_never_filled(kind: str, tmp_path: Path) -> None:
    memory = line()
    for way in ways({"x": line(), "w": TWISTED[kind](memory)}, tmp_path):
        with pytest.raises(ModelError, match=r"'w' has several elements at the same address"):
            way()
    assert memory.tobytes() == line().tobytes()


@pytest.mark.parametrize("kind", [*SHARED, *TWISTED])
def test_shared_memory_may_be_read(kind: str) -> None:
    arrays = SHARED[kind](line()) if kind in SHARED else {"w": TWISTED[kind](line())}
    store = MemoryStore(arrays)
    copies = {name: np.array(array) for name, array in arrays.items()}
    for source in (ArrayModel(arrays), store.open()):
        assert b"".join(source.read(0, source.spec.nbytes)) == b"".join(
            copy.tobytes() for copy in copies.values()
        )


def test_a_memory_store_never_fills_what_it_was_given() -> None:
    memory = line()
    store = MemoryStore(halves(memory))
    for _ in range(3):
        copy_model({name: array + 1 for name, array in store.arrays.items()}, store)
    assert memory.tobytes() == line().tobytes()


@pytest.mark.parametrize("kind", APART)
def test_views_that_do_not_meet_are_filled(kind: str) -> None:
    target = APART[kind](line())
    sent = {name: array + 1 for name, array in target.items()}
    copy_model(sent, target)
    assert {name: array.tobytes() for name, array in target.items()} == {
        name: array.tobytes() for name, array in sent.items()
    }


@st.composite
def views(draw: st.DrawFn) -> Array:
    """A view of 24 elements, with steps of its own."""
    shapes: list[tuple[int, ...]] = [(24,), (4, 6), (2, 3, 4)]
    memory = _MEMORY.reshape(draw(st.sampled_from(shapes)))
    sizes: tuple[int, ...] = memory.shape
    cuts = [
        slice(draw(st.integers(0, size)), draw(st.integers(0, size)), draw(st.integers(1, 3)))
        for size in sizes
    ]
    return memory[tuple(cuts)]


_MEMORY = np.zeros(24, np.float32)


@given(st.lists(views(), min_size=1, max_size=4))
def test_exactly_the_views_with_a_byte_in_common_are_refused(arrays: list[Array]) -> None:
    counted = _MEMORY
    counted[:] = 0
    for array in arrays:
        array += 1
    named = {str(number): array for number, array in enumerate(arrays)}
    if counted.max() > 1:
        with pytest.raises(ModelError, match="share memory"):
            require_disjoint(named)
    else:
        require_disjoint(named)


def test_very_many_interleaved_views_are_told_apart_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns = {str(n): _MEMORY.reshape(2, 12)[:, n] for n in range(12)}
    require_disjoint(columns)
    monkeypatch.setattr(overlap, "_MAX_PAIRS", 60)
    with pytest.raises(ModelError, match="share memory"):
        require_disjoint(columns)


def test_tied_tensors_are_filled_once_and_others_that_share_memory_never() -> None:
    memory = torch.arange(6.0)
    tied = {"a": memory, "b": memory.view(6)}
    copy_model({"a": torch.ones(6)}, tied)
    assert memory.tolist() == [1.0] * 6
    for target in (
        {"a": memory[:4], "b": memory[2:]},
        {"a": memory, "b": memory.view(2, 3)},
        {"a": memory.as_strided((3, 3), (1, 1))},
    ):
        with pytest.raises(ModelError, match=r"share part of their memory|at the same address"):
            copy_model({name: tensor.clone() for name, tensor in target.items()}, target)
        with pytest.raises(ModelError, match=r"share part of their memory|at the same address"):
            Trainable(target)
    assert list(as_model(tied).spec.names) == ["a"]
