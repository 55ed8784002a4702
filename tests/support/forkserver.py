"""Processes forked from one that has everything imported: a start costs milliseconds, not a second.

``python -m tests.support.forkserver`` reads orders from stdin, one JSON object a line, forks a
process for each, and tells on stdout what becomes of it. It never starts a thread or touches gRPC
itself: what a child gets is a process that has done nothing but import.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import streamlink.cli.jobs  # noqa: F401  # else each child would import it
from streamlink.cli import main
from streamlink.closing import Closing
from tests.support.commands import REPOSITORY, environment
from tests.support.kill_points import KillPoint
from tests.support.process_guard import report_start
from tests.support.round_points import RoundPoint

__all__ = ["Child", "ForkServer"]

_PR_SET_PDEATHSIG = 1


@dataclass(slots=True)
class Child:
    """A process of the fork server. ``code``: None while it runs; -9 where SIGKILL ended it."""

    pid: int
    log: Path
    code: int | None = None


class ForkServer(Closing):
    """Starts ``streamlink`` commands, and knows how each of them ended."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forkserver"],
            cwd=REPOSITORY,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._told = threading.Condition()
        self._ordering = threading.Lock()
        self._children: dict[int, Child] = {}
        self._born: list[int] = []
        self._is_over = False
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def start(self, words: Sequence[object], log: Path, kill: KillPoint | None = None) -> Child:
        """Start ``streamlink`` with these words; what it prints is appended to ``log``."""
        facts = asdict(kill) if kill else None
        return self._order({"words": [str(word) for word in words], "kill": facts}, log)

    def serve(self, point: RoundPoint, job: Mapping[str, Any], log: Path) -> Child:
        """Start a server of such a job that dies at ``point``."""
        return self._order({"point": asdict(point), "job": dict(job)}, log)

    def _order(self, order: Mapping[str, Any], log: Path) -> Child:
        assert self._process.stdin is not None
        report_start()
        with self._ordering, self._told:
            self._process.stdin.write(json.dumps({**order, "log": str(log)}) + "\n")
            self._process.stdin.flush()
            # For as long as it takes: a busy machine may need minutes to import everything.
            self._told.wait_for(lambda: self._born or self._is_over)
            assert self._born, f"the fork server ended with {self._process.wait()}"
            child = self._children[self._born.pop()]
            child.log = log
            return child

    def wait(self, child: Child, seconds: float) -> int | None:
        """Return how it ended; None: not within ``seconds``."""
        with self._told:
            self._told.wait_for(lambda: child.code is not None, seconds)
            return child.code

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            fact = json.loads(line)
            with self._told:
                if "code" in fact:
                    self._children[fact["pid"]].code = fact["code"]
                else:
                    self._children[fact["pid"]] = Child(fact["pid"], Path())
                    self._born.append(fact["pid"])
                self._told.notify_all()
        with self._told:
            self._is_over = True
            self._told.notify_all()

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        self._process.kill()  # and with it all who are left: each dies with its parent
        self._process.wait()
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


# --- the process that forks ------------------------------------------------------------------


def _serve() -> None:
    """Answer orders, and tell of the ends of children, until stdin is closed."""
    reads, writes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writes)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    buffered = b""
    while True:
        ready, _, _ = select.select([0, reads], [], [])
        if reads in ready:
            os.read(reads, 4096)
            _tell_ends()
        if 0 in ready:
            piece = os.read(0, 65536)
            if not piece:
                return
            *orders, buffered = (buffered + piece).split(b"\n")
            for order in orders:
                _fork(json.loads(order))


def _fork(order: dict[str, Any]) -> None:
    pid = os.fork()
    if pid:
        _tell(pid=pid)
        return
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(old, new)
    if "point" in order:
        RoundPoint(**order["point"]).serve(order["job"])
        os._exit(0)
    if order["kill"] is not None:
        KillPoint(**order["kill"]).arm()
    sys.argv = ["streamlink", *order["words"]]
    main()


def _tell_ends() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        _tell(pid=pid, code=os.waitstatus_to_exitcode(status))


def _tell(**facts: Any) -> None:
    os.write(1, (json.dumps(facts) + "\n").encode())


if __name__ == "__main__":
    _serve()
