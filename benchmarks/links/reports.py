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
from benchmarks.links.kept import latest
from benchmarks.links.savings import SAVED_COLUMNS, saved_rows
from benchmarks.links.sizes import LARGE_COLUMNS, is_constant, large_rows
from benchmarks.links.tables import COLUMNS, LINE_COLUMNS, Row, line_rows, rows_of
from benchmarks.tables import print_table

__all__ = ["Files", "replace_file", "summary_of", "text_of", "write"]


TITLES = {
    "links": "streamlink over lines",
    "peers": "Model transfers beside their peers",
}


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


def write(files: Files, runs: Sequence[Run]) -> None:
    """Write everything that is made of raw results; each file appears whole or not at all."""
    replace_file(files.summary, json.dumps(summary_of(runs), indent=1) + "\n")
    replace_file(files.table, text_of(runs))
    # The pictures need matplotlib, which a run does not.
    from benchmarks.links.page import html_of
    from benchmarks.links.sites.report import read_sites

    # What is measured of the two-site job is a part of the page about lines.
    sites = latest(read_sites(Files(files.folder, "sites").raw)) if files.name == "links" else []
    replace_file(files.page, html_of(TITLES[files.name], runs, sites))


def text_of(runs: Sequence[Run]) -> str:
    """Return the tables as text: the lines themselves, the peers, and why peers failed."""
    rows = rows_of(runs)
    console = Console(file=io.StringIO(), width=400)
    console.print("The lines themselves, as a raw socket found them first")
    print_table(console, LINE_COLUMNS, line_rows(runs))
    console.print("\nThe transfers: median (range)")
    print_table(console, COLUMNS, [row.cells() for row in rows])
    if saved := saved_rows(rows):
        console.print("\nWhat each encoding saved")
        print_table(console, SAVED_COLUMNS, saved)
    if large := large_rows(rows):
        console.print("\nComputed models over loopback")
        print_table(console, LARGE_COLUMNS, large)
        console.print(is_constant(rows))
    for row in rows:
        if row.error:
            console.print(f"{row.case}: {row.error}", markup=False, soft_wrap=True)
    found = console.file.getvalue()  # type: ignore[attr-defined]
    return str(found)


def summary_of(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the rows as JSON, with commits and machines of the runs behind them."""
    rows = rows_of(runs)
    return {
        "commits": sorted({run.commit for run in runs}),
        "machines": sorted({run.where for run in runs}),
        "from": min((run.at for run in runs), default=""),
        "to": max((run.at for run in runs), default=""),
        "lines": [dict(zip(LINE_COLUMNS, each, strict=True)) for each in line_rows(runs)],
        "rows": [_row(row) for row in rows],
        "saved": [dict(zip(SAVED_COLUMNS, each, strict=True)) for each in saved_rows(rows)],
        "large": [dict(zip(LARGE_COLUMNS, each, strict=True)) for each in large_rows(rows)],
    }


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
