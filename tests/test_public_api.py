"""What users import: these names, each of them documented, and nothing by accident."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
import pytest

import streamlink
from streamlink import errors

NAMES = [
    "LinkConfig", "StreamConfig", "TimeoutConfig", "GrpcConfig", "RoundConfig", "JobConfig",
    "parse_size",
    "TensorSpec", "ModelSpec", "ModelSource", "ModelSink", "ModelStore", "ArrayModel",
    "TorchModel", "as_model", "GeneratedModel", "map_model", "digest_of", "copy_model",
    "MemoryStore", "SafetensorsStore", "CompressedStore", "open_model", "open_store",
    "send", "receive",
    "Server", "ScatterAndGather", "RoundReport", "Client", "Executor", "StreamingExecutor",
    "WholeExecutor", "OnDiskExecutor", "Task", "TaskResult",
    "PerModel", "ModelFacts", "on_floats", "RoundEvent", "Happening",
    "Fleet", "show_progress", "Reporter", "tune_allocator",
    "StreamlinkError",
]  # fmt: skip

CLASSES = [name for name in NAMES if inspect.isclass(getattr(streamlink, name))]


def test_the_public_names_are_these_in_reading_order() -> None:
    assert streamlink.__all__ == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_documented(name: str) -> None:
    doc = inspect.getdoc(getattr(streamlink, name)) or ""
    assert re.match(r"[^\n]{10,}[.:?]($|\n| )", doc), f"{name}: {doc[:80]!r}"


def public_members(cls: type[Any]) -> list[tuple[str, Any]]:
    return [
        (name, member)
        for name, member in vars(cls).items()
        if not name.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, property | classmethod))
    ]


@pytest.mark.parametrize("name", CLASSES)
def test_every_public_method_is_documented(name: str) -> None:
    for member, value in public_members(getattr(streamlink, name)):
        assert inspect.getdoc(value), f"{name}.{member}"


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("Config")])
def test_every_setting_is_documented_with_its_unit(name: str) -> None:
    fields: dict[str, pydantic.fields.FieldInfo] = getattr(streamlink, name).model_fields
    for field, info in fields.items():
        assert info.description, f"{name}.{field}"
        if info.annotation in (int, float):
            assert re.search(r"\((bytes|seconds|count)\)|Number of", info.description), field


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_is_documented_and_ours(name: str) -> None:
    error = getattr(errors, name)
    assert inspect.getdoc(error)
    assert name == "AbortCode" or issubclass(error, streamlink.StreamlinkError)


def test_the_tree_of_errors_names_every_error() -> None:
    tree = errors.__doc__ or ""
    assert [name for name in errors.__all__ if name != "AbortCode" and name not in tree] == []


def test_the_version_is_the_packages() -> None:
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{streamlink.__version__}"' in text


def test_reports_are_facts_that_cannot_be_changed() -> None:
    report = streamlink.RoundReport(0, 1, 0.5, {"a": 1.0}, {})
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.round = 2  # type: ignore[misc]


def test_a_model_goes_from_arrays_to_a_store_and_back(tmp_path: Path) -> None:
    arrays = {"w": np.arange(6, dtype=np.float32).reshape(2, 3)}
    model = streamlink.ArrayModel(arrays)
    store = streamlink.open_store(tmp_path / "model", "none")
    streamlink.copy_model(model, store.begin(model.spec))
    stored = streamlink.open_model(tmp_path / "model")
    assert stored.spec.tensors == (streamlink.TensorSpec("w", "F32", (2, 3)),)
    assert streamlink.digest_of(stored) == streamlink.digest_of(model)
    doubled = streamlink.map_model(stored, lambda tensor, start, values: values * 2)
    (view,) = doubled.read(4, 8)
    assert np.frombuffer(view, np.float32).tolist() == [2.0, 4.0]
    stored.close()


def test_a_round_needs_nothing_but_public_names() -> None:
    store = streamlink.MemoryStore({"w": np.zeros(5, np.float32)})
    rules = streamlink.RoundConfig(min_clients=1, num_rounds=2)
    work = streamlink.StreamingExecutor(lambda tensor, start, values: values + 1)
    with streamlink.Server("127.0.0.1:0") as server:
        with streamlink.Client(f"127.0.0.1:{server.port}", "site-1", work):
            streamlink.ScatterAndGather(server, store, rules).run()
    assert store.arrays["w"].tolist() == [2.0] * 5


def test_sizes_are_read_as_people_write_them() -> None:
    config = streamlink.StreamConfig.model_validate({"chunk_bytes": "1MiB"})
    assert config.chunk_bytes == streamlink.parse_size("1MiB") == 1 << 20
