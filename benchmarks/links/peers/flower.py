"""Flower 1.41: a ClientApp's reply with the model, by a SuperNode and a SuperLink to a ServerApp.

All its processes are as shipped and count to their end. The ServerApp looks for the reply every few
seconds, as Flower's own ``send_and_receive`` does; that is part of the time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.integrations.environments import Environment
from benchmarks.links.ends import End
from benchmarks.links.handing import Hand
from benchmarks.links.payload import digest
from benchmarks.links.peers import NUMPY, Peer
from benchmarks.links.ports import free_port, wait_for_port

PEER = Peer(
    {"": "Flower, message"},
    environment=Environment(
        ("flwr==1.41.0", NUMPY, "grpcio==1.80.0", "protobuf==6.33.1"), has_ours=False
    ),
    order=70,
    caveat="it looks for the reply every few seconds; on loopback hops inside a site count as well",
    module=__name__,
)

APP = Path(__file__).parents[1] / "flower_app"
START_SECONDS = 280.0


def receive(end: End) -> None:
    """Run a SuperLink and, in it, a ServerApp."""
    hand = Hand(end.folder, end.payload)
    number = free_port(end.host)
    home = end.folder / "home"
    home.mkdir()
    where = f'address = "{end.host}:{number}"\ninsecure = true\n'
    (home / "config.toml").write_text(f'[superlink]\ndefault = "c"\n\n[superlink.c]\n{where}')
    install = "--disable-runtime-dependency-installation"
    words = ["--insecure", "--host", end.host, "--port", str(number), install]
    _start(hand, "flower-superlink", *words)
    wait_for_port(end.host, number, START_SECONDS)
    end.listening(number)
    _start(hand, "flwr", "run", str(APP), "c", "--stream")
    hand.wait_for("idle", START_SECONDS)
    end.base()
    hand.say("asked")
    found = hand.wait_for("finished")
    if "error" in found:
        raise ConnectionError(f"the reply is an error: {found['error']}")
    end.finished_elsewhere(found["at"], lambda: str(found["digest"]))


def send(end: End) -> None:
    """Run a SuperNode, whose ClientApp has the model."""
    hand = Hand(end.folder, end.payload)
    (end.folder / "home").mkdir()
    where = ["--superlink", end.address, "--port", str(free_port("127.0.0.1"))]
    _start(hand, "flower-supernode", "--insecure", *where)
    hand.wait_for("idle", START_SECONDS)
    end.base()
    hand.say("make")
    hand.wait_for("made", START_SECONDS)
    end.wait_for_go()
    hand.say("go")
    # Nothing in the client learns that its reply has arrived; the server's end has the time.
    end.finished_elsewhere(0.0, lambda: digest(end.source()))


def _start(hand: Hand, program: str, *words: str) -> None:
    binaries = Path(sys.executable).parent
    (hand.folder / "tmp").mkdir(exist_ok=True)
    variables = {
        "PATH": os.pathsep.join([str(binaries), os.environ["PATH"]]),
        "FLWR_HOME": str(hand.folder / "home"),
        "TMPDIR": str(hand.folder / "tmp"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }
    command = [str(binaries / program), *words]
    subprocess.Popen(command, env={**os.environ, **variables, **hand.variables()})
