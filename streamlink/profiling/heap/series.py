"""A series: each version of the same job, interleaved and repeated, under memray and without it.

A profiled run says where memory goes; the run without memray says how long rounds take, and what is
resident. All files of a series are in one folder, which no other series writes to.
"""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from streamlink.profiling.folder import write_json
from streamlink.profiling.heap.experiment import Experiment, ExperimentError, Order
from streamlink.profiling.heap.launch import Progress, run_job
from streamlink.profiling.heap.sites import write_first_model
from streamlink.profiling.heap.variants import CHUNK_SIZES, SINGLES, variant
from streamlink.profiling.origin import commit

__all__ = ["run_series", "versions_of"]


def versions_of(text: str) -> tuple[str, ...]:
    """Return the names of versions that a text asks for, separated by commas.

    ``both`` is the two that are compared; ``places`` and ``chunks`` are series of their own.

    Raises:
        ExperimentError: there is no such version.
    """
    groups = {
        "both": ("original", "optimized"),
        "places": ("original", "optimized", *SINGLES),
        "chunks": tuple(f"chunk_{each}" for each in CHUNK_SIZES),
    }
    names: list[str] = []
    for word in (each.strip() for each in text.split(",")):
        names += groups.get(word) or (variant(word).name,)
    return tuple(dict.fromkeys(names))


def run_series(
    folder: Path,
    experiment: Experiment,
    versions: Sequence[str],
    *,
    repeats: int,
    timeout_seconds: float,
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
    failures = []
    try:
        model_bytes = write_first_model(experiment, start)
        write_json(folder / "experiment.json", _facts(experiment, versions, repeats, model_bytes))
        for repeat in range(1, repeats + 1):
            # In turn: whatever changes on the machine changes for all versions.
            for version in versions:
                for each in profiled:
                    if text := _job(
                        folder, experiment, version, repeat, each, start, timeout_seconds, progress
                    ):
                        failures.append(text)
    finally:
        shutil.rmtree(start, ignore_errors=True)
        for left in folder.glob("model-*"):  # of a server that was killed
            shutil.rmtree(left, ignore_errors=True)
    return failures


def _job(
    folder: Path,
    experiment: Experiment,
    version: str,
    repeat: int,
    profiled: bool,
    start: Path,
    timeout_seconds: float,
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
    server = order(
        role="server", address=address, start=start.resolve(), rank=0 if is_mpi else None
    )
    clients = [
        order(role="client", address=address, clients=numbers, rank=rank if is_mpi else None)
        for rank, numbers in enumerate(_shares(experiment), start=1)
    ]
    name = f"{version}, repeat {repeat}{', profiled' if profiled else ''}"
    progress({"who": "series", "event": "begin", "name": name})
    try:
        run_job(server, clients, timeout_seconds=timeout_seconds, progress=progress)
    except ExperimentError as error:
        progress({"who": "series", "event": "failed", "text": str(error)})
        return str(error)
    return ""


def _shares(experiment: Experiment) -> list[tuple[int, ...]]:
    """Return the numbers of the clients of each process."""
    each = experiment.clients_per_rank if experiment.carrier == "mpi" else 1
    numbers = range(experiment.clients)
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
