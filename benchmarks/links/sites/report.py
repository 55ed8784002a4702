"""Writes what the runs of the two-site job show: JSON, tables as text, and a page."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from rich.console import Console

from benchmarks.links.failures import made_good
from benchmarks.links.goals import GOAL_COLUMNS, goal_rows
from benchmarks.links.kept import read_as
from benchmarks.links.reports import Files, print_titled, replace_file
from benchmarks.links.sites import flare
from benchmarks.links.sites.cases import SiteRun
from benchmarks.links.sites.goals import site_goals
from benchmarks.links.sites.tables import (
    JOB_COLUMNS,
    LINE_COLUMNS,
    ROUND_COLUMNS,
    SETTING_COLUMNS,
    TIME_COLUMNS,
    failures,
    job_rows,
    line_rows,
    round_rows,
    rows_of,
    setting_rows,
    time_rows,
)

__all__ = ["NO_DUPLEX", "read_sites", "summary_of", "tables_of", "text_of", "write"]

NO_DUPLEX = (
    "There is no spool with duplex: a job refuses it, since only a lockstep round knows ranges of "
    "the next model before all updates are there."
)
TITLE = "Two sites whose lines differ five times"
read_sites = partial(read_as, SiteRun.from_json)
"""Returns every run of a file."""


def write(files: Files, runs: Sequence[SiteRun]) -> None:
    """Write everything that is made of raw results; each file appears whole or not at all."""
    replace_file(files.summary, json.dumps(summary_of(runs), indent=1) + "\n")
    replace_file(files.table, text_of(runs))
    # The pictures need matplotlib, which a run does not.
    from benchmarks.links.sites.page import html_of

    replace_file(files.page, html_of(TITLE, runs, files.pictures()))


def tables_of(runs: Sequence[SiteRun]) -> list[tuple[str, Sequence[str], list[tuple[str, ...]]]]:
    """Return title, columns and rows of each table."""
    rows = rows_of(runs)
    return [
        ("The job: medians; memory is the highest of all runs", JOB_COLUMNS, job_rows(rows)),
        ("A model each way: median of all rounds", TIME_COLUMNS, time_rows(rows)),
        ("Each round", ROUND_COLUMNS, round_rows(rows)),
        ("The lines themselves, as a raw socket found them first", LINE_COLUMNS, line_rows(runs)),
        ("What the probe found and proposed", SETTING_COLUMNS, setting_rows(runs)),
        ("Numbers to reach", GOAL_COLUMNS, goal_rows(site_goals(runs))),
    ]


def text_of(runs: Sequence[SiteRun]) -> str:
    """Return the tables as text."""
    console = Console(file=io.StringIO(), width=400)
    for title, columns, rows in tables_of(runs):
        print_titled(console, title, columns, rows)
    console.print(f"{flare.NAME}: {flare.SOURCE}. {NO_DUPLEX}", soft_wrap=True)
    for failure in (*failures(rows_of(runs)), *made_good(runs)):
        console.print(failure, markup=False, soft_wrap=True)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def summary_of(runs: Sequence[SiteRun]) -> dict[str, Any]:
    """Return all runs as JSON without their looks, and the figures of FLARE's notes."""
    return {
        "commits": sorted({run.commit for run in runs}),
        "machines": sorted({run.where for run in runs}),
        "seed": {  # as in what is kept from before
            "source": flare.SOURCE,
            "model_bytes": flare.MODEL_BYTES,
            "seconds": {" ".join(way): each for way, each in flare.SECONDS.items()},
            "timeouts": flare.TIMEOUTS,
        },
        "numbers_to_reach": [goal.as_json() for goal in site_goals(runs)],
        "runs": [_without_looks(run.as_json()) for run in runs],
    }


def _without_looks(facts: dict[str, Any]) -> dict[str, Any]:
    used = {name: {key: value for key, value in each.items() if key != "looks"}
            for name, each in facts["used"].items()}  # fmt: skip
    return {**facts, "used": used}
