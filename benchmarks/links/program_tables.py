"""The tables of programs for the page of a plan, from what each program has written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.links.program_lines import accuracy_rows
from benchmarks.links.tables import FOUND_COLUMNS
from streamlink.profiling.page import Table

__all__ = ["ON_PAGE", "program_tables"]

ON_PAGE: Mapping[str, Sequence[str]] = {
    "links": ("probe", "bwlimit", "traverse", "auto", "finetune"),
    "peers": ("shipped",),
}
"""The programs on the page of each plan: those that ``make bench-links`` and so on run with it."""


def program_tables(plan: str, folder: Path) -> list[Table]:
    """Return the tables of each program of the page that has a result; not of one only tried.

    As the page itself, it shows what was measured last; the title says with which commits.
    """
    paths = {name: folder / f"{name}.json" for name in ON_PAGE[plan]}
    found = {name: json.loads(path.read_text("utf-8"))
             for name, path in paths.items() if path.exists()}  # fmt: skip
    # A file of an earlier version may have no table.
    return [table for name, told in found.items() if not told["is_small"] and "columns" in told
            for table in _tables(name, told)]  # fmt: skip


def _tables(name: str, told: Mapping[str, Any]) -> list[Table]:
    lines = told["lines_themselves"]
    by_itself = f"{name}: the lines themselves, by a raw socket"
    return [
        *([Table(by_itself, FOUND_COLUMNS, accuracy_rows(lines), 2)] if lines else []),
        Table(f"{name}, commit {', '.join(told['commits'])}: {told['claim']}",
              told["columns"], told["rows"], 1),
    ]  # fmt: skip
