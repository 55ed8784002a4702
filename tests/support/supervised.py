"""A job whose processes a supervisor starts again when they are killed, as systemd would."""

from __future__ import annotations

import shutil
import time
from contextlib import closing
from pathlib import Path

import numpy as np

import streamlink as sl
from tests.support.commands import REPOSITORY
from tests.support.forkserver import Child, ForkServer
from tests.support.kill_points import KillPoint
from tests.support.ports import KeptPort
from tests.support.waiting import WAIT

__all__ = ["CLIENTS", "ROLES", "Supervised"]

SETTINGS = {
    "stream.chunk_bytes": "16KiB",
    "stream.min_chunk_bytes": "4KiB",
    "stream.window_bytes": "64KiB",
    "stream.initial_window_bytes": "16KiB",
    # On a busy machine a killed server may take long to restart. The price: a client that starts
    # after the server has ended waits this long before it gives up.
    "timeouts.connect_timeout": WAIT / 2,
    "timeouts.heartbeat_interval": 0.2,
    "timeouts.session_timeout": 2.0,
    # A process that is started again may need long for that beside many others, and is waited for.
    "timeouts.reconnect_timeout": WAIT / 2,
    "timeouts.rejoin_timeout": WAIT / 2,
}
_WORK = REPOSITORY / "tests" / "support" / "work.py"
CLIENTS = {"streaming": ("--task", f"{_WORK}:shift"), "whole": ("--executor", f"{_WORK}:whole")}
ROLES = ("server", *CLIENTS)
ROUNDS = 3
MOST_SECONDS = WAIT
_NOBODY, _CLOSING = "no server answers", "left: the job is done"


class Supervised:
    """One job: a server and two clients, of which one process may be doomed.

    Args:
        forks: where its processes come from.
        folder: empty; takes the model, the spool and the logs.
        gather: "lockstep" or "spool".
        carrier: of the models; that of sessions is gRPC.
    """

    def __init__(self, forks: ForkServer, folder: Path, gather: str, carrier: str = "grpc") -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.deaths: list[str] = []
        self.too_late: list[str] = []
        """Clients that were started again when the job was over, and found no server, or one that
        was just going."""
        self._forks = forks
        self._gather, self._carrier = gather, carrier
        self._port = KeptPort()  # while the server is dead, too
        self._running: dict[str, Child] = {}
        rng = np.random.default_rng(7)
        arrays = {f"layer.{n}": rng.random(12_000 + n, np.float32) for n in range(3)}
        sl.copy_model(arrays, sl.open_store(self.model))

    @property
    def model(self) -> Path:
        """The store of the global model."""
        return self.folder / "model"

    def run(self, doomed: str = "", kill: KillPoint | None = None) -> str:
        """Run it to its end, and return the digest of what is in the store then.

        Raises:
            AssertionError: a process ended in a way nobody asked for, or not at all; with its log.
        """
        for role in ROLES:
            self._start(role, kill if role == doomed else None)
        until = time.monotonic() + MOST_SECONDS
        while self._running:
            for role, child in list(self._running.items()):
                self._look(role, child, until)
        with closing(sl.open_model(self.model)) as source:
            return sl.digest_of(source)

    @property
    def log(self) -> str:
        """What all processes have printed."""
        return "\n".join(f"== {path.name}\n{path.read_text()}" for path in self._logs)

    @property
    def left_over(self) -> list[str]:
        """Files nobody needs any more: of the spool, and half-written ones anywhere."""
        spool = [path for path in (self.folder / "spool").rglob("*") if path.is_file()]
        partial = list(self.folder.rglob("*.part*"))
        return sorted(str(path.relative_to(self.folder)) for path in (*spool, *partial))

    def remove(self) -> None:
        """Remove its files."""
        shutil.rmtree(self.folder)

    @property
    def _logs(self) -> list[Path]:
        return sorted(self.folder.glob("*.log"))

    def _look(self, role: str, child: Child, until: float) -> None:
        code = self._forks.wait(child, 0.02)
        assert time.monotonic() < until, f"{role} does not end\n{self.log}"
        if code is None:
            return
        del self._running[role]
        if code == -9:
            self.deaths.append(role)
            self._start(role)
        elif code == 2 and self._is_too_late(role):
            self.too_late.append(role)
        else:
            assert code == 0, f"{role} ended with {code}\n{self.log}"

    def _is_too_late(self, role: str) -> bool:
        last = self._log_of(role).read_text().splitlines()[-1]
        is_over = _NOBODY in last and "server" not in self._running
        return role in self.deaths and (is_over or _CLOSING in last)

    def _start(self, role: str, kill: KillPoint | None = None) -> None:
        self._running[role] = self._forks.start(self._words(role), self._log_of(role), kill)

    def _log_of(self, role: str) -> Path:
        return self.folder / f"{role}.log"

    def _words(self, role: str) -> list[object]:
        settings = [w for key, value in SETTINGS.items() for w in ("--set", f"{key}={value}")]
        address = self._port.address
        if role != "server":
            return ["client", "--server", address, "--name", role, *CLIENTS[role], *settings]
        rules = ["--gather", self._gather, "--num-rounds", ROUNDS, "--min-clients", len(CLIENTS)]
        rules += ["--wait-time-after-min-received", WAIT / 2]
        if self._gather == "spool":
            rules += ["--spool", self.folder / "spool"]
        data = "none" if self._carrier == "grpc" else f"{self._carrier}://127.0.0.1:0"
        settings += ["--set", f"stream.data_listen={data}"]
        words = ["server", "--store", self.model, "--listen", address, "--resume"]
        return [*words, *rules, *settings]
