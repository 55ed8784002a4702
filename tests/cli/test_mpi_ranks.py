"""``streamlink mpi`` with several clients in one process: one fails, the others go on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from streamlink import copy_model, open_store
from streamlink.stores import ArrayModel
from tests.support.commands import Command, streamlink
from tests.support.mpi import mpiexec

TASKS = """
import numpy as np
import streamlink

def add(tensor, start, values):
    return values + np.float32(1)

def broken(tensor, start, values):
    raise OSError("no GPU")

def second_is_broken(name):
    return streamlink.StreamingExecutor(broken if name == "site-2" else add)
"""


def job(place: Path, min_clients: int) -> Command:
    (place / "tasks.py").write_text(TASKS)
    model = ArrayModel({"a": np.zeros(1000, np.float32)})
    copy_model(model, open_store(place / "m").begin(model.spec))
    words = streamlink("mpi", "--store", "m", "--num-rounds", 2, "--report", "r.json")
    words += ["--executor", "tasks.py:second_is_broken", "--clients-per-rank", "2"]
    return Command(mpiexec(3, *words, "--min-clients", min_clients), place)


@pytest.mark.processes
def test_the_clients_beside_one_whose_work_fails_go_on_and_the_log_names_it(tmp_path: Path) -> None:
    with job(tmp_path, min_clients=3) as running:
        assert running.end() == 0, running.log
    report = json.loads((tmp_path / "r.json").read_text())
    assert [sorted(each["weights"]) for each in report["reports"]] == 2 * [
        ["site-1", "site-3", "site-4"]
    ]
    work = "train of job 'job' round 0 attempt 1: the work of site-2"
    assert f"site-1 to site-2: {work} raised OSError: no GPU" in running.log


@pytest.mark.processes
def test_a_job_that_needs_the_client_whose_work_fails_ends_in_every_process(tmp_path: Path) -> None:
    with job(tmp_path, min_clients=4) as running:
        assert running.end() == 1, running.log
    assert "site-2" in running.log
    assert "BAD TERMINATION" not in running.log


@pytest.mark.processes
@pytest.mark.slow
def test_a_tensor_beyond_2_gib_travels_and_is_averaged(tmp_path: Path) -> None:
    model = ArrayModel({"a": np.zeros((9 << 30) // 16, np.float32)})  # 2.25 GiB, never touched
    copy_model(model, open_store(tmp_path / "m", compress="zstd").begin(model.spec))
    (tmp_path / "tasks.py").write_text(TASKS)
    words = streamlink("mpi", "--store", "m", "--num-rounds", 1, "--task", "tasks.py:add")
    with Command(mpiexec(2, *words), tmp_path) as running:
        assert running.end() == 0, running.log
    new = open_store(tmp_path / "m").open()
    for at in range(0, new.spec.nbytes, 64 << 20):
        for view in new.read(at, min(64 << 20, new.spec.nbytes - at)):
            assert (np.frombuffer(view, np.float32) == 1.0).all()
