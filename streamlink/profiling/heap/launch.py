"""Runs one job of an experiment: the server, its clients, and one thread that reads what they say.

The first process that fails ends the job: the others would wait for it. What each of them has
written until then is kept.
"""

from __future__ import annotations

import importlib.util
import json
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from streamlink.profiling.heap.experiment import ExperimentError, Order

__all__ = ["Progress", "mpiexec", "run_job"]

Progress = Callable[[Mapping[str, Any]], object]
"""Called with the facts of each event: ``who``, ``event`` and what belongs to it."""

_ROLE = "streamlink.profiling.heap.roles"
_LAST_BYTES = 2000


def run_job(
    server: Order | None,
    clients: Sequence[Order],
    *,
    timeout_seconds: float,
    end_seconds: float,
    progress: Progress,
) -> None:
    """Run one job to its end.

    Args:
        server: what the server does; with MPI its address names the rank. ``None``: clients that
            train without one.
        clients: what each process of clients does; with gRPC the server's address is filled in.
        timeout_seconds: after which all processes are ended.
        end_seconds: how long a process may then take to end, before it is killed; memray compresses
            its file at the end.
        progress: called as the job advances.

    Raises:
        ExperimentError: a process failed, or it took too long; all of them have ended.
        KeyboardInterrupt: the same.
    """
    any_one = server or clients[0]
    end_at = time.monotonic() + timeout_seconds
    job = _Job(any_one.run / "logs", _job_name(any_one), end_at, end_seconds)
    with ExitStack() as stack:
        stack.callback(job.end)
        if server is not None and server.experiment.carrier == "mpi":
            job.start("ranks", _ranks([server, *clients]))
        else:
            address = ""
            if server is not None:
                job.start("server", _command(server))
                address = job.watch(progress, until="listening")["address"]
            for each in clients:
                order = each.model_copy(update={"address": address})
                job.start(f"client_{each.clients[0]}", _command(order))
        job.watch(progress)


def mpiexec(beside: Path = Path(sys.executable).parent) -> str:
    """Return the program that starts MPI jobs, from the folder ``beside`` or from PATH.

    Raises:
        ExperimentError: it, or mpi4py, is not installed.
    """
    found = shutil.which("mpiexec", path=beside) or shutil.which("mpiexec")
    if importlib.util.find_spec("mpi4py") is None or found is None:
        raise ExperimentError(
            "--carrier mpi needs mpi4py and mpiexec, and one of them is not there; "
            "pip install 'streamlink-fl[mpi]', or use --carrier grpc"
        )
    return found


class _Process:
    """One process: what it writes, and how it ended."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name, self.log = name, log
        self.failed = ""
        self._partial = b""
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,  # Ctrl-C reaches the parent, which ends them in order
            )

    @property
    def output(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def read(self) -> list[dict[str, Any]] | None:
        """Return the next events; ``None``: it has closed its output."""
        data = self.output.read1(1 << 16)  # type: ignore[attr-defined]
        *lines, self._partial = (self._partial + data).split(b"\n")
        events = [event for line in lines if (event := _event(line)) is not None]
        for each in events:
            if each["event"] == "failed":
                self.failed = self.failed or f"{each['who']}: {each['text']}"
        return events if data or events else None

    def outcome(self, seconds: float) -> str:
        """Wait for its end, so long at most; return why it failed, or nothing."""
        code = self.process.wait(seconds)
        if code == 0:
            return ""
        text = self.failed or f"{self.name} {_ending(code)}"
        return f"{text}; see {self.log}"

    def end(self) -> None:
        """Ask it to end, and kill it if it does not."""
        if self.process.poll() is None:
            self.process.terminate()

    def reap(self, until: float) -> None:
        """Wait for its end until then, and kill it."""
        try:
            self.process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.output.close()


class _Job:
    """The processes of one job."""

    def __init__(self, logs: Path, name: str, end_at: float, end_seconds: float) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self._logs, self._name = logs, name
        self._end_at, self._end_seconds = end_at, end_seconds
        self._processes: list[_Process] = []
        self._selector = selectors.DefaultSelector()

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start one process."""
        process = _Process(name, command, self._logs / f"{self._name}_{name}.log")
        self._processes.append(process)
        self._selector.register(process.output, selectors.EVENT_READ, process)

    def watch(self, progress: Progress, *, until: str = "") -> dict[str, Any]:
        """Pass events on until all processes have ended, or until the event of that name.

        Raises:
            ExperimentError: a process failed, or it takes too long.
        """
        while self._selector.get_map():
            ready = self._selector.select(max(0.0, self._end_at - time.monotonic()))
            if time.monotonic() >= self._end_at:
                raise ExperimentError(f"{self._name} took longer than --timeout allows")
            for key, _ in ready:
                process: _Process = key.data
                events = process.read()
                for each in events or []:
                    progress(each)
                    if each["event"] == until:
                        return each
                if events is None:
                    self._selector.unregister(key.fileobj)
                    self._over(process)
        if until:
            raise ExperimentError(f"{self._name}: the server ended before it listened")
        return {}

    def end(self) -> None:
        """End all that still run."""
        for each in reversed(self._processes):  # a client whose server is gone would complain
            each.end()
        until = time.monotonic() + self._end_seconds
        for each in self._processes:
            each.reap(until)
        self._selector.close()

    def _over(self, process: _Process) -> None:
        try:
            failure = process.outcome(self._end_seconds)
        except subprocess.TimeoutExpired:
            failure = f"{process.name} closed its output and did not end"
        if failure:
            raise ExperimentError(f"{self._name}: {failure}")


def _command(order: Order) -> list[str]:
    return [sys.executable, "-m", _ROLE, order.model_dump_json()]


def _ranks(orders: Sequence[Order]) -> list[str]:
    """Return the command of one MPI job with a program for each rank."""
    words = [mpiexec()]
    for number, order in enumerate(orders):
        words += [":"] if number else []
        words += ["-n", "1", *_command(order)]
    return words


def _job_name(order: Order) -> str:
    repeat = "" if order.repeat == 1 else f"_{order.repeat}"
    return f"{order.version}{repeat}" + ("" if order.profiled else "_plain")


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        facts = json.loads(line)
    except ValueError:
        return None  # a library has printed something
    return facts if isinstance(facts, dict) and {"who", "event"} <= facts.keys() else None


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    named = {each.value: each.name for each in signal.Signals}
    hint = ", as the kernel does when memory runs out" if -code == signal.SIGKILL else ""
    return f"was killed by {named.get(-code, f'signal {-code}')}{hint}"
