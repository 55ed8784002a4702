"""Runs on long lines, kept when they are known: a series goes on where it was interrupted.

A series takes an hour. Each of its runs is a line of its file, with the commit and the machine; it
counts as long as what it ran has not changed since.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from benchmarks.integrations.kept import Checkout
from benchmarks.links.kept import append, read_as
from benchmarks.stats import commit, environment

__all__ = ["LINES_ONLY", "WITH_STREAMLINK", "Kept"]

LINES_ONLY = (
    ":(top)benchmarks/longline",
    *(f":(top)benchmarks/{name}.py" for name in ("lanes", "pipes", "processes", "relay", "worker")),
    # These choose what is run, and show what came of it.
    *(f":(top,exclude)benchmarks/longline/{name}.py" for name in ("beside", "kept", "reference")),
)
"""What a run of raw sockets depends on, as git's paths."""
WITH_STREAMLINK = (":(top)streamlink", ":(top)benchmarks/models.py", *LINES_ONLY)
"""What a run of streamlink depends on."""


@dataclass
class _Run:
    case: dict[str, Any]
    found: dict[str, Any]
    commit: str
    machine: dict[str, Any]

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> Self:
        return cls(**facts)

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))


class Kept:
    """The runs of one series.

    Args:
        path: their file; None keeps nothing, for trials.
        measured: what they depend on, as git's paths.
    """

    def __init__(self, path: Path | None, measured: Sequence[str]) -> None:
        self._path, self._checkout = path, Checkout(measured=measured)

    def find(self, case: dict[str, Any]) -> list[dict[str, Any]]:
        """Return what was found in all runs of a case, the oldest first."""
        if self._path is None:
            return []
        runs = read_as(_Run.from_json, self._path)
        return [run.found for run in runs if run.case == case and self._checkout.counts(run)]

    def add(self, case: dict[str, Any], found: dict[str, Any]) -> None:
        """Keep a run."""
        if self._path is not None:
            append(self._path, _Run(case, found, commit(), environment()["machine"]))
