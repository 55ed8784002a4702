"""Programs that may have few files open."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from tests.support.commands import environment
from tests.support.waiting import WAIT

__all__ = ["run_with_few_files", "with_few_files"]


def with_few_files(command: Sequence[str], soft: int, hard: int | None = None) -> list[str]:
    """Return a command that runs ``command`` with these limits; ``hard``: as ``soft``."""
    limits = f"ulimit -Sn {soft} && ulimit -Hn {hard or soft}"
    return ["/bin/sh", "-c", f'{limits} && exec "$@"', "sh", *command]


def run_with_few_files(program: str, soft: int, hard: int | None = None) -> str:
    """Run a program in Python and return what it printed; it must end well."""
    command = with_few_files([sys.executable, "-c", program], soft, hard)
    ended = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=WAIT)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
