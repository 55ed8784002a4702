"""The pictures of the two-site job: times each way, and memory and processor over time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.links.pictures import file_name
from benchmarks.links.sites.cases import CLIENTS, SERVER, Look, SiteRun, Used
from benchmarks.links.sites.tables import SiteRow, way_seconds
from streamlink.profiling.page import Picture
from streamlink.profiling.pictures import Bars, Lines, draw_bars, draw_lines

__all__ = ["time_pictures", "use_pictures"]

MIB = 1 << 20
PROCESSES = (SERVER, *CLIENTS)
CPU_STEPS = 60
"""In a picture: the kernel counts processor time in steps of 10 ms."""


def time_pictures(rows: Sequence[SiteRow], folder: Path) -> list[Picture]:
    """Draw for each encoding how long a model took each way, and the rounds."""
    found: list[Picture] = []
    encodings = dict.fromkeys(row.case.variant.encoding for row in rows if row.good)
    for encoding in encodings:
        of_encoding = [row for row in rows if row.good and row.case.variant.encoding == encoding]
        names = [row.case.variant.name.replace(", ", "\n") for row in of_encoding]
        series: dict[str, Sequence[float | None]] = {
            f"{client} {way}": [way_seconds(row, client, way) for row in of_encoding]
            for client in CLIENTS for way in ("down", "up")
        }  # fmt: skip
        rounds = {
            f"round {number + 1}": [_round(row, number) for row in of_encoding]
            for number in range(of_encoding[0].case.rounds)
        }
        path = folder / f"times-{encoding}.png"
        draw_bars(path, Bars(f"{encoding}: a model each way", "seconds", names, series),
                  Bars(f"{encoding}: rounds", "seconds", names, rounds))  # fmt: skip
        found.append(Picture(path, f"Two sites, {encoding}: time each way, and of each round"))
    return found


def use_pictures(rows: Sequence[SiteRow], folder: Path) -> list[Picture]:
    """Draw memory and processor over time of server and clients, for the last run of each case."""
    found: list[Picture] = []
    for row in rows:
        if not row.good:
            continue
        run = row.good[-1]
        path = folder / f"use-{file_name(row.case.variant)}.png"
        draw_lines(path, _memory(run), _cpu(run), columns=2)
        found.append(Picture(path, f"Two sites, {row.case.variant}: memory and processor"))
    return found


def _round(row: SiteRow, number: int) -> float:
    return median(run.round_seconds[number] for run in row.good)


def _memory(run: SiteRun) -> Lines:
    series = {
        name: [(look.at, (look.rss_bytes - run.used[name].base_bytes) / MIB)
               for look in run.used[name].looks]
        for name in PROCESSES
    }  # fmt: skip
    return Lines(f"{run.case.variant}: memory", "seconds", "MiB over base", series)


def _cpu(run: SiteRun) -> Lines:
    series = {name: _percents(run.used[name]) for name in PROCESSES}
    return Lines(f"{run.case.variant}: processor", "seconds", "% of a core", series)


def _percents(used: Used) -> list[tuple[float, float]]:
    kept: Sequence[Look] = used.looks[:: -(-len(used.looks) // CPU_STEPS) or 1]
    return [
        (later.at, 100 * (later.cpu_seconds - sooner.cpu_seconds) / (later.at - sooner.at))
        for sooner, later in pairwise(kept) if later.at > sooner.at
    ]  # fmt: skip
