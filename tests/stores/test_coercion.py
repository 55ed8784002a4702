"""What users have, as a source, a place or a store; and what is refused in words."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch

from streamlink.cli.paths import store_at
from streamlink.errors import ModelError, SpecMismatch, StoreError
from streamlink.model.interfaces import ModelSink, ModelStore
from streamlink.stores import (
    ArrayModel,
    CompressedStore,
    MemoryStore,
    SafetensorsStore,
    as_model,
    open_store,
)
from streamlink.stores.coercion import as_sink, as_source, as_store, as_target
from tests.support.models import content, float_spec, pattern_model, save

SPEC = float_spec(3, 2)
DATA = content(pattern_model(SPEC))


def stored(path: Path) -> SafetensorsStore:
    store = SafetensorsStore(path)
    save(store, pattern_model(SPEC))
    return store


def arrays() -> dict[str, Any]:
    return {"t0": np.zeros(3, np.float32), "t1": np.zeros(2, np.float32)}


def tensors() -> dict[str, Any]:
    return {name: torch.from_numpy(array) for name, array in arrays().items()}


def module() -> torch.nn.Module:
    made = torch.nn.Module()
    for name, tensor in tensors().items():
        made.register_parameter(name, torch.nn.Parameter(tensor))
    return made


# --- sources ----------------------------------------------------------------


def test_a_path_and_a_store_are_read(tmp_path: Path) -> None:
    store = stored(tmp_path / "model")
    for what in (store, tmp_path / "model", str(tmp_path / "model")):
        source = as_source(what)
        assert content(source) == DATA
        source.close()


@pytest.mark.parametrize("what", [arrays, tensors, module])
def test_what_is_in_memory_is_read_where_it_lies(what: Callable[[], Any]) -> None:
    source = as_source(what())
    assert source.spec == SPEC
    assert content(source) == bytes(SPEC.nbytes)


def test_a_source_is_itself() -> None:
    source = pattern_model(SPEC)
    assert as_source(source) is source


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (7, "an int, which cannot be read"),
        (None, "a NoneType"),
        ([np.zeros(3)], "a list"),
        (b"model", "a bytes"),
        (print, "a builtin_function"),
        (MemoryStore, "MemoryStore is a class; pass an instance of it"),
        ({"w": "text"}, "'w' is a str"),
        (object.__new__(torch.optim.SGD), "a SGD"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(what: Any, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        as_source(what)


def test_where_there_is_no_model_it_is_said(tmp_path: Path) -> None:
    for what in (tmp_path / "none", MemoryStore()):
        with pytest.raises(StoreError, match="no model"):
            as_source(what)


# --- places -----------------------------------------------------------------


@pytest.mark.parametrize("what", [arrays, tensors, module])
@pytest.mark.parametrize("names", [("t0", "t1"), ("t1", "t0")])
def test_what_is_in_memory_is_filled_in_the_order_that_comes(
    what: Callable[[], Any], names: tuple[str, ...]
) -> None:
    place, coming = what(), {"t0": np.arange(3.0, dtype="f4"), "t1": np.ones(2, "f4")}
    source = ArrayModel({name: coming[name] for name in names})
    sink = as_sink(place)(source.spec)
    sink.write(0, memoryview(content(source)))
    sink.commit()
    filled = as_source(place)
    assert content(filled) == content(ArrayModel(coming))


@pytest.mark.parametrize("kind", ["dict", "module"])
def test_of_tied_tensors_either_name_may_come(kind: str) -> None:
    tied = torch.nn.Module()
    tied.a = tied.b = torch.nn.Parameter(torch.zeros(3))
    place: Any = dict(tied.state_dict()) if kind == "dict" else tied
    coming = ArrayModel({"b": np.arange(3, dtype="f4")})
    sink = as_sink(place)(coming.spec)
    sink.write(0, memoryview(content(coming)))
    sink.commit()
    assert tied.a.tolist() == [0, 1, 2]


@pytest.mark.parametrize("what", [arrays, tensors, module])
def test_other_tensors_do_not_go_into_memory(what: Callable[[], Any]) -> None:
    sink_for = as_sink(what())
    with pytest.raises(SpecMismatch, match="the source has another model"):
        sink_for(float_spec(3, 4))


def test_a_module_is_never_called() -> None:
    called = module()
    called.forward = pytest.fail
    assert isinstance(as_sink(called)(SPEC), ModelSink)


def test_a_sink_a_function_and_a_store_give_their_sinks(tmp_path: Path) -> None:
    sink = ArrayModel(arrays())
    for what in (sink, lambda spec: sink):
        assert as_sink(what)(SPEC) is sink
    store = SafetensorsStore(tmp_path)
    assert as_target(store) is store
    assert as_sink(store)(SPEC).spec == SPEC


def test_a_function_that_makes_no_sink_is_told_so() -> None:
    wrong: Any = lambda spec: {}  # noqa: E731
    with pytest.raises(TypeError, match="returned a dict"):
        as_sink(wrong)(SPEC)


def test_a_function_whose_sink_has_the_tensors_in_another_order_is_refused() -> None:
    """Bytes are written by their place: they would silently fill other tensors."""
    either = {name: np.zeros(3, np.float32) for name in ("a", "b")}
    discarded: list[ArrayModel] = []

    class Watched(ArrayModel):
        def discard(self) -> None:
            discarded.append(self)

    sink = Watched(dict(reversed(either.items())))
    with pytest.raises(SpecMismatch, match="the function's sink"):
        as_sink(lambda spec: sink)(ArrayModel(either).spec)
    assert discarded == [sink]


def frozen() -> dict[str, Any]:
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    return {"w": array}


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (7, "an int, into which no model can be received"),
        ([], "a list"),
        (pattern_model(SPEC), "a GeneratedModel"),
        (ArrayModel, "ArrayModel is a class"),
        (torch.nn.Linear, "Linear is a class"),
        ({}, "no tensors to fill; .* MemoryStore"),
        (frozen(), "read-only"),
        ({"w": torch.zeros(1).expand(3)}, "expanded"),
        ({"w": [1.0]}, "'w' is a list"),
    ],
)
def test_what_cannot_be_filled_is_refused_in_words(what: Any, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        as_target(what)


# --- paths and stores -------------------------------------------------------


def test_a_path_becomes_the_store_that_it_names(tmp_path: Path) -> None:
    save(CompressedStore(tmp_path / "b.slz", reserve_bytes=0), pattern_model(SPEC))
    kinds: dict[str, type] = {
        "a": SafetensorsStore,
        "a.slz": CompressedStore,
        "b": CompressedStore,
    }
    for as_anything in (as_store, as_target):
        assert {name: type(as_anything(tmp_path / name)) for name in kinds} == kinds
    assert {path.name for path in tmp_path.iterdir()} == {"b.slz"}  # nothing was made


def test_a_path_that_no_store_can_be_at_is_refused(tmp_path: Path) -> None:
    safetensors.numpy.save_file(arrays(), tmp_path / "file")
    (tmp_path / "d.slz").mkdir()
    for name in ("file", "new.safetensors"):
        with pytest.raises(StoreError, match="a safetensors store is a directory"):
            as_store(tmp_path / name)
    with pytest.raises(StoreError, match="this is a directory; a compressed store is one file"):
        as_store(tmp_path / "d.slz")


def test_a_store_is_itself() -> None:
    store: ModelStore = MemoryStore()
    assert as_store(store) is store


@pytest.mark.parametrize("what", [arrays(), None, pattern_model(SPEC), MemoryStore])
def test_what_is_no_store_is_refused_in_words(what: Any) -> None:
    with pytest.raises(ModelError, match=r"not a store; .*MemoryStore|MemoryStore is a class"):
        as_store(what)


@pytest.mark.parametrize(
    ("there", "name", "kind"),
    [
        ("", "new", SafetensorsStore),
        ("", "new.slz", CompressedStore),
        ("m.slz", "m", CompressedStore),
        ("m/", "m", SafetensorsStore),
    ],
)
def test_python_and_the_command_line_take_a_path_for_the_same_store(
    there: str, name: str, kind: type, tmp_path: Path
) -> None:
    if there.endswith("/"):
        (tmp_path / there).mkdir()
    elif there:
        (tmp_path / there).touch()
    for way in (open_store, as_store, lambda path: store_at(path, None)):
        assert type(way(tmp_path / name)) is kind


@pytest.mark.parametrize("name", ["file", "m.safetensors", "dir.slz"])
def test_a_path_that_can_be_no_store_is_refused_before_anything_is_made(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dir.slz").mkdir()
    with pytest.raises(StoreError, match=r"is a directory"):
        open_store(tmp_path / name)


def test_arrays_are_recognized_while_another_thread_imports_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))  # as it is at first
    assert isinstance(as_model({"a": np.ones(2)}), ArrayModel)
    into = ArrayModel({"a": np.ones(2)})
    assert callable(as_target(lambda spec: into))
