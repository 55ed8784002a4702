"""``streamlink client`` is killed in the middle of its work and started again: it goes on there."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from streamlink import copy_model, open_store
from streamlink.operate.control import ask, control_path
from tests.support.commands import Command, environment, streamlink

pytestmark = pytest.mark.processes

WORK = """
import threading
from pathlib import Path

def train(tensor, start, values):
    flag = Path("was-here")
    if start >= 400_000 and not flag.exists():
        flag.touch()
        threading.Event().wait()  # until it is killed
    return values + 1
"""
SIZE = 1_000_000
HERE_BY_THEN = 1_500_000
"""Bytes of the update that leave before the client stops: up to its last chunk, of 64 KiB."""


def wait_for_the_update(store: Path, nbytes: int) -> None:
    """Wait until the server has so much of it, and the client has stopped behind that."""
    while True:
        clients = ask(control_path(store), {"do": "status"}).get("clients", ())
        # And stands there: one that is killed on its way would leave that to the next process.
        if (store.parent / "was-here").exists() and any(
            each["received_bytes"] >= nbytes for each in clients
        ):
            return
        threading.Event().wait(0.05)


@pytest.mark.parametrize("gather", ["lockstep", "spool"])
def test_a_client_that_is_killed_resumes_its_update(gather: str, tmp_path: Path) -> None:
    copy_model({"w": np.arange(SIZE, dtype=np.float32)}, open_store(tmp_path / "model"))
    (tmp_path / "work.py").write_text(WORK, encoding="utf-8")
    words = [
        "server",
        "--store",
        "model",
        "--listen",
        "127.0.0.1:0",
        "--min-clients",
        1,
        "--num-rounds",
        1,
    ]
    words += ["--spool", "spool"] if gather == "spool" else []
    with Command(streamlink(*words), tmp_path) as server:
        port = server.until(r"listening on 127\.0\.0\.1:(\d+)")[1]
        site = ("client", "--server", f"127.0.0.1:{port}", "--name", "site-1")
        command = streamlink(*site, "--task", "work.py:train", "--set", "stream.chunk_bytes=64KiB")
        with Command(command, tmp_path, environment()) as client:
            wait_for_the_update(tmp_path / "model", HERE_BY_THEN)
            client.interrupt(signal.SIGKILL)
            client.end()
        with Command(command, tmp_path, environment()) as client:
            mark = int(server.until(r"update.* resumes at byte (\d+)")[1])
            assert server.end() == 0
            assert client.end() == 0
    assert mark >= 1 << 20, server.log
    assert "attempt 2" not in server.log
    array = np.empty(SIZE, np.float32)
    copy_model(open_store(tmp_path / "model"), {"w": array})
    assert np.array_equal(array, np.arange(SIZE) + 1)
