"""The two-site job as a page of its own, and as a part of another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.links.failures import made_good
from benchmarks.links.sites import flare
from benchmarks.links.sites.cases import CLIENTS, FAR, NEAR, SiteRun
from benchmarks.links.sites.pictures import time_pictures, use_pictures
from benchmarks.links.sites.report import NO_DUPLEX, tables_of
from benchmarks.links.sites.tables import SiteRow, failures, rows_of, way_seconds
from streamlink.profiling.page import Notes, Page, Picture, Table

__all__ = ["findings", "html_of", "parts_of"]

METHOD = (
    "A server and two clients, each a process of its own; a relay for each client's line.",
    "First a raw socket measures each client's line, and then the probe does, against a server.",
    "Each client takes the settings proposed for its line, the server the larger of both.",
    "The model is 64 arrays of normal numbers; each client adds a small number to every element.",
    "In the end every byte of the model equals a closed form, with bf16 as well.",
    "A way's time is that in which its bytes travelled, as the client saw it.",
    "It is without the client's work.",
    "In lockstep the near client's update comes at the pace of the far one's.",
    "With duplex the next model goes down at the pace of the updates, too.",
    NO_DUPLEX,
    "Bytes on the wire are what TCP carried on both clients' lines, without headers.",
    "Memory over base is without what the imports take; a limit is the server's own computation.",
)


def html_of(title: str, runs: Sequence[SiteRun], folder: Path) -> str:
    """Return the page; nothing in it is fetched from a network.

    Args:
        title: of the page.
        runs: what is shown.
        folder: gets the pictures.
    """
    return Page(title, _about(runs), findings(rows_of(runs)), parts_of(runs, folder)).html()


def parts_of(
    runs: Sequence[SiteRun], folder: Path, title: str = ""
) -> list[Table | Picture | Notes]:
    """Return tables, pictures and notes; the titles of the tables begin with ``title``."""
    rows = rows_of(runs)
    failed = [*failures(rows), *made_good(runs)]
    texts = {"The job": 2, "A model": 2, "Each": 2, "The lines": 3, "Numbers": 7}
    tables = [
        Table(f"{title}{name}", columns, cells,
              next((count for start, count in texts.items() if name.startswith(start)), 1))
        for name, columns, cells in tables_of(runs)
    ]  # fmt: skip
    said = [f"{who}: “{words}”" for who, words in flare.SAID.items()]
    return [
        *tables,
        *([Notes(f"{title}What failed", failed)] if failed else []),
        *time_pictures(rows, folder),
        *use_pictures(rows, folder),
        Notes(f"{title}What {flare.NAME} say ({flare.SOURCE})", said),
        Notes(f"{title}Why these settings", _reasons(runs)),
        Notes(f"{title}How it is measured", METHOD),
    ]


def findings(rows: Sequence[SiteRow]) -> list[str]:
    """Return what each variant took, beside the first of its encoding."""
    sentences: list[str] = []
    for row in rows:
        if not row.good:
            continue
        times = "; ".join(_both_ways(row, client) for client in (NEAR, FAR))
        sentences.append(f"{row.case.variant}: {row.good[-1].seconds:.1f} s; {times}")
    return sentences


def _both_ways(row: SiteRow, client: str) -> str:
    down, up = (way_seconds(row, client, way) for way in ("down", "up"))
    return f"{client} {down:.3g} s down and {up:.3g} s up"


def _reasons(runs: Sequence[SiteRun]) -> list[str]:
    probed = runs[-1].probed if runs else {}
    return [f"{client}, {name}: {reason}" for client in CLIENTS if client in probed
            for name, reason in probed[client].reasons.items()]  # fmt: skip


def _about(runs: Sequence[SiteRun]) -> str:
    commits = ", ".join(sorted({run.commit for run in runs}))
    machines = ", ".join(sorted({run.where for run in runs}))
    days = f"{min(run.at for run in runs)} to {max(run.at for run in runs)}"
    return f"{len(runs)} runs, {days}; commit {commits}; {machines}"
