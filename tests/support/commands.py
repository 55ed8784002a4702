"""Commands as processes of their own: started, read line by line, interrupted, waited for."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

__all__ = ["REPOSITORY", "Command", "environment", "streamlink"]

REPOSITORY = Path(__file__).parents[2]


def environment(*folders: Path) -> dict[str, str]:
    """The environment of a child that imports from ``folders`` and from here."""
    path = os.pathsep.join(map(str, (*folders, REPOSITORY)))
    # With the handler of faults, a process that is aborted says where its threads are.
    settings = {"COLUMNS": "80", "NO_COLOR": "1", "PYTHONFAULTHANDLER": "1"}
    return {**os.environ, "PYTHONPATH": path, **settings}


def streamlink(*words: object) -> list[str]:
    return [sys.executable, "-m", "streamlink", *map(str, words)]


class Command:
    """A process whose stderr is read up to the lines a test waits for."""

    def __init__(
        self, command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.lines: list[str] = []
        self.output = ""
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=env or environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def until(self, pattern: str) -> re.Match[str]:
        """Read stderr up to the line that has ``pattern``."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if match := re.search(pattern, line):
                return match
        raise AssertionError(f"ended without {pattern!r}:\n{self.log}")

    def interrupt(self, number: int = signal.SIGINT) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """Wait for the end of it and of all who write to its stderr; return the exit code."""
        # Not ``communicate``: it reads the pipe itself, past what ``until`` has read ahead.
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        with ThreadPoolExecutor(1) as pool:
            output = pool.submit(self.process.stdout.read)
            try:
                self.lines += self.process.stderr.readlines()
            except BaseException:
                # It hangs, and would keep the pool waiting for its output.
                self.abort()
                raise
            self.output += output.result()
        return self.process.wait()

    def abort(self) -> None:
        """End it where it hangs, and the processes it has started; ``log`` then says where."""
        if self.process.poll() is None:
            for child in psutil.Process(self.process.pid).children(recursive=True):
                child.kill()
            self.process.send_signal(signal.SIGABRT)
            self.process.wait()

    @property
    def log(self) -> str:
        return "".join(self.lines)

    @property
    def started(self) -> list[int]:
        """Process ids of the fleet, as told at log level debug."""
        return [int(found) for found in re.findall(r"started \S+, process (\d+)", self.log)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End what a failing test has left; show what it has said, and where it was."""
        self.abort()
        if error is not None and self.process.stderr is not None:
            self.process.wait()
            self.lines += self.process.stderr.readlines()
            print(f"{self.process.args!r} said:\n{self.log}")
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
