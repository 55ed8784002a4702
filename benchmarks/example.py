"""Runs ``examples/hello_numpy_large/run.py`` as a user would, and reads the report it writes.

The example is the job people know: a dictionary of keys, each one large array, given to clients
that add a small number and send it back. Benchmarks that need whole rounds run it in a process of
its own and trust only its report.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.processes import REPOSITORY

__all__ = ["ExampleFailed", "Job", "extra_bytes", "processes_of", "run_example"]

PROGRAM = REPOSITORY / "examples" / "hello_numpy_large" / "run.py"
TAIL_CHARS = 2000


class ExampleFailed(RuntimeError):
    """The example did not end well, or its model was not verified."""


@dataclass(frozen=True)
class Job:
    """What the example is asked to do; the names are its options."""

    keys: int = 64
    key_size: str = "16MB"
    clients: int = 2
    rounds: int = 3
    weights: Literal["pattern", "random"] = "pattern"
    compress: Literal["none", "zstd"] = "none"

    def options(self, store: Path, report: Path) -> list[str]:
        """Return the command line after the program's name."""
        named: dict[str, object] = {
            "--keys": self.keys,
            "--key-size": self.key_size,
            "--clients": self.clients,
            "--rounds": self.rounds,
            "--weights": self.weights,
            "--compress": self.compress,
            "--store": store,
            "--report": report,
        }
        return [word for name, value in named.items() for word in (name, str(value))]


def run_example(
    job: Job, *, timeout_seconds: float = 3600.0, program: Path = PROGRAM
) -> dict[str, Any]:
    """Run the job in a temporary store and return its report.

    Raises:
        ExampleFailed: it ended with an error, took too long, or did not verify its model.
    """
    with tempfile.TemporaryDirectory(prefix="streamlink-benchmark-") as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, str(program), *job.options(Path(folder) / "store", report)]
        try:
            done = subprocess.run(
                command,
                cwd=REPOSITORY,
                env=_this_tree_first(),
                capture_output=True,
                text=True,
                timeout=timeout_seconds,
            )
        except subprocess.TimeoutExpired as error:
            raise ExampleFailed(f"{job} was not done within {timeout_seconds:.0f} s") from error
        if done.returncode != 0:
            raise ExampleFailed(f"{job} ended with {done.returncode}: {done.stderr[-TAIL_CHARS:]}")
        return _verified(job, report)


def processes_of(report: dict[str, Any], role: str) -> list[dict[str, Any]]:
    """Return the report's processes of one role (``"server"`` or ``"client"``)."""
    return [process for process in report["processes"] if process["role"] == role]


def extra_bytes(process: dict[str, Any]) -> int:
    """Return a reported process's peak resident memory over its base (bytes)."""
    return int(process["peak_rss_bytes"]) - int(process["base_rss_bytes"])


def _this_tree_first() -> dict[str, str]:
    # The figure will name this tree's commit, so an installed streamlink must not run instead.
    paths = [str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _verified(job: Job, path: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if not report["verified"]:
        raise ExampleFailed(f"{job}: the final model is not what it should be")
    return report
