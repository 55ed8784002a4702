"""A night's job as an operator runs it: the command line, one YAML file, logs, exit codes.

    python examples/operations/nightly.py

1. ``export`` makes the first model from a safetensors file;
2. three sites and a ``server`` run the job; one site is slow, the rounds go on without it;
3. who contributed to which round is read from the server's log, one JSON object a line;
4. ``receive`` and ``send`` bring the model to another place, and ``inspect`` compares the two;
5. a job that nobody comes to ends with exit code 1, and the model is what it was.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import streamlink
from streamlink.config import parse_size

HERE = Path(__file__).resolve().parent
SITES = ("site-1", "site-2", "site-3")


class Commands:
    """Runs ``streamlink ...`` in one folder; what each says goes to a file of its own there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def start(self, name: str, *words: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "streamlink", *map(str, words)]
        with open(self._folder / f"{name}.out", "wb") as out:
            return subprocess.Popen(command, cwd=self._folder, stdout=out, stderr=out)

    def run(self, name: str, *words: object) -> int:
        return self.start(name, *words).wait()

    def must(self, name: str, *words: object) -> None:
        if code := self.run(name, *words):
            said = (self._folder / f"{name}.out").read_text()
            sys.exit(f"streamlink {words[0]} ended with {code}:\n{said}")

    def wait_up(self, name: str, process: subprocess.Popen[bytes]) -> None:
        """Wait until a process that was started has said its first word, or ended."""
        while process.poll() is None and not (self._folder / f"{name}.out").stat().st_size:
            time.sleep(0.1)

    def log(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield the records of a log that was written with ``--json-logs``."""
        for line in (self._folder / name).read_text().splitlines():
            yield json.loads(line)


def main() -> None:
    options = argparse.ArgumentParser(description="A job with a straggler, by the command line.")
    options.add_argument("--listen", default="127.0.0.1:8517", metavar="HOST:PORT")
    options.add_argument("--size", default="8MB", help="of the model")
    options.add_argument("--folder", type=Path, help="kept; default: a temporary one")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        make_weights(folder / "weights", parse_size(given.size))
        run_night(Commands(folder), given.listen)


def make_weights(place: Path, nbytes: int) -> None:
    """Stand in for the weights that somebody else has trained."""
    arrays = {f"layer.{n}": np.zeros(nbytes // 16, np.float32) for n in range(4)}
    streamlink.copy_model(arrays, place)


def run_night(commands: Commands, listen: str) -> None:
    settings = ("--config", HERE / "job.yaml")
    commands.must("export", "export", "weights", "model")

    work = f"{HERE / 'work.py'}:make"
    sites = {
        site: commands.start(
            site, "client", "--server", listen, "--name", site, "--executor", work, *settings
        )
        for site in SITES
    }
    for site, process in sites.items():
        commands.wait_up(site, process)  # the server begins as soon as two of them have found it
    job = ("server", "--store", "model", "--listen", listen, "--spool", "spool", *settings)
    commands.must("server", *job, "--log-file", "server.log", "--json-logs")
    print("sites ended with", {site: process.wait() for site, process in sites.items()})
    tell_rounds(commands)

    receiving = commands.start("receive", "receive", "backup", "--listen", listen)
    commands.must("send", "send", "model", listen)
    print("receive ended with", receiving.wait())
    print("model and backup differ:", bool(commands.run("inspect", "inspect", "model", "backup")))

    code = commands.run("nobody", *job, "--set", "rounds.wait_for_clients_seconds=1")
    unchanged = not commands.run("inspect", "inspect", "model", "backup")
    print(f"a job that nobody came to ended with {code}; the model is what it was: {unchanged}")


def tell_rounds(commands: Commands) -> None:
    """Print who is in which round: whose update's transfer was completed, and who was late."""
    updates: dict[int, list[str]] = {}
    for record in commands.log("server.log"):
        if record["message"] == "transfer done" and record["direction"] == "received":
            updates.setdefault(record["round"], []).append(record["peer"])
        elif record["level"] == "WARNING":
            print(f"warning: {record['message']}")
        elif record["message"] == "job done":
            print(f"job: {record['updates']} updates, {record['dropped']} left out")
    for number, peers in sorted(updates.items()):
        print(f"round {number}: {', '.join(sorted(peers))}")


if __name__ == "__main__":
    main()
