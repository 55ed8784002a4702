"""What a command has done does not depend on what takes its output."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import streamlink as sl
from streamlink.operate.control import ControlServer
from tests.support.commands import environment, streamlink

pytestmark = pytest.mark.processes

LOST = "writing to stdout failed"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    sl.copy_model({"w": np.arange(100_000, dtype=np.float32)}, tmp_path / "model")
    return tmp_path / "model"


def run(*words: object, to: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose streams go where the shell's ``to`` says."""
    command = ["sh", "-c", f'exec "$@" {to}', "sh", *streamlink(*words)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)


@pytest.mark.parametrize("to", [">/dev/full", ">&-"], ids=["full", "closed"])
def test_a_stdout_that_takes_nothing_costs_a_job_nothing_but_its_words(
    to: str, model: Path, tmp_path: Path
) -> None:
    done = run("export", model, tmp_path / "copy", to=to)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.count(LOST) == 1
    assert sl.digest_of(tmp_path / "copy") == sl.digest_of(model)


def test_a_reader_that_has_left_costs_a_job_nothing_but_its_words(
    model: Path, tmp_path: Path
) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    command = streamlink("export", model, tmp_path / "copy")
    with os.fdopen(writes, "wb") as nobody:
        done = subprocess.run(
            command,
            env=environment(),
            stdout=nobody,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 0
    assert f"{LOST} (Broken pipe)" in done.stderr
    assert sl.digest_of(tmp_path / "copy") == sl.digest_of(model)


@pytest.mark.parametrize("to", ["2>/dev/full", "2>&-"], ids=["full", "closed"])
def test_a_stderr_that_takes_nothing_costs_a_job_nothing(
    to: str, model: Path, tmp_path: Path
) -> None:
    done = run("export", model, tmp_path / "copy", "--log-level", "debug", to=to)
    assert (done.returncode, done.stderr) == (0, "")
    assert "digest" in done.stdout
    assert sl.digest_of(tmp_path / "copy") == sl.digest_of(model)


def test_no_model_is_written_where_a_closed_stream_was(model: Path, tmp_path: Path) -> None:
    # What prints to descriptor 1 or 2 would else write into the first file that was opened.
    done = run("export", model, tmp_path / "copy", "--log-level", "debug", to="<&- >&- 2>&-")
    assert done.returncode == 0
    assert sl.digest_of(tmp_path / "copy") == sl.digest_of(model)


def test_a_failed_command_keeps_its_exit_code(model: Path, tmp_path: Path) -> None:
    sl.copy_model({"w": np.zeros(100_000, np.float32)}, tmp_path / "other")
    assert run("inspect", model, tmp_path / "other", "--verify", to=">/dev/full").returncode == 1
    assert run("inspect", tmp_path / "none", to=">/dev/full 2>/dev/full").returncode == 2
    assert run("inspect", "--no-such", to=">/dev/full 2>/dev/full").returncode == 2


def test_a_whole_job_goes_on_without_its_streams(model: Path, tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text("def add(tensor, start, values):\n    return values + 1\n")
    work = f"{tmp_path / 'work.py'}:add"
    words = ("--store", model, "--task", work, "--num-rounds", 1, "--clients", 1)
    done = run("simulate", *words, to=">/dev/full 2>/dev/full")
    assert done.returncode == 0
    now = sl.digest_of({"w": np.arange(100_000, dtype=np.float32) + 1})
    assert sl.digest_of(model) == now


def test_a_watch_that_nobody_reads_ends(tmp_path: Path) -> None:
    facts = {"program": "receive", "received_bytes": 0, "receive_total_bytes": 9}
    with ControlServer(tmp_path / "control", lambda order: facts):
        command = streamlink("status", "--control", tmp_path / "control", "--watch", "--json")
        with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE) as watching:
            assert watching.stdout is not None
            assert json.loads(watching.stdout.readline())["receive_total_bytes"] == 9
            watching.stdout.close()
            assert watching.wait() == 0
