"""``python -m benchmarks.links`` in this process: what it shows or refuses takes no other one."""

from __future__ import annotations

import runpy
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import patch

import pytest

__all__ = ["ASKS_GIT", "run_here"]

ASKS_GIT = pytest.mark.processes(quick=True)
"""What a program does that looks for kept runs, which know their commit."""


def run_here(*words: str, folder: Path) -> CompletedProcess[str]:
    """Run the program with these words and this folder of results; return how it ended."""
    command = ["benchmarks.links", *words, "--output", str(folder)]
    out, err, code = StringIO(), StringIO(), None
    with patch.object(sys, "argv", command), redirect_stdout(out), redirect_stderr(err):
        try:
            runpy.run_module("benchmarks.links", run_name="__main__")
        except SystemExit as ended:
            code = ended.code
    return CompletedProcess(command, int(code or 0), out.getvalue(), err.getvalue())
