"""The tables of a page in Markdown: one for each framework, between marks that name it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from benchmarks.integrations.report import BESIDE_BARE, COLUMNS

__all__ = ["table_of", "write_page"]

SHOWN = ("model", "line", "calls, s", "round, s", "server, MB", "client, MB", BESIDE_BARE,
         "to tuned", "asked for and not met")  # fmt: skip

PAGE_WIDTH = 120  # of the prose of our pages (letters)


def write_page(path: Path, rows: Sequence[tuple[str, ...]]) -> None:
    """Put the rows of each framework between ``<!-- NAME -->`` and ``<!-- /NAME -->`` in a page.

    Raises:
        ValueError: the page has no such marks; nothing is written.
    """
    text = path.read_text("utf-8")
    for framework in dict.fromkeys(row[0].split()[0] for row in rows):
        begin, end = f"<!-- {framework} -->", f"<!-- /{framework} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"{path} needs one {begin} and one {end}")
        mine = [row for row in rows if row[0].split()[0] == framework]
        before, after = text.split(begin)[0], text.split(end)[1]
        text = f"{before}{begin}\n{table_of(mine)}\n{end}{after}"
    path.write_text(text, "utf-8")


def table_of(rows: Sequence[tuple[str, ...]]) -> str:
    """Return the table of one framework's rows, and below it where they were measured."""
    facts = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    lines = [SHOWN, ("---",) * len(SHOWN), *map(_row, facts)]
    machines = ", ".join(dict.fromkeys(each["machine"] for each in facts))
    commits = sorted({commit for each in facts for commit in each["commit"].split(", ")})
    table = "\n".join(f"| {' | '.join(each)} |" for each in lines)
    exact = (
        "exact in every element, in all runs that completed"
        if _are_exact(facts)
        else "NOT ALL EXACT"
    )
    words = f"Results: {exact}. Machine: {machines}. Commits: {', '.join(commits)}."
    return f"{table}\n\n{textwrap.fill(words, PAGE_WIDTH)}"


def _row(facts: dict[str, str]) -> tuple[str, ...]:
    case = facts["case"].split(maxsplit=1)[1]
    line = f"{facts['line']}, {_times(int(facts['runs']))}"
    if facts["ended"] != "done":
        line += f": {facts['ended']}"
    figures = (facts[name] for name in SHOWN[2:-1])
    return (case, line, *figures, _not_met(facts["asked for"]))


def _times(runs: int) -> str:
    return "once" if runs == 1 else f"{runs} times"


def _not_met(asked: str) -> str:
    """Return what of the asked was not met; nothing for a line of which nothing is asked."""
    told = [each for each in asked.split("; ") if each and not each.endswith(" met")]
    left = [each.removesuffix(" NOT MET").removesuffix(" -") for each in told]
    # What cannot be told (" -"): the framework alone came to no end, so that its figure is a bound.
    unknown = [f"{name}?" if each.endswith(" -") else name
               for each, name in zip(told, left, strict=True)]  # fmt: skip
    return ", ".join(unknown) or ("-" if asked else "")


def _are_exact(facts: Sequence[dict[str, str]]) -> bool:
    return all(each["exact"] == "yes" for each in facts if each["ended"] == "done")
