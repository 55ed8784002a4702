"""Builds one environment for each framework, from pinned versions, once: it is kept by their hash.

``python -m benchmarks.integrations.environments appfl`` prints the environment's python. streamlink
itself is not installed there: what runs in it finds this checkout by PYTHONPATH. pip is asked,
since it reads the machine's own settings; where no index answers, the caller skips with the reason.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

__all__ = ["PINS", "Environment", "NoEnvironment", "build", "digest_of", "main"]

ROOT = Path(__file__).resolve().parents[2]
TORCH = "torch==2.13.0"  # without torchvision: that one would bring another build of torch
OURS = ("grpcio==1.80.0", "protobuf==6.33.1")  # versions that every framework accepts
BUILD_SECONDS = 1500.0
NO_INDEX = ("no matching distribution", "could not find a version", "connection", "temporary")


class NoEnvironment(RuntimeError):
    """The environment cannot be built here; the text says why."""


@dataclass(frozen=True)
class Environment:
    """What is installed for a framework.

    Attributes:
        wants: requirements, with everything that they need.
        alone: requirements installed without what they need (it is in ``wants``, or a stub).
        stubs: modules that the framework imports and the cases do not use: empty ones, whose
            attributes are empty classes.
    """

    wants: tuple[str, ...]
    alone: tuple[str, ...] = ()
    stubs: tuple[str, ...] = ()


PINS = {
    "nvflare": Environment(("nvflare==2.9.0", TORCH)),
    "flower": Environment(("flwr[simulation]==1.41.0", TORCH)),
    # Its whole set has ray[default], Globus and torchvision (by piq), none of which gRPC needs.
    "appfl": Environment(
        wants=(
            *("omegaconf==2.4.0", "PyYAML==6.0.3", "packaging==26.3", "requests==2.34.2", TORCH),
            *("colorama==0.4.6", "zstd==1.5.7.2", "blosc==1.11.4", "lz4==4.4.5"),
            *("python-xz==0.7.0", "PyJWT==2.15.1", "psutil==7.2.2", "globus-sdk==4.4.1"),
            *("matplotlib==3.11.2", "pandas==3.1.1", "scikit-learn==1.9.1"),
            *("tomli-w==1.2.0", "click==8.1.8"),
        ),
        alone=("appfl==1.12.0", "proxystore==0.8.3"),
        stubs=("wandb", "opacus", "opacus.utils.batch_memory_manager", "piq", "seaborn", "boto3",
               "botocore.exceptions"),
    ),
}  # fmt: skip


def build(framework: str, tell: Callable[[str], object] = lambda _: None) -> Path:
    """Return the python of a framework's environment; build it if it is not there.

    Raises:
        NoEnvironment: no index answers, or pip fails.
    """
    wanted = PINS[framework]
    folder = _folder() / f"{framework}-{digest_of(wanted)}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two checkouts may want it at once
        if not (folder / "whole").exists():
            tell(f"building the environment of {framework} in {folder} (minutes)")
            shutil.rmtree(folder, ignore_errors=True)
            _install(folder, python, wanted)
            (folder / "whole").touch()
    return python


def _folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("STREAMLINK_ENVIRONMENTS") or Path(cache, "streamlink-integrations"))


def digest_of(wanted: Environment) -> str:
    """Return a short hash of all that is installed in an environment."""
    facts = [wanted.wants, wanted.alone, wanted.stubs, _our_dependencies(), sys.version_info[:2]]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]


def _our_dependencies() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [*project["dependencies"], *OURS]


def _install(folder: Path, python: Path, wanted: Environment) -> None:
    venv.create(folder, symlinks=True, with_pip=True)
    _pip(python, *wanted.wants, *_our_dependencies())
    if wanted.alone:
        _pip(python, "--no-deps", *wanted.alone)
    [packages] = folder.glob("lib/python*/site-packages")
    for name in wanted.stubs:
        _stub(packages, name)


def _pip(python: Path, *words: str) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--no-input", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["pip said nothing"]
        telling = [each for each in lines if any(word in each.lower() for word in NO_INDEX)]
        raise NoEnvironment(f"pip cannot install {' '.join(words)}: {(telling or lines)[-1]}")


def _stub(packages: Path, name: str) -> None:
    """Write an empty module, whose attributes are empty classes (so that ``from`` works)."""
    folder = packages.joinpath(*name.split("."))
    if (folder / "__init__.py").exists():
        return
    text = '"""Empty: the cases do not use it."""\n\n\ndef __getattr__(name):\n'
    text += '    if name.startswith("__"):\n        raise AttributeError(name)\n'
    text += "    return type(name, (Exception,), {})\n\n\nrun = None\n"
    for each in [folder, *folder.parents]:
        if each == packages:
            break
        each.mkdir(parents=True, exist_ok=True)
        (each / "__init__.py").write_text(text)


def main(frameworks: list[str]) -> int:
    """Build what is named (or all), print each one's python; status 1 where one cannot be built."""
    failed = 0
    for framework in frameworks or list(PINS):
        try:
            print(build(framework, partial(print, file=sys.stderr)))
        except NoEnvironment as error:
            print(error, file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
