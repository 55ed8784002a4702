"""Starts measured processes, talks to them and watches their memory and CPU time.

Each role of a benchmark (sender, receiver, server, client) is a process of its own, started fresh
for every run: memory and allocator state of one run must not colour the next. What crosses the
pipe is JSON. ``worker.py`` is the other side.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import psutil

from benchmarks.closing import Closing

__all__ = ["Sample", "Sampler", "Usage", "Watching", "Worker", "WorkerFailed"]

REPOSITORY = Path(__file__).resolve().parents[1]
STDERR_TAIL_CHARS = 2000
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
# Bounds a hang, and judges nothing: beside many others a process may need minutes to start.
PATIENCE_SECONDS = 600.0


class WorkerFailed(RuntimeError):
    """A measured process died, said the wrong thing, or was silent for too long."""


@dataclass(frozen=True)
class Usage:
    """What one process used, from its base (all imports done, no buffer yet) to its end."""

    base_rss_bytes: int
    peak_rss_bytes: int
    cpu_seconds: float
    page_faults: int = 0

    @property
    def over_base_bytes(self) -> int:
        """Peak resident memory above the base (bytes)."""
        return self.peak_rss_bytes - self.base_rss_bytes

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)


class Worker(Closing):
    """One measured process; leaving the ``with`` block ends it, whatever state it is in.

    Args:
        body: ``"module:function"``; the function takes a ``Port`` and ``facts`` as keywords.
        facts: JSON facts for the function.
        name: what error messages call this process.
        python: the interpreter; of another environment, in which ``body`` finds what it imports.
        env: variables that are added to those of this process.
    """

    def __init__(
        self,
        body: str,
        facts: Mapping[str, Any],
        *,
        name: str,
        python: str | Path = sys.executable,
        env: Mapping[str, str] = NO_VARIABLES,
    ) -> None:
        self.name = name
        self.base_rss_bytes = 0
        self._unread = b""
        # ``close`` closes both; a worker that nobody closes would leak a process.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [str(python), "-m", "benchmarks.worker", body, json.dumps(dict(facts))],
            cwd=REPOSITORY,
            # Native code that crashes says where: that belongs to the last words of a worker, too.
            env={"PYTHONFAULTHANDLER": "1", **os.environ, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def tell(self, event: str, **facts: object) -> None:
        """Send one command with its facts; everything must be JSON."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"event": event, **facts}).encode() + b"\n")
        self._process.stdin.flush()

    def expect(self, event: str, *, timeout_seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """Return the facts of the next event, which must be ``event``.

        The ``base`` event is kept in ``base_rss_bytes`` on the way and needs no waiting for.

        Raises:
            WorkerFailed: the process ended, said something else, or was silent for too long.
        """
        facts: dict[str, Any] = json.loads(self._read_line(event, timeout_seconds))
        said = facts.pop("event")
        if said == "base" and event != "base":
            self.base_rss_bytes = facts["base_rss_bytes"]
            return self.expect(event, timeout_seconds=timeout_seconds)
        if said != event:
            raise self._failed(f"said {said!r} where {event!r} was expected")
        return facts

    def finish(self, *, timeout_seconds: float = PATIENCE_SECONDS) -> Usage:
        """Wait for the process's end and return what it used.

        Raises:
            WorkerFailed: it did not end well, or not in time.
        """
        usage = Usage(**self.expect("done", timeout_seconds=timeout_seconds))
        try:
            returned = self._process.wait(timeout=timeout_seconds)
        except subprocess.TimeoutExpired as error:
            raise self._failed(f"did not end within {timeout_seconds:.0f} s") from error
        if returned != 0:
            raise self._failed(f"ended with status {returned}")
        return usage

    def require_running(self) -> None:
        """Check that the process has not ended.

        Raises:
            WorkerFailed: it has, with its last words.
        """
        if (returned := self._process.poll()) is not None:
            raise self._failed(f"ended with status {returned}")

    def close(self) -> None:
        """End the process, if it still runs, and its pipes."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._stderr):
            if pipe is not None:
                pipe.close()

    def _read_line(self, event: str, timeout_seconds: float) -> bytes:
        assert self._process.stdout is not None
        fd, give_up_at = self._process.stdout.fileno(), time.monotonic() + timeout_seconds
        while b"\n" not in self._unread:
            left = give_up_at - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                raise self._failed(f"did not say {event!r} within {timeout_seconds:.0f} s")
            piece = os.read(fd, 65536)
            if not piece:
                raise self._failed(f"ended before it said {event!r}")
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _failed(self, what: str) -> WorkerFailed:
        self._stderr.seek(0)
        tail = self._stderr.read().decode(errors="replace")[-STDERR_TAIL_CHARS:].strip()
        return WorkerFailed(f"{self.name} {what}" + (f"; its last words:\n{tail}" if tail else ""))


@dataclass(frozen=True)
class Sample:
    """One look at a process: ``at`` seconds after the sampler's start."""

    at: float
    rss_bytes: int
    cpu_seconds: float


class Watching(Closing):
    """Looks again and again, in a thread of its own, while its ``with`` block runs."""

    interval_seconds: float

    def __enter__(self) -> Self:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watching", daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            self._look()
            if self._stop.wait(self.interval_seconds):
                return

    @abstractmethod
    def _look(self) -> None:
        """Note what there is to see now."""


class Sampler(Watching):
    """Looks at resident memory and CPU time of some processes while its ``with`` block runs.

    Args:
        pids: process ids by name.
        interval_seconds: how often to look; 10-50 ms cost well under 1 % of a core each.
    """

    def __init__(self, pids: Mapping[str, int], *, interval_seconds: float = 0.02) -> None:
        self._watched = {name: psutil.Process(pid) for name, pid in pids.items()}
        self.interval_seconds = interval_seconds
        self._samples: dict[str, list[Sample]] = {name: [] for name in pids}

    def samples(self, name: str) -> tuple[Sample, ...]:
        """Return what was seen of the process called ``name``, oldest first."""
        return tuple(self._samples[name])

    def __enter__(self) -> Self:
        self._started_at = time.monotonic()
        return super().__enter__()

    def _look(self) -> None:
        for name in list(self._watched):
            self._look_at(name)

    def _look_at(self, name: str) -> None:
        process = self._watched[name]
        try:
            with process.oneshot():
                rss_bytes, cpu = process.memory_info().rss, process.cpu_times()
        except psutil.NoSuchProcess:
            del self._watched[name]  # it ended; what was seen until then stands
            return
        at = time.monotonic() - self._started_at
        self._samples[name].append(Sample(at, rss_bytes, cpu.user + cpu.system))
