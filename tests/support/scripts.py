"""A program of a few lines as a process, whose main thread ends when the test says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Self

from tests.support.peers import WAIT

__all__ = ["Script"]

ROOT = Path(__file__).parents[2]
BEGIN = """
import asyncio, sys, threading
import numpy as np
import streamlink
from streamlink.link import ClientLink, run_async
from streamlink.stores import MemoryStore

def told():
    "Wait until the test says that the main thread shall end."
    sys.stdin.readline()

model = {"w": np.zeros(6, np.float32)}
"""


class Script:
    """A program that runs until its main thread is told to end."""

    def __init__(self, text: str, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", BEGIN + dedent(text), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def end(self) -> tuple[int, str]:
        """Let the main thread end; return the exit status, and what was written to stderr."""
        _, errors = self._process.communicate("end\n", timeout=WAIT)
        return self._process.returncode, errors

    def kill(self) -> None:
        """End it at once, as the system does where memory is short."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()
        self._process.communicate()
