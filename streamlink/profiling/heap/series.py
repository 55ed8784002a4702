"""A series: each version of the same job, interleaved and repeated, under memray and without it.

A profiled run says where memory goes; the run without memray says how long rounds take, and what is
resident. All files of a series are in one folder, which no other series writes to.
"""

from __future__ import annotations

import itertools
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from streamlink.profiling.folder import write_json
from streamlink.profiling.heap.experiment import Experiment, ExperimentError, Order
from streamlink.profiling.heap.launch import Progress, run_job
from streamlink.profiling.heap.variants import ALONE
from streamlink.profiling.origin import commit

__all__ = ["run_series", "write_first_model"]

_FIRST_MODEL = "streamlink.profiling.heap.first_model"


def run_series(
    folder: Path,
    experiment: Experiment,
    versions: Sequence[str],
    *,
    repeats: int,
    timeout_seconds: float,
    end_seconds: float,
    progress: Progress,
    profiled: Sequence[bool] = (True, False),
) -> list[str]:
    """Run all of it, and return a sentence for each job that failed; the others go on.

    Raises:
        ExperimentError: the first model cannot be made.
        StoreError: there is no room for it.
        KeyboardInterrupt: what has been written stays.
    """
    start = folder / "first-model"
    try:
        model_bytes = write_first_model(experiment, start)
        write_json(folder / "experiment.json", _facts(experiment, versions, repeats, model_bytes))
        # In turn: whatever changes on the machine changes for all versions.
        jobs = itertools.product(range(1, repeats + 1), versions, profiled)
        runs = (
            _job(
                folder,
                experiment,
                version,
                repeat,
                each,
                start,
                timeout_seconds,
                end_seconds,
                progress,
            )
            for repeat, version, each in jobs
        )
        return [failure for failure in runs if failure]
    finally:
        shutil.rmtree(start, ignore_errors=True)
        for left in folder.glob("model-*"):  # of a server that was killed
            shutil.rmtree(left, ignore_errors=True)


def _job(
    folder: Path,
    experiment: Experiment,
    version: str,
    repeat: int,
    profiled: bool,
    start: Path,
    timeout_seconds: float,
    end_seconds: float,
    progress: Progress,
) -> str:
    def order(**facts: Any) -> Order:
        return Order(
            experiment=experiment,
            version=version,
            repeat=repeat,
            profiled=profiled,
            run=folder.resolve(),
            **facts,
        )

    is_mpi = experiment.carrier == "mpi"
    address = "mpi://0" if is_mpi else "127.0.0.1:0"
    server: Order | None = order(
        role="server", address=address, start=start.resolve(), rank=0 if is_mpi else None
    )
    clients = [
        order(role="client", address=address, clients=numbers, rank=rank if is_mpi else None)
        for rank, numbers in enumerate(_shares(experiment), start=1)
    ]
    if version == ALONE:
        server, clients = None, [clients[0].model_copy(update={"clients": (0,), "rank": None})]
    name = f"{version}, repeat {repeat}{', profiled' if profiled else ''}"
    progress({"who": "series", "event": "begin", "name": name})
    try:
        run_job(
            server,
            clients,
            timeout_seconds=timeout_seconds,
            end_seconds=end_seconds,
            progress=progress,
        )
    except ExperimentError as error:
        progress({"who": "series", "event": "failed", "text": str(error)})
        return str(error)
    return ""


def write_first_model(experiment: Experiment, folder: Path) -> int:
    """Write the model that the job begins with, in a process of its own; return its size (bytes).

    So this process stays small, and its threads and those of torch never meet.
    """
    done = subprocess.run(
        [sys.executable, "-m", _FIRST_MODEL, experiment.model_dump_json(), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise ExperimentError(f"the first model cannot be made: {last[0]}")
    return int(done.stdout.split()[-1])


def _shares(experiment: Experiment) -> list[tuple[int, ...]]:
    """Return the numbers of the clients of each process."""
    each = experiment.clients_per_rank if experiment.carrier == "mpi" else 1
    numbers = range(experiment.server.num_clients)
    return [tuple(numbers[at : at + each]) for at in range(0, len(numbers), each)]


def _facts(
    experiment: Experiment, versions: Sequence[str], repeats: int, model_bytes: int
) -> dict[str, Any]:
    return {
        "experiment": experiment.model_dump(mode="json"),
        "versions": list(versions),
        "repeats": repeats,
        "model_bytes": model_bytes,
        "commit": commit(),
        "command": sys.argv[1:],
        "machine": {
            "cores": psutil.cpu_count(),
            "memory_bytes": psutil.virtual_memory().total,
            "system": platform.platform(),
            "python": platform.python_version(),
        },
    }
