"""The page of a series: one HTML file, whose pictures are inside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.links.cases import Case, Run
from benchmarks.links.failures import made_good
from benchmarks.links.goals import GOAL_COLUMNS, Goal, goal_rows
from benchmarks.links.peers import found
from benchmarks.links.pictures import (
    large_picture,
    memory_pictures,
    rate_pictures,
    saved_picture,
    size_picture,
)
from benchmarks.links.plans import OURS, RAW
from benchmarks.links.savings import SAVED_COLUMNS, saved_rows, saved_shares
from benchmarks.links.sites.cases import SiteRun
from benchmarks.links.sites.page import parts_of
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
from benchmarks.links.theirs import THEIR_COLUMNS
from benchmarks.links.theirs import TITLE as THEIRS
from streamlink.profiling.page import Notes, Page, Picture, Table

__all__ = ["Parts", "findings", "html_of"]

METHOD = (
    "Each run has two new processes in the peer's own environment, and a line of its own.",
    "The clock runs from the word to start until both ends are finished.",
    "Processes, imports, making the model and connecting are the start, with its own column.",
    "Arrays to receive into are in memory before; peers that take none allocate them meanwhile.",
    "The digest of what arrived equals that of what was sent in every run that counts.",
    "Memory over base includes the model. Of a framework it is the sum over its processes.",
    "Figures are medians; those of memory are the highest of all runs. Runs are interleaved.",
    "Bytes on the wire are both directions together, counted by the line, not by a peer.",
)


@dataclass(frozen=True)
class Parts:
    """What a page has beside the transfers.

    Attributes:
        goals: the numbers to reach.
        sites: runs of the two-site job; none: no such part.
        theirs: rows of NVIDIA FLARE's own benchmark; none: no such table.
        programs: tables of the programs that belong to the plan.
    """

    goals: Sequence[Goal] = ()
    sites: Sequence[SiteRun] = ()
    theirs: Sequence[tuple[str, ...]] = ()
    programs: Sequence[Table] = ()


def html_of(title: str, runs: Sequence[Run], more: Parts, folder: Path, sites_folder: Path) -> str:
    """Return the page; nothing in it is fetched from a network.

    Args:
        title: of the page.
        runs: of transfers.
        more: what else is on it.
        folder: gets the pictures. sites_folder: gets those of the two-site job.
    """
    rows = rows_of(runs)
    failures = [*failed(rows), *made_good(runs)]
    parts: list[Table | Picture | Notes] = [
        Table("Numbers to reach", GOAL_COLUMNS, goal_rows(more.goals), len(GOAL_COLUMNS)),
        Table("The lines, as a raw socket found them first", LINE_COLUMNS, line_rows(runs), 2),
        Table("The peers", PEER_COLUMNS, peer_rows(runs), len(PEER_COLUMNS)),
        Table("The transfers", COLUMNS, [row.cells() for row in _compared(rows)], 3),
        *([Notes("What failed", failures)] if failures else []),
        *([Table(THEIRS, THEIR_COLUMNS, more.theirs)] if more.theirs else []),
        *_rates(rows, folder),
        *_savings(rows, folder),
        *_sizes(rows, folder),
        *more.programs,
        *(parts_of(more.sites, sites_folder, "Two sites: ") if more.sites else []),
        Notes("How it is measured", (*METHOD, *_caveats(rows))),
    ]
    return Page(title, _about(runs), findings(rows), parts).html()


def _rates(rows: Sequence[Row], folder: Path) -> list[Picture]:
    """Return rates and memory of what all peers move."""
    same = _compared(rows)
    return [*rate_pictures(same, folder), *size_picture(same, folder),
            *memory_pictures(same, folder)]  # fmt: skip


def _compared(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of models that every peer moves; others have tables of their own."""
    return [row for row in rows if row.case.payload.kind == "uniform"]


def _savings(rows: Sequence[Row], folder: Path) -> list[Table | Picture | Notes]:
    if not (cells := saved_rows(rows)):
        return []
    table = Table("What each encoding saved", SAVED_COLUMNS, cells, 3)
    return [table, *(saved_picture(rows, folder) if saved_shares(rows) else [])]


def _sizes(rows: Sequence[Row], folder: Path) -> list[Table | Picture | Notes]:
    if not (cells := large_rows(rows)):
        return []
    table = Table("Computed models of 1 to 128 GB over loopback", LARGE_COLUMNS, cells)
    return [table, *large_picture(rows, folder), Notes("Seconds per GB", [is_constant(rows)])]


def findings(rows: Sequence[Row]) -> list[str]:
    """Return for each line what streamlink reached of a raw socket, and the best of the others."""
    sentences: list[str] = []
    for row in rows:
        if row.case.peer == OURS and row.share is not None:
            case, best = row.case, _best_of_others(row.case, rows)
            others = f"; the best of the others: {best.case.peer}, {best.share:.3f}" if best else ""
            said = f"{case.line}, {case.payload}: {row.share:.3f} of a raw socket"
            sentences.append(f"{said}{others}")
    return sentences


def _best_of_others(case: Case, rows: Sequence[Row]) -> Row | None:
    """Return the fastest of other programs with the same model and line; None: there is none."""
    others = [row for row in rows if (row.case.line, row.case.payload) == (case.line, case.payload)
              and row.share is not None
              and row.case.peer != RAW and not row.case.peer.startswith(OURS)]  # fmt: skip
    return max(others, key=lambda row: row.share or 0.0, default=None)


def _caveats(rows: Sequence[Row]) -> list[str]:
    peers = found()
    names = dict.fromkeys(row.case.peer for row in rows)
    return [f"{name}: {peers[name][0].caveat}" for name in names
            if name in peers and peers[name][0].caveat]  # fmt: skip


def _about(runs: Sequence[Run]) -> str:
    commits = ", ".join(sorted({run.commit for run in runs}))
    machines = ", ".join(sorted({run.where for run in runs}))
    days = f"{min(run.at for run in runs)} to {max(run.at for run in runs)}"
    return f"{len(runs)} runs, {days}; commit {commits}; {machines}"
