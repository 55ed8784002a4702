"""The page of a series: one HTML file, whose pictures are inside it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.links.cases import MIB, Run
from benchmarks.links.peers import found
from benchmarks.links.pictures import memory_pictures, rate_pictures, size_picture
from benchmarks.links.plans import OURS
from benchmarks.links.tables import COLUMNS, LINE_COLUMNS, Row, line_rows, rows_of
from streamlink.profiling.page import Notes, Page, Picture, Table

__all__ = ["findings", "html_of"]

METHOD = (
    "Each run has two new processes in the peer's own environment, and a line of its own.",
    "The clock runs from the word to start until both ends are finished.",
    "Processes, imports, making the model and connecting are the start, with its own column.",
    "The digest of what arrived equals that of what was sent in every run that counts.",
    "Memory over base includes the model. Of a framework it is the sum over its processes.",
    "Figures are medians; those of memory are the highest of all runs. Runs are interleaved.",
    "Bytes on the wire are both directions together, counted by the line, not by a peer.",
)


def html_of(title: str, runs: Sequence[Run]) -> str:
    """Return the page; nothing in it is fetched from a network."""
    rows = rows_of(runs)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pictures = [
            *rate_pictures(rows, folder),
            *size_picture(rows, folder),
            *memory_pictures(rows, folder),
        ]
        parts: list[Table | Picture | Notes] = [
            Table("The lines, as a raw socket found them first", LINE_COLUMNS, line_rows(runs), 2),
            Table("The transfers", COLUMNS, [row.cells() for row in rows], 3),
            *([Notes("What failed", failures)] if (failures := _failures(rows)) else []),
            *pictures,
            Notes("How it is measured", (*METHOD, *_caveats(rows))),
        ]
        return Page(title, _about(runs), findings(rows), parts).html()


def findings(rows: Sequence[Row]) -> list[str]:
    """Return for each line what streamlink reached of a raw socket, and the next best peer's."""
    sentences: list[str] = []
    for row in rows:
        if row.case.peer != OURS or row.share is None:
            continue
        payload = row.case.payload
        model = f"{payload.size_bytes / MIB:g} MiB in {payload.arrays}"
        sentences.append(f"{row.case.line}, {model}: {row.share:.3f} of a raw socket")
    return sentences


def _failures(rows: Sequence[Row]) -> list[str]:
    return [f"{row.case}: {row.error}" for row in rows if row.error]


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
