"""``streamlink mpi``: whole jobs under ``mpiexec``, and how all of its processes end."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import numpy as np
import psutil
import pytest
from typer.testing import CliRunner

from streamlink import copy_model, digest_of, open_model, open_store
from streamlink.cli import app
from streamlink.stores import ArrayModel
from tests.support.commands import Command, streamlink
from tests.support.mpi import mpiexec, require_mpi4py

SIZE = 300_000  # elements of each of two tensors: a few chunks

TASKS = """
import sys, threading, time
from pathlib import Path
import numpy as np
import streamlink

def add(tensor, start, values):
    return values + np.float32(1)

def hang(tensor, start, values):
    if start > 0:
        print("in the middle", file=sys.stderr, flush=True)
        threading.Event().wait()
    return values

def wait(tensor, start, values):
    print("in the middle", file=sys.stderr, flush=True)
    while not Path("go on").exists():
        time.sleep(0.01)
    return values

def only_first(name):
    if name != "site-1":
        raise OSError("no GPU for " + name)
    return streamlink.StreamingExecutor(add)
"""


def digest_after(rounds: int) -> str:
    return digest_of(model_of(rounds))


def model_of(number: float) -> ArrayModel:
    return ArrayModel({name: np.full(SIZE, number, np.float32) for name in ("a", "b")})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(TASKS)
    model = model_of(0)
    copy_model(model, open_store(tmp_path / "m").begin(model.spec))
    return tmp_path


def job(processes: int, *options: object) -> list[str]:
    words = streamlink("mpi", "--store", "m", "--num-rounds", 2, "--job", "test", *options)
    return mpiexec(processes, *words)


def stored_digest(place: Path) -> str:
    model = open_model(place / "m")
    try:
        return digest_of(model)
    finally:
        model.close()


def ranks_of(running: Command) -> list[psutil.Process]:
    """Return the processes of the job, that of rank 0 first."""
    all_of_it = psutil.Process(running.process.pid).children(recursive=True)
    ranks = {each.environ().get("PMI_RANK"): each for each in all_of_it}
    return [ranks[rank] for rank in sorted(each for each in ranks if each is not None)]


# --- jobs that end by themselves --------------------------------------------


@pytest.mark.processes
def test_a_job_runs_to_its_end(place: Path) -> None:
    with Command(job(3, "--task", "tasks.py:add", "--report", "r.json"), place) as running:
        assert running.end() == 0, running.log
    assert stored_digest(place) == digest_after(2)
    report = json.loads((place / "r.json").read_text())
    assert report["final_digest"] == digest_after(2)
    assert [sorted(each["weights"]) for each in report["reports"]] == [["site-1", "site-2"]] * 2
    assert report["wire_bytes_sent"] > 2 * 2 * 2 * SIZE * 4
    assert "2 rounds in" in running.output


@pytest.mark.processes
def test_each_process_beside_the_servers_has_as_many_clients_as_asked(place: Path) -> None:
    options = ["--clients-per-rank", 2, "--log-file", "x.log", "--log-level", "debug"]
    with Command(job(3, "--task", "tasks.py:add", *options), place) as running:
        assert running.end() == 0, running.log
    assert stored_digest(place) == digest_after(2)
    log = (place / "x.log").read_text()
    assert re.search(r"round 0 attempt 1: offered to site-1, site-2, site-3, site-4", log)
    assert {each.name for each in place.glob("x.site-*.log")} == {"x.site-1.log", "x.site-3.log"}


@pytest.mark.processes
def test_a_client_that_cannot_begin_ends_the_job_at_once(place: Path) -> None:
    with Command(job(3, "--executor", "tasks.py:only_first"), place) as running:
        assert running.end() == 2
    assert "error: rank 2: --executor tasks.py:only_first raised OSError: no GPU" in running.log
    assert stored_digest(place) == digest_after(0)


@pytest.mark.processes
def test_a_server_that_cannot_begin_ends_the_job_at_once(place: Path) -> None:
    options = ["--task", "tasks.py:add", "--min-clients", 3]
    with Command(job(3, *options), place) as running:
        assert running.end() == 2
    assert "error: rounds.min_clients is 3, but there are only 2 clients (mpiexec" in running.log
    assert stored_digest(place) == digest_after(0)


# --- jobs that are ended ----------------------------------------------------


@pytest.mark.processes
@pytest.mark.parametrize("rank", [0, 2])
def test_a_process_that_dies_takes_the_others_with_it_and_the_store_is_whole(
    place: Path, rank: int
) -> None:
    with Command(job(3, "--task", "tasks.py:hang"), place) as running:
        running.until("in the middle")
        ranks = ranks_of(running)
        os.kill(ranks[rank].pid, signal.SIGKILL)
        assert running.end() != 0
        psutil.wait_procs(ranks)
    assert stored_digest(place) == digest_after(0)
    with Command(job(3, "--task", "tasks.py:add", "--resume"), place) as resumed:
        assert resumed.end() == 0, resumed.log
    assert stored_digest(place) == digest_after(2)


@pytest.mark.processes
def test_ctrl_c_ends_every_process_in_order(place: Path) -> None:
    with Command(job(3, "--task", "tasks.py:hang"), place) as running:
        running.until("in the middle")
        running.interrupt()
        assert running.end() == 128 + signal.SIGINT, running.log
    assert running.log.splitlines().count("stopped") == 1
    assert "BAD TERMINATION" not in running.log
    assert stored_digest(place) == digest_after(0)


# --- without mpiexec --------------------------------------------------------


@pytest.mark.processes
def test_one_process_is_told_how_to_start_the_others(place: Path) -> None:
    require_mpi4py()
    words = streamlink("mpi", "--store", "m", "--task", "tasks.py:add")
    with Command(words, place) as running:
        assert running.end() == 2
    assert "start it with mpiexec, such as: mpiexec -n 3 streamlink mpi" in running.log


def test_a_check_begins_no_job(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_mpi4py()
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(place)
    words = ["mpi", "--store", "m", "--task", "tasks.py:add", "--check"]
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "checked" in result.stdout
    result = CliRunner().invoke(app, [*words, "--task", "tasks.py:absent"])
    assert result.exit_code == 2
    assert "tasks.py has no function 'absent'" in result.stderr
    assert not (place / "m.rounds.json").exists()


@pytest.mark.processes
def test_the_exit_code_is_the_servers_where_only_the_server_was_interrupted(place: Path) -> None:
    with Command(job(3, "--task", "tasks.py:wait"), place) as running:
        running.until("in the middle")
        os.kill(ranks_of(running)[0].pid, signal.SIGINT)
        running.until("stopped")
        (place / "go on").touch()
        assert running.end() == 128 + signal.SIGINT, running.log
    assert "error" not in running.log
