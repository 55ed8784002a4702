"""The wheel: complete, typed, light, and it imports on its own."""

import os
import subprocess
import sys
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest
from hatchling.build import build_wheel

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    target = tmp_path_factory.mktemp("wheel")
    before = Path.cwd()
    os.chdir(ROOT)  # the build hook of PEP 517 works in the current directory
    try:
        return zipfile.ZipFile(target / build_wheel(str(target)))
    finally:
        os.chdir(before)


@pytest.fixture(scope="module")
def unpacked(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    wheel.extractall(folder)
    return folder


def test_it_holds_every_file_of_the_package_and_no_other(wheel: zipfile.ZipFile) -> None:
    packages = (ROOT / "streamlink", ROOT / "streamlink_fl")
    ours = {path for each in packages for path in each.rglob("*") if path.is_file()}
    named = {p.relative_to(ROOT).as_posix() for p in ours if "__pycache__" not in p.parts}
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == named


def test_it_is_typed_and_licensed(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert "streamlink/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_a_lean_install_brings_no_framework_and_no_tools(wheel: zipfile.ZipFile) -> None:
    [name] = [name for name in wheel.namelist() if name.endswith("/METADATA")]
    metadata = HeaderParser().parsestr(wheel.read(name).decode())
    lean = [r for r in metadata.get_all("Requires-Dist", []) if "extra ==" not in r]
    assert len(lean) == len(PROJECT["dependencies"])
    assert not [r for r in lean if r.startswith(("torch", "matplotlib", "pyarrow", "pytest"))]


def test_it_brings_the_command(wheel: zipfile.ZipFile) -> None:
    [name] = [name for name in wheel.namelist() if name.endswith("/entry_points.txt")]
    entries = wheel.read(name).decode()
    assert "streamlink = streamlink_fl:main" in entries
    assert "streamlink-fl = streamlink_fl:main" in entries


@pytest.mark.processes(quick=True)
def test_it_imports_from_where_it_was_unpacked(unpacked: Path) -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(unpacked)!r}); "
        "import streamlink, streamlink.errors as e; print(e.__file__)"
    )
    found = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-c", program],
        cwd=unpacked,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert Path(found.stdout.strip()) == unpacked / "streamlink" / "errors" / "__init__.py"
