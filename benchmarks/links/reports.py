"""Writes what the raw results show: JSON, the tables as text, and the page."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from benchmarks.links.cases import Run
from benchmarks.links.failures import made_good
from benchmarks.links.goals import GOAL_COLUMNS, Goal, goal_rows, goals_of
from benchmarks.links.kept import latest
from benchmarks.links.plans import What
from benchmarks.links.savings import SAVED_COLUMNS, saved_rows
from benchmarks.links.sizes import LARGE_COLUMNS, is_constant, large_rows
from benchmarks.links.tables import (
    COLUMNS,
    LINE_COLUMNS,
    PEER_COLUMNS,
    Row,
    failed,
    line_rows,
    peer_rows,
    rows_of,
)
from benchmarks.links.theirs import THEIR_COLUMNS, read_theirs, their_rows
from benchmarks.links.theirs import TITLE as THEIRS
from benchmarks.tables import print_table

__all__ = ["NO_RUN", "Files", "print_titled", "replace_file", "summary_of", "text_of", "write"]

NO_RUN = "run it without --report, or with a later --deadline"

TITLES = {
    "links": "streamlink over lines",
    "peers": "Model transfers beside their peers",
}


TextTable = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""Title, columns and rows."""


@dataclass(frozen=True)
class Files:
    """The files of one plan in one folder: the raw results, and what is made of them."""

    folder: Path
    name: str

    @property
    def raw(self) -> Path:
        """One run a line."""
        return self.folder / f"{self.name}.jsonl"

    @property
    def summary(self) -> Path:
        """The rows as JSON."""
        return self.folder / f"{self.name}.json"

    @property
    def table(self) -> Path:
        """The tables as text."""
        return self.folder / f"{self.name}.txt"

    @property
    def page(self) -> Path:
        """One file with tables and pictures."""
        return self.folder / f"{self.name}.html"

    def pictures(self) -> Path:
        """Return the folder of the page's pictures, without those of before."""
        folder = self.folder / f"{self.name}-pictures"
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("*.png"):
            path.unlink()
        return folder


def write(files: Files, runs: Sequence[Run], numbers: Sequence[Goal] | None = None) -> None:
    """Write everything that is made of raw results; each file appears whole or not at all.

    Args:
        files: what is written.
        runs: of the plan.
        numbers: to reach, all of them; None: those of the plan alone.
    """
    replace_file(files.summary, json.dumps(summary_of(files, runs), indent=1) + "\n")
    replace_file(files.table, text_of(files, runs, numbers))
    # The pictures need matplotlib, which a run does not.
    from benchmarks.links.page import Parts, html_of
    from benchmarks.links.program_tables import program_tables
    from benchmarks.links.sites.report import read_sites

    # What is measured of the two-site job is a part of the page about lines.
    of_sites = Files(files.folder, "sites")
    sites = latest(read_sites(of_sites.raw)) if files.name == "links" else []
    programs = program_tables(files.name, files.folder)
    parts = Parts(_goals(files, runs, numbers), sites, _theirs(files), programs)
    sites_folder = of_sites.pictures() if sites else files.folder
    html = html_of(TITLES[files.name], runs, parts, files.pictures(), sites_folder)
    replace_file(files.page, html)


def _goals(files: Files, runs: Sequence[Run], numbers: Sequence[Goal] | None) -> Sequence[Goal]:
    return goals_of(What(files.name), rows_of(runs)) if numbers is None else numbers


def text_of(files: Files, runs: Sequence[Run], numbers: Sequence[Goal] | None = None) -> str:
    """Return the tables as text: the lines themselves, the peers, failures, numbers to reach."""
    rows = rows_of(runs)
    tables = _tables(files, runs, rows)
    console = Console(file=io.StringIO(), width=400)
    for table in tables:
        print_titled(console, *table)
    if large_rows(rows):
        console.print(is_constant(rows))
    for sentence in (*failed(rows), *made_good(runs)):
        console.print(sentence, markup=False, soft_wrap=True)
    goals = _goals(files, runs, numbers)
    print_titled(console, "Numbers to reach", GOAL_COLUMNS, goal_rows(goals))
    found = console.file.getvalue()  # type: ignore[attr-defined]
    return str(found)


def print_titled(
    console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Print a table under its title."""
    console.print(title)
    print_table(console, columns, rows)
    console.print()


def _tables(files: Files, runs: Sequence[Run], rows: Sequence[Row]) -> list[TextTable]:
    """Return title, columns and rows of each table but that of the numbers to reach."""
    some: list[TextTable] = [
        ("What each encoding saved", SAVED_COLUMNS, saved_rows(rows)),
        ("Computed models over loopback", LARGE_COLUMNS, large_rows(rows)),
        (THEIRS, THEIR_COLUMNS, _theirs(files)),
    ]
    return [
        ("The lines themselves, as a raw socket found them first", LINE_COLUMNS, line_rows(runs)),
        ("The peers", PEER_COLUMNS, peer_rows(runs)),
        ("The transfers: median (range)", COLUMNS, [row.cells() for row in rows]),
        *(table for table in some if table[2]),
    ]


def _theirs(files: Files) -> Sequence[tuple[str, ...]]:
    return their_rows(read_theirs(files.folder)) if files.name == "peers" else []


def summary_of(files: Files, runs: Sequence[Run]) -> dict[str, Any]:
    """Return the rows as JSON, with commits and machines of the runs behind them."""
    rows = rows_of(runs)
    return {
        "commits": sorted({run.commit for run in runs}),
        "machines": sorted({run.where for run in runs}),
        "from": min((run.at for run in runs), default=""),
        "to": max((run.at for run in runs), default=""),
        "lines": _dicts(LINE_COLUMNS, line_rows(runs)),
        "peers": _dicts(PEER_COLUMNS, peer_rows(runs)),
        "rows": [_row(row) for row in rows],
        "saved": _dicts(SAVED_COLUMNS, saved_rows(rows)),
        "large": _dicts(LARGE_COLUMNS, large_rows(rows)),
        "theirs": _dicts(THEIR_COLUMNS, _theirs(files)),
        "numbers_to_reach": [goal.as_json() for goal in goals_of(What(files.name), rows)],
        "made_good": made_good(runs),
    }


def _dicts(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    return [dict(zip(columns, each, strict=True)) for each in rows]


def _row(row: Row) -> dict[str, Any]:
    good = row.good
    found: dict[str, Any] = {**row.case.as_json(), "runs": len(good), "error": row.error}
    if not good:
        return found
    wire = [run.wire_bytes for run in good if run.wire_bytes is not None]
    return {
        **found,
        "seconds": [run.seconds for run in good],
        "bytes_per_second": row.rate,
        "share_of_raw_socket": row.share,
        "wire_bytes": median(wire) if wire else None,
        "startup_seconds": median(run.startup_seconds for run in good),
        **{
            role: {
                "peak_over_base_bytes": max(run.sides[role].peak_over_base_bytes for run in good),
                "cpu_seconds": median(run.sides[role].cpu_seconds for run in good),
            }
            for role in ("send", "receive")
        },
    }


def replace_file(path: Path, text: str) -> None:
    """Write a file, which appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
