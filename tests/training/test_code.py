"""Code is loaded from the operator's directory alone, and only what a file defines itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlink.training.code import CodeFolder
from streamlink.training.names import called, resolve
from streamlink.training.settings import TrainingError

LOSS = """
from os import system
import subprocess
ran = []
def make(scale=1): return ("made", scale)
class Loss: pass
_hidden = make
alias = system
"""


@pytest.fixture
def code(tmp_path: Path) -> Iterator[CodeFolder]:
    folder = tmp_path / "code"
    (folder / "resources").mkdir(parents=True)
    (folder / "resources" / "loss.py").write_text(LOSS)
    (folder / "broken.py").write_text("raise RuntimeError('no such thing')")
    (tmp_path / "outside.py").write_text("def make(): return 'outside'")
    (folder / "link.py").symlink_to(tmp_path / "outside.py")
    before = set(sys.modules)
    yield CodeFolder(folder)
    for name in set(sys.modules) - before:
        if name.startswith("streamlink_code_"):
            del sys.modules[name]


@pytest.mark.parametrize("path", ["resources/loss.py", "./resources/loss.py"])
def test_a_file_below_the_directory_is_loaded(code: CodeFolder, path: str) -> None:
    assert code.load(path, "make", "row")(2) == ("made", 2)
    assert code.load(path, "Loss", "row").__name__ == "Loss"


def test_a_file_is_run_once(code: CodeFolder) -> None:
    first = code.load("resources/loss.py", "make", "row")
    assert code.load("./resources/loss.py", "make", "row") is first


def test_an_absolute_path_below_the_directory_is_that_file(
    code: CodeFolder, tmp_path: Path
) -> None:
    assert code.has(str(tmp_path / "code" / "resources" / "loss.py"))


@pytest.mark.parametrize(
    "path",
    [
        *("../outside.py", "link.py", "resources/../../outside.py", "absent.py", "resources"),
        *("/etc/passwd", "", "a\0b.py", "x" * 5000 + ".py", "~/outside.py", "loss.pyc"),
    ],
)
def test_nothing_outside_of_the_directory_is_loaded(code: CodeFolder, path: str) -> None:
    assert not code.has(path)
    with pytest.raises(TrainingError, match=r"row: .* is no Python file below"):
        code.load(path, "make", "row")


@pytest.mark.parametrize("name", ["system", "alias", "subprocess", "_hidden", "ran", "a.b"])
def test_a_name_that_the_file_does_not_define_itself_is_refused(
    code: CodeFolder, name: str
) -> None:
    with pytest.raises(TrainingError, match="defines no function or class"):
        code.load("resources/loss.py", name, "row")


def test_without_a_directory_no_file_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "loss.py").write_text(LOSS)
    with pytest.raises(TrainingError, match=r"the operator of this machine names .*: --code"):
        CodeFolder().load(str(tmp_path / "loss.py"), "make", "row")


def test_a_file_that_raises_is_named_with_what_it_raised(code: CodeFolder) -> None:
    with pytest.raises(TrainingError, match=r"broken.py raised RuntimeError: no such thing"):
        code.load("broken.py", "make", "row")


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="there is no such directory"):
        CodeFolder(tmp_path / "absent")


def ours() -> str:
    return "ours"


OFFERED = {"resnet18": ours}


def test_a_name_without_a_file_is_ours() -> None:
    assert resolve("resnet18", "", OFFERED, CodeFolder(), "row") is ours


def test_an_unknown_name_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(TrainingError, match=r"row: there is no 'resnet19'; use one of resnet18"):
        resolve("resnet19", "", OFFERED, CodeFolder(), "row")


def test_a_file_of_appfls_examples_is_ours_where_the_operator_has_none(code: CodeFolder) -> None:
    path = "./resources/model/resnet.py"
    assert resolve("ResNet18", path, OFFERED, CodeFolder(), "row") is ours
    assert resolve("ResNet18", path, OFFERED, code, "row") is ours


def test_the_operators_own_file_comes_first(tmp_path: Path) -> None:
    (tmp_path / "resnet.py").write_text("def ResNet18(): return 'mine'")
    found = resolve("ResNet18", "resnet.py", OFFERED, CodeFolder(tmp_path), "row")
    assert found() == "mine"


def test_what_a_function_raises_is_one_sentence_with_its_arguments() -> None:
    with pytest.raises(TrainingError, match=r"row: int\(x='a'\) raised TypeError"):
        called(int, {"x": "a"}, "row")
