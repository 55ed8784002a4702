"""More connections of strangers than the server may have files, while a job runs as processes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from streamlink import copy_model, digest_of
from streamlink.certs import make_certificates
from tests.support.commands import Command, environment, streamlink
from tests.support.few_files import with_few_files
from tests.support.flood import Flood

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400)]

FILES = 256
"""What the server's process may have open: soft and hard limit (count)."""
STRANGERS = 300
WAIT = 60.0
MODEL = {"w": np.arange(50_000, dtype=np.float32)}
TASK = """
import os
import sys

waits = True

def add(tensor, start, values):
    global waits
    if waits and (pipe := os.environ.get("GO_ON")):
        waits = False
        print("at work", file=sys.stderr, flush=True)
        open(pipe).close()  # waits until the test opens the other end
    return values + 1
"""


def tls(folder: Path, kind: str, name: str) -> list[str]:
    """Return the flags of mutual TLS for ``name``; none for plain text."""
    if kind == "plain":
        return []
    own = folder / "certs" / name
    files = (("certificate", "certificate"), ("key", "key"), ("ca", "ca"))
    return [word for flag, file in files for word in (f"--{flag}", f"{own / file}.pem")]


@pytest.mark.parametrize("kind", ["plain", "mutual TLS"])
def test_a_job_ends_well_though_strangers_hold_more_connections_than_there_may_be_files(
    kind: str, tmp_path: Path
) -> None:
    make_certificates(tmp_path / "certs", ["127.0.0.1"], ["site-1", "site-2", "site-3"])
    copy_model(MODEL, tmp_path / "model")
    (tmp_path / "tasks.py").write_text(TASK)
    env, waiting = environment(tmp_path), {**environment(tmp_path), "GO_ON": "go-on"}
    os.mkfifo(tmp_path / "go-on")

    def client(name: str) -> list[str]:
        words = ("client", "--server", f"127.0.0.1:{port}", "--name", name)
        # Strangers leave their places as their time is up, and it is chance who gets one next.
        patient = ("--set", "timeouts.connect_timeout=300")
        return streamlink(*words, "--task", "tasks.py:add", *patient, *tls(tmp_path, kind, name))

    rules = ("--min-clients", 2, "--num-rounds", 2, "--set", "grpc.max_clients=3")
    serving = streamlink("server", "--store", "model", "--listen", "127.0.0.1:0", *rules)
    serving += tls(tmp_path, kind, "server")
    with Command(with_few_files(serving, FILES), tmp_path, env) as server:
        port = int(server.until(r"listening on 127.0.0.1:(\d+)")[1])
        with (
            Command(client("site-1"), tmp_path, waiting) as first,
            Command(client("site-2"), tmp_path, env) as second,
        ):
            first.until("at work")
            with Flood(port, STRANGERS) as flood:
                flood.wait(WAIT)
                with Command(client("site-3"), tmp_path, env) as late:
                    late.until(r"the session with .* began")
                    with Command(streamlink("status", "--store", "model"), tmp_path) as asked:
                        assert asked.end() == 0, asked.log  # its socket has a descriptor, too
                    (tmp_path / "go-on").open("w").close()
                    ends = [each.end() for each in (first, second, late, server)]
    logs = [each.log for each in (first, second, late, server)]
    assert ends == [0, 0, 0, 0], "\n".join(logs)
    assert digest_of(tmp_path / "model") == digest_of({"w": MODEL["w"] + 2})
