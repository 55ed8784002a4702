"""Our wheel beside a framework that embeds it, and at both ends of the ranges that it asks for.

uv resolves, against the index that is set up here; nothing of a framework is installed.
"""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

import pytest
from hatchling.build import build_wheel

ROOT = Path(__file__).parents[1]

FRAMEWORKS = ["flwr==1.41.0", "flwr==1.42.0", "nvflare==2.9.0", "appfl==1.12.0"]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
TORCH = "torch==2.13.0"  # others bring gigabytes of another build

NO_INDEX = ("failed to fetch", "error sending request", "dns error", "network was disabled")

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target, before = tmp_path_factory.mktemp("wheel"), Path.cwd()
    os.chdir(ROOT)  # the build hook of PEP 517 works in the current directory
    try:
        return target / str(build_wheel(str(target)))
    finally:
        os.chdir(before)


def uv(*words: object) -> subprocess.CompletedProcess[str]:
    """Run uv; skip the test where no index answers."""
    found = pytest.importorskip("uv", reason="uv resolves, and is not installed: make venv")
    command = [found.find_uv_bin(), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    if done.returncode and any(each in done.stderr.lower() for each in NO_INDEX):
        pytest.skip(f"no package index answers: {done.stderr.strip().splitlines()[0]}")
    return done


def compiled(wants: Path, *options: object) -> dict[str, str]:
    """Return name and version of everything that the file ``wants`` needs."""
    done = uv("pip", "compile", "-q", "--no-annotate", "--no-header", *options, wants)
    if done.returncode:
        raise Unresolved(" ".join(done.stderr.split()))
    pairs = (line.split("==") for line in done.stdout.splitlines() if "==" in line)
    return {name: version.split()[0] for name, version in pairs}


class Unresolved(AssertionError):
    """No set of packages does; the text is uv's reason."""


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_one_set_of_packages_suits_the_wheel_and_a_framework(
    wheel: Path, tmp_path: Path, framework: str
) -> None:
    (tmp_path / "alone.in").write_text(f"{framework}\n{TORCH}\n")
    ours = f"streamlink-fl[torch] @ {wheel.as_uri()}"
    (tmp_path / "both.in").write_text(f"{framework}\n{TORCH}\n{ours}\n")
    try:
        found = compiled(tmp_path / "both.in", "--python-version", "3.11")
    except Unresolved:
        try:
            compiled(tmp_path / "alone.in", "--python-version", "3.11")
        except Unresolved as error:
            pytest.skip(f"without streamlink-fl, too, {framework} cannot be had here: {error}")
        raise
    name, _, version = framework.partition("==")
    assert found[name] == version


@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"])
@pytest.mark.parametrize("python", PYTHONS)
def test_each_python_that_is_named_has_wheels_of_all_we_need(python: str, resolution: str) -> None:
    found = at_one_end(resolution, "--python-version", python)
    assert found["protobuf"].split(".")[0] == ("7" if resolution == "highest" else "6")


@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"])
def test_rounds_run_with_the_oldest_and_the_newest_that_are_allowed(
    wheel: Path, tmp_path: Path, resolution: str
) -> None:
    venv.create(tmp_path / "env", symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    found = at_one_end(resolution, "--python", python)
    pinned = [f"{name}=={version}" for name, version in found.items()]
    done = uv("pip", "install", "-q", "--no-deps", "--python", python, *pinned, wheel)
    assert done.returncode == 0, done.stderr
    (tmp_path / "work.py").write_text("def add(tensor, start, values): return values + 1\n")
    for command in (["-c", PREPARE], ["-m", "streamlink", *SIMULATE]):
        ran = subprocess.run(
            [str(python), *command],
            cwd=tmp_path,
            # With bytecode: else each process compiles all that has just been installed.
            env={name: value for name, value in os.environ.items() if name not in UNSET},
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert ran.returncode == 0, ran.stderr


def at_one_end(resolution: str, *options: object) -> dict[str, str]:
    """Return the oldest or the newest of everything that we ask for, as wheels."""
    more = ("--resolution", resolution, "--only-binary", ":all:")
    return compiled(ROOT / "pyproject.toml", *options, *more)


UNSET = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
PREPARE = """
import numpy as np, streamlink
from streamlink.cli import app
streamlink.copy_model({"a": np.zeros((64, 1024), np.float32)}, streamlink.open_store("model"))
for command in ("--help", "server --help", "inspect model"):  # in one process: each takes a second
    if app(command.split(), standalone_mode=False):
        raise SystemExit(command)
"""
SIMULATE = ["simulate", "--store", "model", "--task", "work.py:add", "--clients", "2"]
