"""Processes forked from one that has imported a module: they talk by lines, as ``Popen``'s do.

``Forks(module)`` runs ``python -m module``, which calls ``serve_forks``. That process never starts
a thread or touches gRPC: what a child gets is a process that has done nothing but import.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.process_guard import report_start
from tests.support.waiting import WAIT

__all__ = ["Fork", "Forks", "serve_forks"]

_PR_SET_PDEATHSIG = 1
_MOST_ORDER_BYTES = 1 << 16


class Fork:
    """One process, and its ends of two pipes."""

    def __init__(self, pid: int, stdin: int, stdout: int) -> None:
        self.pid = pid
        self.stdin = os.fdopen(stdin, "w", encoding="utf-8")
        self.stdout = os.fdopen(stdout, encoding="utf-8")
        self._pidfd = os.pidfd_open(pid)

    def send_signal(self, number: int) -> None:
        """Send a signal; harmless where the process has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        """End it, at once."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it has ended.

        Raises:
            TimeoutError: it has not within ``timeout`` seconds.
        """
        if not select.select([self._pidfd], [], [], timeout)[0]:
            raise TimeoutError(f"process {self.pid} does not end")

    def close(self) -> None:
        """End it, and let go of its pipes."""
        self.kill()
        self.wait()
        os.close(self._pidfd)
        self.stdout.close()
        with suppress(BrokenPipeError):
            self.stdin.close()


class Forks:
    """The process that the others are forked from, begun when the first is."""

    def __init__(self, module: str, folder: Path) -> None:
        self._command = [sys.executable, "-m", module]
        self._folder = folder
        self._line: socket.socket | None = None

    def start(self, role: str, facts: Mapping[str, Any]) -> Fork:
        """Fork a process that does ``role`` with these facts."""
        line = self._line = self._line or self._begun()
        report_start()
        (their_stdin, stdin), (stdout, their_stdout) = os.pipe(), os.pipe()
        order = json.dumps({"role": role, "facts": facts}).encode()
        socket.send_fds(line, [order], [their_stdin, their_stdout])
        os.close(their_stdin)
        os.close(their_stdout)
        return Fork(int(line.recv(64)), stdin, stdout)

    def _begun(self) -> socket.socket:
        line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line.settimeout(WAIT)
        with theirs:
            command = [*self._command, str(theirs.fileno())]
            process = subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=self._folder)

        def end() -> None:
            line.close()
            process.wait()

        atexit.register(end)
        return line


def serve_forks(roles: Mapping[str, Callable[[Mapping[str, Any]], None]]) -> None:
    """Fork a process for each order, until the one that gives them has ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system buries them
    with socket.socket(fileno=int(sys.argv[1])) as line:
        while True:
            order, fds, _, _ = socket.recv_fds(line, _MOST_ORDER_BYTES, 2)
            if not order:
                return
            pid = os.fork()
            if not pid:
                break
            for fd in fds:
                os.close(fd)
            line.send(str(pid).encode())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for fd, number in zip(fds, (0, 1), strict=True):
        os.dup2(fd, number)
        os.close(fd)
    told = json.loads(order)
    roles[told["role"]](told["facts"])
