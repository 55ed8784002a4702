"""Runs one experiment: a process for each rank, one thread that reads what all of them say.

A rank that dies, is killed or hangs ends the experiment, never the series: what happened becomes
its result.
"""

from __future__ import annotations

import json
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from streamlink.profiling.dp.experiment import Experiment
from streamlink.profiling.dp.result import Failure, Result, Steps

__all__ = ["Progress", "run_experiment"]

Progress = Callable[[Mapping[str, Any]], None]
"""Called with each line that rank 0 writes: an ``event`` and its facts."""

_WORKER = "streamlink.profiling.dp.worker"
_LAST_BYTES = 2000


class _Rank:
    """One process, and what it has reported so far."""

    def __init__(self, number: int, order: Mapping[str, Any], errors: Path) -> None:
        self.number, self._errors = number, errors
        self.figures: dict[str, Any] | None = None
        self.forecast: int | None = None
        self.failed: Failure | None = None
        self._partial = b""
        with errors.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", _WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
            )
        assert self.process.stdin is not None
        try:
            with self.process.stdin as pipe:  # not its arguments: anybody can list those
                pipe.write(json.dumps({**order, "rank": number}).encode() + b"\n")
        except BrokenPipeError:
            pass  # it died already; `outcome` reports it

    @property
    def output(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def read(self, progress: Progress | None) -> bool:
        """Read its next lines; return whether it may write more."""
        data = self.output.read1(1 << 16)  # type: ignore[attr-defined]
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._take(line, progress)
        return bool(data)

    def outcome(self, end_at: float) -> Failure | None:
        """Wait for its end; return why it has no figures, or ``None`` if it has them.

        Raises:
            subprocess.TimeoutExpired: it closed its output, but has not ended at ``end_at``.
        """
        code = self.process.wait(max(0.0, end_at - time.monotonic()))
        if self.failed is not None:
            return self.failed
        if code == 0 and self.figures is not None:
            return None
        text = f"rank {self.number} {_ending(code)}"
        if last := self._last_line():
            text += f"; its last line: {last}"
        return Failure(kind="rank_died", text=text)

    def end(self) -> None:
        """Kill it, if it runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.output.close()

    def _take(self, line: bytes, progress: Progress | None) -> None:
        try:
            facts = json.loads(line)
            event = facts.pop("event")
        except (ValueError, KeyError, TypeError, AttributeError):
            return  # a library has printed something
        if event == "result":
            self.figures = facts
        elif event == "forecast":
            self.forecast = int(facts["bytes"])
        elif event == "failed":
            self.failed = Failure(**facts)
        if progress is not None and self.number == 0:
            progress({"event": event, **facts})

    def _last_line(self) -> str:
        text = self._errors.read_bytes()[-_LAST_BYTES:].decode(errors="replace").strip()
        return text.splitlines()[-1] if text else ""


def run_experiment(
    experiment: Experiment,
    *,
    token: str | None = None,
    timeout_seconds: float = 3600.0,
    ignores_forecast: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Run one experiment in processes of its own and return its figures, or why it failed.

    Args:
        experiment: what to do.
        token: opens a gated model; it is passed through a pipe, and written nowhere.
        timeout_seconds: after which the ranks are killed.
        ignores_forecast: start also where the memory will not be enough.
        progress: called as it advances.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as ranks:
        order = {
            "experiment": experiment.model_dump(mode="json"),
            "rendezvous": str(Path(folder) / "rendezvous"),
            "timeout_seconds": timeout_seconds,
            "ignores_forecast": ignores_forecast,
            "token": token,
        }
        started = []
        for number in range(experiment.world_size):
            rank = _Rank(number, order, Path(folder) / f"rank_{number}.txt")
            ranks.callback(rank.end)
            started.append(rank)
        failure = _watch(started, progress, time.monotonic() + timeout_seconds, timeout_seconds)
        return _result(experiment, started, failure)


def _watch(
    ranks: list[_Rank], progress: Progress | None, end_at: float, timeout_seconds: float
) -> Failure | None:
    """Read until all ranks have succeeded, or one has failed; the caller kills the others."""
    late = Failure(kind="timeout", text=f"it took longer than {timeout_seconds:g} s (--timeout)")
    with selectors.DefaultSelector() as selector:
        for each in ranks:
            selector.register(each.output, selectors.EVENT_READ, each)
        while selector.get_map():
            ready = selector.select(max(0.0, end_at - time.monotonic()))
            if not ready or time.monotonic() >= end_at:
                return late
            for key, _ in ready:
                rank: _Rank = key.data
                if rank.read(progress):
                    continue
                selector.unregister(key.fileobj)
                try:
                    failure = rank.outcome(end_at)
                except subprocess.TimeoutExpired:
                    return late
                if failure is not None:
                    return failure
    return None


def _result(experiment: Experiment, ranks: list[_Rank], failure: Failure | None) -> Result:
    versions: dict[str, str] = next(
        (each.figures.pop("versions") for each in ranks if each.figures), {}
    )
    return Result(
        experiment=experiment,
        steps=None if failure else _joined([each.figures for each in ranks if each.figures]),
        failure=failure,
        forecast_bytes=max((each.forecast or 0 for each in ranks), default=0) or None,
        versions=versions,
    )


def _joined(figures: list[dict[str, Any]]) -> Steps:
    """Return the steps of all ranks as one: a step takes as long as its slowest rank."""
    worst = {
        key: [max(values) for values in zip(*(each[key] for each in figures), strict=True)]
        for key in ("seconds", "peak_bytes", "held_bytes")
    }
    profiled = [each["profiled_bytes"] for each in figures]
    top = None if None in profiled else max(profiled)
    same = {key: figures[0][key] for key in ("parameters", "vocab_size", "device_name")}
    return Steps(**worst, profiled_bytes=top, **same)


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}" if code else "ended without a result"
    named = {each.value: each.name for each in signal.Signals}  # real-time signals have no name
    name = named.get(-code, f"signal {-code}")
    hint = ", as the kernel does when memory runs out" if -code == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"
