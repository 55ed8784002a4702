"""The file of raw results: one run a line, appended when it is known, never rewritten."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from benchmarks.links.cases import Run

__all__ = ["MEASURED", "RESULTS", "append", "latest", "read", "read_as"]

RESULTS = Path(__file__).parents[1] / "results" / "links"
"""The folder of what is measured for the record."""
SHOWING = ("__main__", "failures", "goals", "kept", "numbers", "page", "pictures", "plans",
           "program_lines", "program_tables", "programs", "reports", "savings", "series", "sizes",
           "sources", "tables", "their_scripts", "theirs")  # fmt: skip
USED = ("closing", "integrations/environments", "integrations/sides", "lanes", "lines", "pipes",
        "processes", "relay", "unpaced", "worker")  # fmt: skip
MEASURED = (
    ":(top)streamlink",
    ":(top)benchmarks/links",
    ":(top)benchmarks/longline",
    *(f":(top)benchmarks/{name}.py" for name in USED),
    # These choose what is run and show what came of it; a run is the same with others.
    *(f":(top,exclude)benchmarks/links/{name}.py" for name in SHOWING),
    ":(top,exclude)benchmarks/links/sites",
)
"""What a run depends on, as git's paths."""

T = TypeVar("T")


class Keepable(Protocol):
    """A run of any kind."""

    commit: str

    @property
    def case(self) -> Any:
        """What was run; cases can be compared."""

    def as_json(self) -> dict[str, Any]:
        """Return everything as a JSON object."""


R = TypeVar("R", bound=Keepable)


def read(path: Path) -> list[Run]:
    """Return every run of a file; none where there is no file."""
    return read_as(Run.from_json, path)


def read_as(from_json: Callable[[dict[str, Any]], T], path: Path) -> list[T]:
    """Return every run of a file of runs of another kind."""
    if not path.exists():
        return []
    found: list[T] = []
    for line in path.read_text("utf-8").splitlines():
        # A line that was cut off by a crash is run again.
        with suppress(json.JSONDecodeError):
            found.append(from_json(json.loads(line)))
    return found


def latest(runs: Sequence[R]) -> list[R]:
    """Return of each case the runs of the commit that was measured last."""
    commits = {run.case: run.commit for run in runs}
    return [run for run in runs if run.commit == commits[run.case]]


def append(path: Path, run: Keepable) -> None:
    """Keep a run; on a line of its own, also behind one that was cut off."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(json.dumps(run.as_json()).encode() + b"\n")
