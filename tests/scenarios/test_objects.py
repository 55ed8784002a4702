"""Object servers and their clients as processes: killed, and started again."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from streamlink.copying import copy_model, digest_of
from streamlink.errors import StoreError, UnknownObject
from streamlink.link import TransferFacts
from streamlink.objects import ObjectClient, ObjectServer
from tests.support.peers import SMALL, WAIT, config, until

pytestmark = pytest.mark.processes

SERVE = """
import sys, threading
from streamlink.objects import ObjectServer
server = ObjectServer("127.0.0.1:0", spool=sys.argv[1]).listen()
print(server.port, flush=True)
threading.Event().wait(300)
"""

PUT_AND_STAY = """
import sys, threading
import numpy as np
from streamlink.config import LinkConfig, StreamConfig
from streamlink.objects import ObjectClient
small = LinkConfig(stream=StreamConfig(chunk_bytes=4096, min_chunk_bytes=1024,
                                       window_bytes=16384, initial_window_bytes=8192))
client = ObjectClient(sys.argv[1], name="site-1", config=small).start()
def halt(phase, done, total):
    if done > total // 2:
        print(done, flush=True)
        threading.Event().wait(300)
client.put(sys.argv[2], progress=halt)
"""


FORGETS = """
import numpy as np
from streamlink.objects import ObjectClient, ObjectServer
server = ObjectServer("127.0.0.1:0").listen()
client = ObjectClient(server.address, name="site-1").start()
reference = client.put({"w": np.ones(1000)})
source = server.open(reference)
lazy = client.open(client.put({"w": np.ones(9_000_000)}, readers=None))
lazy.read(0, 100)
print(len(server), flush=True)
"""


def started(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True
    )


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line, "the process ended without a word"
    return line


def killed(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(WAIT)
    assert process.stdout is not None
    process.stdout.close()


def folders(spool: Path) -> list[Path]:
    return [path for path in spool.iterdir() if path.is_dir()]


def test_a_killed_server_leaves_nothing_that_its_successor_does_not_remove(tmp_path: Path) -> None:
    process = started(SERVE, str(tmp_path))
    port = first_line(process)
    with ObjectClient(f"127.0.0.1:{port}", name="site-1", config=SMALL) as client:
        reference = client.put({"w": np.ones(5000)})
        assert len(folders(tmp_path)) == 1
        with pytest.raises(StoreError, match="another object server has this spool"):
            ObjectServer(spool=tmp_path).listen()
        killed(process)
    assert len(folders(tmp_path)) == 1
    with ObjectServer(spool=tmp_path) as successor:
        assert not folders(tmp_path)
        with pytest.raises(UnknownObject, match="started again"):
            successor.open(reference)


def test_a_client_that_is_killed_halfway_through_a_put_goes_on_when_it_is_back(
    tmp_path: Path,
) -> None:
    arrays = {"w": np.arange(1_000_000, dtype=np.float32)}
    copy_model(arrays, tmp_path / "model")
    facts: list[TransferFacts] = []
    hasty = config(reconnect_timeout=1.0)  # the server soon gives up who does not come back
    with ObjectServer(config=hasty, spool=tmp_path / "spool", on_transfer=facts.append) as server:
        process = started(PUT_AND_STAY, server.address, str(tmp_path / "model"))
        first_line(process)
        killed(process)
        until(lambda: bool(facts))  # the server has noticed
        with ObjectClient(server.address, name="site-1", config=SMALL) as client:
            reference = client.put(tmp_path / "model")
        assert 0 < facts[-1].bytes < 4_000_000
        assert reference.digest == digest_of(arrays)
        assert len(server) == 1


def test_a_program_that_forgets_to_close_ends() -> None:
    process = started(FORGETS)
    try:
        assert first_line(process) == "2"
        assert process.wait(WAIT) == 0
    finally:
        killed(process)
