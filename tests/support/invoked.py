"""Commands that are invoked in this process, and what they print."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from streamlink import copy_model, open_store
from streamlink.cli import app
from tests.support.models import float_spec, pattern_model

__all__ = ["ABSENT", "TASKS", "Outcome", "fill", "words"]

ABSENT = "127.0.0.1:1"  # nobody listens on port 1 without being root and meaning it

TASKS = """
import numpy as np
def add(tensor, start, values): return values + np.float32(1)
def fail(tensor, start, values): raise RuntimeError("boom")
def refuse(name): raise OSError(f"no GPU for {name}")
def wrong(name): return 3
number = 3
"""


class Outcome:
    """What a command printed, and its exit code."""

    def __init__(self, *words: object) -> None:
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exception is None or isinstance(result.exception, SystemExit), (
            result.exception
        )
        self.code, self.out, self.err = result.exit_code, result.stdout, result.stderr

    @property
    def error(self) -> str:
        """The one line that says what is wrong."""
        assert self.code in (1, 2), (self.code, self.out, self.err)
        logged = re.compile(r"\S+ \S+ (INFO|WARNING) ")  # of a server in this very process, too
        lines = [line for line in self.err.splitlines() if not logged.match(line)]
        assert len(lines) == 1, self.err
        assert lines[0].startswith("error: ")
        return lines[0].removeprefix("error: ")


def fill(path: Path, compress: Any = "none", seed: int = 0, *sizes: int) -> None:
    model = pattern_model(float_spec(*sizes or (300_000, 5)), seed)
    copy_model(model, open_store(path, compress).begin(model.spec))


def words(text: str) -> str:
    return " ".join(text.split())
