"""Runs the same job once: with APPFL in one of three ways, or with streamlink in one of two."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import memray

__all__ = ["APPFL", "OURS", "Job", "Run", "run_appfl", "run_ours"]

REPOSITORY = Path(__file__).resolve().parents[2]
CLIENTS, ROUNDS = 2, 3
MESSAGE_BYTES = 10 << 20
SECONDS = 1800.0
APPFL = {
    "off": "APPFL, optimisation off",
    "chunked": "APPFL, chunked as shipped",
    "tuned": "APPFL, chunked, gc.freeze",
}
OURS = {"original": "streamlink, original", "optimized": "streamlink, optimized"}


class RunFailed(RuntimeError):
    """A process of the job failed; the text is the end of its log."""


@dataclass(frozen=True)
class Job:
    """What is moved, and whether memray watches."""

    model_bytes: int
    tensors: int
    chunk_bytes: int
    profiled: bool


@dataclass(frozen=True)
class Run:
    """What was measured. Sizes in bytes, over the base, or as memray sees them; seconds a round."""

    server: int
    client: int
    seconds: float


def run_appfl(way: str, job: Job, python: Path) -> Run:
    """Run APPFL's server and clients.

    Raises:
        RunFailed: one of them failed.
    """
    with tempfile.TemporaryDirectory(prefix="heap-") as name, ExitStack() as processes:
        folder = Path(name)
        facts: dict[str, Any] = {
            "job": "moved",
            "way": way,
            "clients": CLIENTS,
            "rounds": ROUNDS,
            "folder": name,
            "model_bytes": job.model_bytes,
            "tensors": job.tensors,
            "chunk_bytes": job.chunk_bytes,
            "max_message_bytes": MESSAGE_BYTES,
            "address": f"127.0.0.1:{_free_port()}",
        }
        roles = {"server": facts} | {
            f"client_{number}": {**facts, "client": number} for number in range(CLIENTS)
        }
        started = {}
        for role, own in roles.items():
            if job.profiled:
                own["profile"] = str(folder / f"{role}.bin")
            started[role] = _start(python, own, folder / f"{role}.log")
            processes.callback(started[role].wait)
            processes.callback(started[role].kill)
        told = {role: _told(role, each, folder) for role, each in started.items()}
        peaks = {
            role: _seen(Path(roles[role]["profile"]))
            if job.profiled
            else each["peak"] - each["base"]
            for role, each in told.items()
        }
        rounds = [each["rounds"][1:] for role, each in told.items() if role != "server"]
        slowest = [max(both) for both in zip(*rounds, strict=True)]
    return Run(peaks.pop("server"), max(peaks.values()), median(slowest))


def run_ours(version: str, job: Job) -> Run:
    """Run ``streamlink profile synthetic`` in one version.

    Raises:
        RunFailed: it failed.
    """
    with tempfile.TemporaryDirectory(prefix="heap-") as name:
        words = [
            *("profile", "synthetic", "--version", version, "--no-analysis", "--output-dir", name),
            *("--clients", str(CLIENTS), "--rounds", str(ROUNDS)),
            *("--model-size", str(job.model_bytes), "--tensors", str(job.tensors)),
            *(() if job.profiled else ("--plain",)),
        ]
        done = subprocess.run(
            [sys.executable, "-m", "streamlink", *words],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode:
            raise RunFailed(f"streamlink {version}: {done.stderr[-1000:]}")
        (run,) = Path(name, "synthetic").iterdir()
        ends = [json.loads(each.read_bytes()) for each in (run / "processes").glob("*.json")]
        ends = [each for each in ends if each["profiled"] is job.profiled]
        peaks: dict[str, list[int]] = {"server": [], "client": []}
        for each in ends:
            path = run / "profiles" / str(each["profile"])
            over = each["peak_bytes"] - each["base_bytes"]
            peaks[each["role"]].append(_seen(path) if job.profiled else over)
        seconds = [each["seconds"] for end in ends for each in end["rounds"][1:]]
    return Run(max(peaks["server"]), max(peaks["client"]), median(seconds))


def _start(python: Path, facts: dict[str, Any], log: Path) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "HEAP_FACTS": json.dumps(facts)}
    with log.open("wb") as errors:
        return subprocess.Popen(
            [python, "-m", "benchmarks.heap.appfl_role"],
            cwd=REPOSITORY,
            env=env,
            stdout=subprocess.PIPE,
            stderr=errors,
        )


def _told(role: str, process: subprocess.Popen[bytes], folder: Path) -> dict[str, Any]:
    output = process.communicate(timeout=SECONDS)[0].decode().strip().splitlines()
    # Its server may abort in gRPC's threads after its last line.
    if not output or (process.returncode and role != "server"):
        log = (folder / f"{role}.log").read_text(errors="replace")
        raise RunFailed(f"{role} ended with {process.returncode}: {log[-1000:]}")
    told: dict[str, Any] = json.loads(output[-1])
    return told


def _seen(profile: Path) -> int:
    peak: int = memray.FileReader(str(profile)).metadata.peak_memory
    return peak


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
