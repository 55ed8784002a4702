"""``rsync`` to a daemon: a file for each array, into an empty folder.

It moves files, not arrays: the model is written before the clock starts, and what arrived is read
after it has stopped. Files are in the temporary folder of the machine, and no disk is waited for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np

from benchmarks.links.ends import End
from benchmarks.links.payload import Arrays
from benchmarks.links.peers import Peer
from benchmarks.links.ports import free_port, wait_for_port


def _missing() -> str:
    return "" if shutil.which("rsync") else "there is no rsync on this machine"


def _version() -> str:
    done = subprocess.run(["rsync", "--version"], capture_output=True, text=True, timeout=60)
    return done.stdout.partition("\n")[0].strip()


PEER = Peer(
    {"": "rsync, daemon"},
    order=40,
    missing=_missing,
    version=_version,
    caveat="from files to files; memory is without the arrays",
    module=__name__,
)

START_SECONDS = 60.0
SETTINGS = """\
use chroot = no
uid = {uid}
gid = {gid}
[model]
path = {folder}/received
read only = no
post-xfer exec = echo $RSYNC_EXIT_STATUS > {folder}/ended
"""


def receive(end: End) -> None:
    """Run a daemon until one transfer has ended."""
    end.base()
    (end.folder / "received").mkdir()
    os.mkfifo(end.folder / "ended")
    settings = end.folder / "rsyncd.conf"
    found = SETTINGS.format(folder=end.folder, uid=os.getuid(), gid=os.getgid())
    settings.write_text(found)
    number = free_port(end.host)
    words = ["--daemon", "--no-detach", f"--config={settings}", f"--port={number}"]
    daemon = subprocess.Popen(["rsync", *words, f"--address={end.host}"])
    try:
        wait_for_port(end.host, number, START_SECONDS, lambda: daemon.poll() is None)
        end.listening(number)
        status = (end.folder / "ended").read_text().strip()
        if status != "0":
            raise ConnectionError(f"the daemon's transfer ended with status {status}")
        end.finished_later(lambda: _read(end, end.folder / "received"))
    finally:
        daemon.terminate()
        daemon.wait()


def send(end: End) -> None:
    """Send the files with one command."""
    end.base()
    source = end.folder / "source"
    source.mkdir()
    for name, array in end.source().items():
        array.tofile(source / name)
    del array
    end.wait_for_go()
    target = f"rsync://{end.host}:{end.number}/model/"
    subprocess.run(["rsync", "--recursive", f"{source}/", target], check=True)
    end.finished_later(lambda: _read(end, source))


def _read(end: End, folder: Path) -> Arrays:
    return {name: np.fromfile(folder / name, np.float32) for name in end.payload.names()}
