"""``streamlink client`` is killed in the middle of its work and started again: it goes on there."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest

from streamlink import copy_model, open_store
from tests.support.commands import Command, environment, streamlink

pytestmark = pytest.mark.processes

WORK = """
import sys
from pathlib import Path

def train(tensor, start, values):
    flag = Path("was-here")
    if start >= 400_000 and not flag.exists():
        flag.touch()
        print("in the middle", file=sys.stderr, flush=True)
        sys.stdin.read()  # until it is killed
    return values + 1
"""
SIZE = 1_000_000


@pytest.mark.parametrize("gather", ["lockstep", "spool"])
def test_a_client_that_is_killed_goes_on_at_its_mark(gather: str, tmp_path: Path) -> None:
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
        command = streamlink(*site, "--task", "work.py:train")
        with Command(command, tmp_path, environment()) as client:
            client.until("in the middle")
            client.interrupt(signal.SIGKILL)
            client.end()
        with Command(command, tmp_path, environment()) as client:
            mark = int(server.until(r"update.* goes on at byte (\d+)")[1])
            assert server.end() == 0
            assert client.end() == 0
    assert mark >= 1 << 20, server.log
    assert "attempt 2" not in server.log
    array = np.empty(SIZE, np.float32)
    copy_model(open_store(tmp_path / "model"), {"w": array})
    assert np.array_equal(array, np.arange(SIZE) + 1)
