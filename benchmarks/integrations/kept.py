"""The file of results: one run a line, each kept as soon as it is done.

A table of hours is measured in parts: on several days, at commits that differ in what is not
measured, on machines of the same kind and of others. Which runs belong together is decided here.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from benchmarks.integrations.cases import Outcome, kind_of
from benchmarks.stats import commit, environment

__all__ = ["Checkout", "append", "read"]

HERE = Path(__file__).resolve().parent
MEASURED = (
    ":(top)streamlink",
    ":(top)benchmarks/integrations",
    # These choose what is run and print what came of it; a run is the same with others.
    *(f":(top,exclude)benchmarks/integrations/{name}.py"
      for name in ("__main__", "kept", "page", "report", "series", "touch")),
)  # fmt: skip
"""What a run depends on, as git's paths."""


def read(path: Path | None) -> list[Outcome]:
    """Return every run of a result file; none where there is no file."""
    if path is None or not path.exists():
        return []
    lines = path.read_text("utf-8").splitlines(keepends=True)
    # A line that was cut off by a crash is run again.
    return [Outcome.from_json(json.loads(line)) for line in lines if line.endswith("\n")]


def append(path: Path | None, outcome: Outcome) -> None:
    """Keep a run, without its marks: they are for tests, and ten times as long as the rest."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(replace(outcome, marks=[]).as_json()) + "\n")


class Committed(Protocol):
    """A run of which the commit is known."""

    commit: str


class Checkout:
    """This checkout and machine, and which runs of before belong to what is measured here.

    A run counts if what it ran has not changed since: the commit may be another one.

    Args:
        since: of commits from this one on all runs count, whatever has changed since.
        measured: what a run depends on, as git's paths.

    Attributes:
        head: the commit at the start.
        where: the kind of this machine.
    """

    def __init__(self, since: str | None = None, measured: Sequence[str] = MEASURED) -> None:
        self.head, self.where = commit(), kind_of(environment()["machine"])
        self._since, self._measured = since, measured
        self._known = {self.head: True}

    def counts(self, outcome: Committed) -> bool:
        """Tell whether a run belongs to what is measured here, on whatever machine it was run."""
        if outcome.commit not in self._known:
            self._known[outcome.commit] = self._is_like(outcome.commit)
        return self._known[outcome.commit]

    def moved(self) -> str:
        """Return why this checkout is no longer what it was; empty: it is, in all that is run."""
        now = commit()
        if now == self.head or self._same(self.head, now):
            return ""
        return f"the checkout was {self.head} and is {now} now, which runs something else"

    def _is_like(self, other: str) -> bool:
        if self._since and _is_before(self._since, other) and _is_before(other, self.head):
            return True
        return self._same(other, self.head)

    def _same(self, one: str, other: str) -> bool:
        """Tell whether two commits run the same; of changes that are in no commit nobody knows."""
        return _git("diff", "--quiet", one, other, "--", *self._measured)


def _is_before(first: str, second: str) -> bool:
    return _git("merge-base", "--is-ancestor", first, second)


def _git(*words: str) -> bool:
    # A commit that this checkout does not have, or "...-dirty", is an error: neither yes nor same.
    command: Sequence[str] = ["git", *words]
    return subprocess.run(command, cwd=HERE, capture_output=True).returncode == 0
