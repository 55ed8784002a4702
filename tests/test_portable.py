"""Without what only Linux has: macOS is not at hand, so what it lacks is taken away.

It shows that nothing of ours asks for those calls there, not that macOS does the rest as Linux.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import environment

pytestmark = pytest.mark.processes

LACKS = """
import concurrent.futures, grpc, numpy, os, psutil, rich.console, socket, sys  # not ours
for name in ("fdatasync", "posix_fadvise", "POSIX_FADV_DONTNEED", "eventfd", "pidfd_open"):
    delattr(os, name)
del socket.SO_PEERCRED
fchmod = os.fchmod
def fchmod_of_a_socket(fd, mode):
    raise OSError(22, "Invalid argument")  # as macOS answers for sockets
os.fchmod = fchmod_of_a_socket
import streamlink.operate.control, streamlink.public, urllib.request  # the public names come late
sys.platform = "darwin"  # now: the standard library asks for it when it is imported
"""

STORES = """
from pathlib import Path
model = {"layer": numpy.arange(20 << 20, dtype=numpy.float32)}  # enough to start writeback
for place in ("model", "model.slz"):
    store = streamlink.open_store(Path(sys.argv[1]) / place)
    streamlink.copy_model(model, store)
    assert streamlink.digest_of(store) == streamlink.digest_of(model)
assert not streamlink.tune_allocator()
"""

ROUND = """
import threading
from pathlib import Path
store = streamlink.open_store(Path(sys.argv[1]) / "model")
streamlink.copy_model({"layer": numpy.zeros(1000, numpy.float32)}, store)
add = streamlink.StreamingExecutor(lambda tensor, start, values: values + numpy.float32(1))
def take_part():
    with streamlink.Client(f"127.0.0.1:{server.port}", "site-1", add) as client:
        client.run()
with streamlink.Server("127.0.0.1:0") as server:
    site = threading.Thread(target=take_part)
    site.start()
    rules = streamlink.RoundConfig(min_clients=1, num_rounds=1)
    streamlink.ScatterAndGather(server, store, rules).run()
site.join()
expected = {"layer": numpy.ones(1000, numpy.float32)}
assert streamlink.digest_of(store) == streamlink.digest_of(expected)
"""

OPERATOR = """
from pathlib import Path
from streamlink.operate.control import ControlServer, ask
path = Path(sys.argv[1]) / "c"
with ControlServer(path, dict):
    assert path.stat().st_mode & 0o777 == 0o600
    assert ask(path, {"do": "status"}) == {"do": "status"}
"""


def run(program: str, folder: Path) -> None:
    command = [sys.executable, "-c", LACKS + program, str(folder)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_stores_do_without_what_only_linux_has(tmp_path: Path) -> None:
    run(STORES, tmp_path)
    assert {"model", "model.slz"} <= set(os.listdir(tmp_path))


def test_the_operators_socket_does_without_what_only_linux_has(tmp_path: Path) -> None:
    run(OPERATOR, tmp_path)


def test_a_round_does_without_what_only_linux_has(tmp_path: Path) -> None:
    run(ROUND, tmp_path)
