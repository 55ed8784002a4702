"""What users import: these names, each of them documented, and nothing by accident."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
import pytest

import streamlink
from streamlink import errors

NAMES = [
    "LinkConfig", "StreamConfig", "TimeoutConfig", "GrpcConfig", "SecurityConfig", "RoundConfig",
    "LimitsConfig", "JobConfig", "parse_size",
    "TensorSpec", "ModelSpec", "ModelSource", "ModelSink", "ModelStore", "ModelInPlace",
    "AnySource", "AnyTarget", "ArrayModel", "TorchModel", "as_model", "GeneratedModel", "map_model",
    "RangeFunction", "digest_of", "copy_model",
    "MemoryStore", "SafetensorsStore", "CompressedStore", "open_model", "open_store",
    "send", "receive", "Receipt", "TransferFacts",
    "Server", "ScatterAndGather", "RoundReport", "Standing", "Attempt", "Client", "Executor",
    "StreamingExecutor", "WholeExecutor", "OnDiskExecutor", "Task", "TaskResult", "TaskOutcome",
    "Assignment",
    "PerModel", "ModelFacts", "on_floats", "RoundEvent", "Happening",
    "JobState", "serve_metrics", "MetricsCollector",
    "Fleet", "show_progress", "Reporter", "tune_allocator", "CancelToken",
    "StreamlinkError",
]  # fmt: skip

CLASSES = [name for name in NAMES if inspect.isclass(getattr(streamlink, name))]
ALIASES = [name for name in NAMES if typing.get_origin(getattr(streamlink, name))]
PACKAGE = Path(streamlink.__file__).parent


def test_the_public_names_are_these_in_reading_order() -> None:
    assert streamlink.__all__ == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_documented(name: str) -> None:
    doc = doc_of_alias(name) if name in ALIASES else inspect.getdoc(getattr(streamlink, name))
    assert re.match(r"[^\n]{10,}[.:?]($|\n| )", doc or ""), f"{name}: {doc!r:.80}"


def doc_of_alias(name: str) -> str:
    """Return the text under ``name = ...``: an alias cannot carry one, so its source is read."""
    line = re.compile(rf'^{name} = [^"]*\n"""([^"]*)"""', re.MULTILINE)
    found = [line.search(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")]
    (match,) = filter(None, found)
    return match[1]


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
    streamlink.copy_model(arrays, tmp_path / "model")
    stored = streamlink.open_model(tmp_path / "model")
    assert stored.spec.tensors == (streamlink.TensorSpec("w", "F32", (2, 3)),)
    assert streamlink.digest_of(stored) == streamlink.digest_of(arrays)
    doubled = streamlink.map_model(stored, lambda tensor, start, values: values * 2)
    (view,) = doubled.read(4, 8)
    assert np.frombuffer(view, np.float32).tolist() == [2.0, 4.0]
    stored.close()


def test_a_round_needs_nothing_but_public_names(tmp_path: Path) -> None:
    arrays = {"w": np.zeros(5, np.float32)}
    streamlink.copy_model(arrays, tmp_path)
    rules = streamlink.RoundConfig(min_clients=1, num_rounds=2)
    work = streamlink.StreamingExecutor(lambda tensor, start, values: values + 1)
    with streamlink.Server("127.0.0.1:0") as server:
        with streamlink.Client(server.address, "site-1", work):
            streamlink.ScatterAndGather(server, tmp_path, rules).run()
    streamlink.copy_model(tmp_path, arrays)
    assert arrays["w"].tolist() == [2.0] * 5


def test_a_job_over_what_is_no_store_is_refused_in_words() -> None:
    arrays: Any = {"w": np.zeros(5, np.float32)}
    with streamlink.Server() as server, pytest.raises(errors.ModelError, match="MemoryStore"):
        streamlink.ScatterAndGather(server, arrays)


@pytest.mark.parametrize(
    ("listen", "host"),
    [("127.0.0.1", "127.0.0.1"), ("localhost", "localhost"), ("0.0.0.0", "127.0.0.1")],
)
def test_a_server_says_where_clients_on_its_machine_find_it(listen: str, host: str) -> None:
    plain = streamlink.LinkConfig(security=streamlink.SecurityConfig(insecure=True))
    with streamlink.Server(f"{listen}:0", plain) as server:
        assert server.address == f"{host}:{server.port}"


def test_sizes_are_read_as_people_write_them() -> None:
    config = streamlink.StreamConfig.model_validate({"chunk_bytes": "1MiB"})
    assert config.chunk_bytes == streamlink.parse_size("1MiB") == 1 << 20
