"""What users import: these names, each of them documented, and nothing by accident."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
import pytest

import streamlink
from streamlink import errors
from streamlink.config import parse_size
from streamlink.model import map_model
from tests.support.public_types import NAMESPACES, homeless, public_names, raised_by

NAMES = [
    "ModelSpec", "TensorSpec", "ModelSource", "ModelSink", "ModelStore", "open_model", "open_store",
    "copy_model", "digest_of",
    "send", "receive", "serve", "fetch", "Receipt", "TransferFacts",
    "Server", "ScatterAndGather", "RoundReport", "RoundEvent",
    "Client", "StreamingExecutor", "WholeExecutor", "OnDiskExecutor", "Executor", "Task",
    "TaskResult",
    "LinkConfig", "StreamConfig", "TimeoutConfig", "SecurityConfig", "RoundConfig",
    "show_progress", "CancelToken", "tune_allocator", "StreamlinkError",
]  # fmt: skip

PUBLIC = public_names()
CLASSES = sorted({each for each in PUBLIC.values() if inspect.isclass(each)}, key=str)
CONFIGS = [each for each in CLASSES if issubclass(each, pydantic.BaseModel)]
PACKAGE = Path(streamlink.__file__).parent


def test_the_public_names_are_these_in_reading_order() -> None:
    assert streamlink.__all__ == NAMES
    assert len(NAMES) <= 35


def test_the_namespaces_are_the_same_for_readers_type_checkers_and_programs() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
    (branch,) = [node for node in tree.body if isinstance(node, ast.If)]
    checked = [
        alias.name
        for node in branch.body
        if isinstance(node, ast.ImportFrom) and node.module == "streamlink"
        for alias in node.names
    ]
    (asked,) = [node.value for node in branch.orelse if isinstance(node, ast.Assign)]
    assert sorted(NAMESPACES) == checked == list(ast.literal_eval(asked))
    assert len(NAMESPACES) >= 12
    assert set(NAMESPACES) <= set(dir(streamlink))


@pytest.mark.parametrize("name", NAMESPACES)
def test_a_namespace_says_what_is_in_it_and_each_name_is_there(name: str) -> None:
    module = importlib.import_module(f"streamlink.{name}")
    assert module.__doc__
    assert [each for each in module.__all__ if not hasattr(module, each)] == []
    assert len(set(module.__all__)) == len(module.__all__)


def test_every_type_that_a_public_name_mentions_can_be_imported_from_a_public_place() -> None:
    assert homeless() == []


@pytest.mark.parametrize("name", PUBLIC)
def test_every_error_that_a_public_docstring_names_can_be_imported(name: str) -> None:
    known = {each.rsplit(".", 1)[1] for each in PUBLIC} | vars(builtins).keys()
    known |= {"ValidationError"}  # of pydantic
    assert [error for error in raised_by(PUBLIC[name]) if error not in known] == []


@pytest.mark.processes
def test_nothing_public_needs_a_test_framework() -> None:
    program = "import sys, streamlink.testing; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_is_documented(name: str) -> None:
    each, short = PUBLIC[name], name.rsplit(".", 1)[1]
    has_own = inspect.isclass(each) or inspect.isfunction(each)
    doc = inspect.getdoc(each) if has_own else doc_of_alias(short)
    assert re.match(r"[^\n]{10,}[.:?;]?", doc or ""), f"{name}: {doc!r:.80}"


def doc_of_alias(name: str) -> str:
    """Return the text under ``name = ...``: an alias cannot carry one, so its source is read."""
    line = re.compile(rf'^{name} = [^"]*(?:"\w+"[^"]*)*\n"""([^"]*)"""', re.MULTILINE)
    found = [line.search(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")]
    return next((match[1] for match in found if match), "")


def public_members(cls: type[Any]) -> list[tuple[str, Any]]:
    return [
        (name, member)
        for name, member in vars(cls).items()
        if not name.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, property | classmethod))
    ]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_public_method_is_documented(cls: type[Any]) -> None:
    for member, value in public_members(cls):
        assert inspect.getdoc(value), f"{cls.__name__}.{member}"


@pytest.mark.parametrize("cls", CONFIGS, ids=lambda cls: cls.__name__)
def test_every_setting_is_documented_with_its_unit(cls: type[pydantic.BaseModel]) -> None:
    for field, info in cls.model_fields.items():
        assert info.description, f"{cls.__name__}.{field}"
        if info.annotation in (int, float):
            units = r"\((bytes|seconds|count|ratio|the (metric|fact|model)'s unit)\)|Number of"
            assert re.search(units, info.description), field


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
    doubled = map_model(stored, lambda tensor, start, values: values * 2)
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
    assert config.chunk_bytes == parse_size("1MiB") == 1 << 20
