"""Builds one environment for each framework, from pinned versions, once: it is kept by their hash.

``python -m benchmarks.integrations.environments appfl`` prints the environment's python. streamlink
itself is not installed there: what runs in it finds this checkout by PYTHONPATH. uv installs, in a
tenth of the time that pip takes, with what pip is set to on this machine. Where no index has a
framework, the caller skips it with the reason; where one has it and the environment cannot be built
all the same, something is wrong.
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

__all__ = [
    "PINS",
    "BrokenEnvironment",
    "Environment",
    "NoEnvironment",
    "build",
    "digest_of",
    "install",
    "main",
]

ROOT = Path(__file__).resolve().parents[2]
TORCH = "torch==2.13.0"  # without torchvision: that one would bring another build of torch
OURS = ("grpcio==1.80.0", "protobuf==6.33.1")  # versions that every framework accepts
NOWHERE = (
    "was not found in the",
    "Failed to fetch",
    "error sending request",
    "network was disabled",
)
"""What uv says where no index answers, or none knows the name."""

BUILD_SECONDS = 900.0  # of one call of uv
FREE_BYTES = 3_000_000_000  # an environment takes up to 2 GB


class NoEnvironment(RuntimeError):
    """No index here has the framework; the text says what uv said."""


class BrokenEnvironment(RuntimeError):
    """The environment cannot be built, although an index has the framework; the text says why."""


@dataclass(frozen=True)
class Environment:
    """What is installed for a framework.

    Attributes:
        wants: requirements, with everything that they need.
        alone: requirements installed without what they need (it is in ``wants``, or a stub).
        stubs: modules that the framework imports and the cases do not use: empty ones, whose
            attributes are empty classes.
        has_ours: whether what streamlink needs is installed, too, so that it runs in there.
    """

    wants: tuple[str, ...]
    alone: tuple[str, ...] = ()
    stubs: tuple[str, ...] = ()
    has_ours: bool = True

    @property
    def framework(self) -> str:
        """The framework itself, as an index is asked for it."""
        return (*self.alone, *self.wants)[0]


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


def build(
    framework: str,
    tell: Callable[[str], object] = lambda _: None,
    wanted: Environment | None = None,
) -> Path:
    """Return the python of a framework's environment; build it if it is not there.

    Args:
        framework: its name.
        tell: called with a sentence where it has to be built, which takes minutes.
        wanted: what is in the environment; None: as pinned here.

    Raises:
        NoEnvironment: no index has the framework.
        BrokenEnvironment: one has it, and uv fails.
    """
    wanted = wanted or PINS[framework]
    folder = _folder() / f"{framework}-{digest_of(wanted)}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two checkouts may want it at once
        if not (folder / "whole").exists():
            tell(f"building the environment of {framework} in {folder} (minutes)")
            shutil.rmtree(folder, ignore_errors=True)
            install(folder, wanted)
            (folder / "whole").touch()
    return python


def _folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("STREAMLINK_ENVIRONMENTS") or Path(cache, "streamlink-integrations"))


def digest_of(wanted: Environment) -> str:
    """Return a short hash of all that is installed in an environment."""
    ours = _our_dependencies() if wanted.has_ours else []
    facts = [wanted.wants, wanted.alone, wanted.stubs, ours, sys.version_info[:2]]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]


def _our_dependencies() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [*project["dependencies"], *OURS]


def install(folder: Path, wanted: Environment) -> Path:
    """Make the environment in ``folder`` and return its python; raises as ``build`` does."""
    free = shutil.disk_usage(folder.parent).free
    if free < FREE_BYTES:
        raise BrokenEnvironment(f"{folder.parent} has {free / 1e9:.1f} GB left; free 3 GB")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    _require_index(python, wanted.framework)
    _install(python, *wanted.wants, *(_our_dependencies() if wanted.has_ours else ()))
    if wanted.alone:
        _install(python, "--no-deps", *wanted.alone)
    [packages] = folder.glob("lib/python*/site-packages")
    for name in wanted.stubs:
        _stub(packages, name)
    return python


def _require_index(python: Path, framework: str) -> None:
    """Ask for the framework alone; a release that has vanished from an index is another matter."""
    try:
        _install(python, "--dry-run", "--no-deps", framework)
    except BrokenEnvironment as error:
        if any(each in str(error) for each in NOWHERE):
            raise NoEnvironment(f"no index here has {framework}: {error}") from None
        raise


def _install(python: Path, *words: str) -> None:
    import uv  # not where this module is read for its pins alone

    settings, environment = _pips_settings()
    command = [uv.find_uv_bin(), "pip", "install", "--quiet", "--python", str(python)]
    try:
        done = subprocess.run([*command, *settings, *words], env=environment, capture_output=True,
                              text=True, timeout=BUILD_SECONDS)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BrokenEnvironment(f"uv took over {BUILD_SECONDS:g} s for {' '.join(words)}") from None
    if done.returncode:
        said = "\n".join(done.stderr.strip().splitlines()[-12:]) or "it said nothing"
        raise BrokenEnvironment(f"uv cannot install {' '.join(words)}:\n{said}")


def _pips_settings() -> tuple[list[str], dict[str, str]]:
    """Return as words and variables for uv what pip is set to here; uv does not look there."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    # As pip does it: the best version of all indexes, not the first index that has one.
    words, environment = ["--index-strategy", "unsafe-best-match"], dict(os.environ)
    for line in said.splitlines():
        name, _, value = line.partition("=")
        setting, values = name.rpartition(".")[2], value.strip("'\"").split()
        if setting in ("index-url", "extra-index-url", "find-links"):
            words += [word for each in values for word in (f"--{setting}", each)]
        elif setting == "cert":
            environment.setdefault("SSL_CERT_FILE", values[0])
    return words, environment


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
    """Build what is named (or all) and print each one's python; status 1 where one is broken.

    What cannot be had here is told, and no error: whoever wants it skips it, too.
    """
    status = 0
    for framework in frameworks or list(PINS):
        try:
            print(build(framework, partial(print, file=sys.stderr)))
        except NoEnvironment as error:
            print(f"{framework} is skipped: {error}", file=sys.stderr)
        except BrokenEnvironment as error:
            print(f"the environment of {framework} is broken: {error}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
