"""The pictures of a page: rates, shares of a raw socket, memory over time, time against size."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from benchmarks.links.cases import MIB, Case, Run
from benchmarks.links.lines import Line
from benchmarks.links.plans import NOT_FOR, RAW
from benchmarks.links.savings import saved_shares
from benchmarks.links.sizes import large_of, seconds_per_gb
from benchmarks.links.tables import Row
from streamlink.profiling.page import Picture
from streamlink.profiling.pictures import Bars, Lines, draw_bars, draw_lines

__all__ = [
    "file_name",
    "large_picture",
    "memory_pictures",
    "rate_pictures",
    "saved_picture",
    "size_picture",
]

WIDTH = 11.0
BAR_INCHES = 1.2
SIDES = {"send": "sender", "receive": "receiver"}


def rate_pictures(rows: Sequence[Row], folder: Path) -> list[Picture]:
    """Draw for each line how fast each peer was, and its share of a raw socket."""
    found: list[Picture] = []
    for line, group in groupby(rows, key=lambda row: row.case.line):
        of_line = list(group)
        for name, unit, value in (
            ("rate", "MB/s", lambda row: row.rate and row.rate / 1e6),
            ("share", "share of a raw socket", lambda row: row.share),
        ):
            path = folder / f"{name}-{file_name(line)}.png"
            _draw(path, f"{line}: {unit}", unit, of_line, value)
            found.append(Picture(path, f"{line}: {unit}, medians; a cross: failed, or not there"))
    return found


def memory_pictures(rows: Sequence[Row], folder: Path) -> list[Picture]:
    """Draw for the largest model of each line the memory of both ends over time, peer by peer."""
    found: list[Picture] = []
    for line, group in groupby(rows, key=lambda row: row.case.line):
        runs = [row.good[-1] for row in group if row.good]
        if not runs:
            continue
        largest = max((run.case.payload for run in runs), key=lambda each: each.size_bytes)
        of_largest = [run for run in runs if run.case.payload == largest]
        # The most memory first: panels of a row share their scale, so those of small ones are low.
        panels = [_memory(run) for run in sorted(of_largest, key=_peak, reverse=True)]
        path = folder / f"memory-{file_name(line)}.png"
        draw_lines(path, *panels, columns=2)
        caption = f"{line}, {largest}: memory over base"
        found.append(Picture(path, caption))
    return found


def size_picture(rows: Sequence[Row], folder: Path) -> list[Picture]:
    """Draw the time against the size of the model, where a line has several; else nothing."""
    panels: list[Lines] = []
    for line, group in groupby(rows, key=lambda row: row.case.line):
        of_line = [row for row in group if row.good]
        arrays = min((row.case.payload.arrays for row in of_line), default=1)
        series: dict[str, list[tuple[float, float]]] = {}
        for row in of_line:
            if row.case.payload.arrays == arrays:
                point = (row.case.payload.size_bytes / MIB, _seconds(row))
                series.setdefault(row.case.peer, []).append(point)
        if any(len(points) > 1 for points in series.values()):
            panels += _sized(line, series)
    if not panels:
        return []
    path = folder / "sizes.png"
    draw_lines(path, *panels, columns=min(2, len(panels)))
    return [Picture(path, "Time against the size of the model, medians")]


def saved_picture(rows: Sequence[Row], folder: Path) -> list[Picture]:
    """Draw the bytes that travelled with each encoding, as a share of the model's."""
    shares = saved_shares(rows)
    encodings = list(dict.fromkeys(name for found in shares.values() for name in found))
    series = {kind: [found.get(name) for name in encodings] for kind, found in shares.items()}
    path = folder / "saved.png"
    draw_bars(path, Bars("Bytes on the wire of those of the model", "share", encodings, series),
              width=WIDTH / 2)  # fmt: skip
    return [Picture(path, f"What travels with each encoding; {_crosses(shares)}")]


def _crosses(shares: Mapping[str, Mapping[str, float | None]]) -> str:
    """Return what a cross means: most of them that an encoding does not apply."""
    none = [f"{' and '.join(names)} do not apply to {kind.removeprefix('weights, ')} (a cross)"
            for kind, names in NOT_FOR.items() if kind in shares]  # fmt: skip
    return "; ".join([*none, "another cross: not measured" if none else "a cross: not measured"])


def large_picture(rows: Sequence[Row], folder: Path) -> list[Picture]:
    """Draw the seconds for each GB against the size of a computed model."""
    found = large_of(rows)
    points = [(row.case.payload.size_bytes / 1e9, seconds_per_gb(row)) for row in found]
    marks = {size: f"{size:g}" for size, _ in points}
    path = folder / "large.png"
    title, series = "Computed models over loopback", {"streamlink": points}
    panel = Lines(title, "GB", "seconds per GB", series, has_log_x=True, marks=marks)
    draw_lines(path, panel, columns=1)
    return [Picture(path, "Seconds for each GB against the size of the model, medians")]


def file_name(of: object) -> str:
    """Return a line or variant as a part of a file's name."""
    return re.sub(r"[^\w.]+", "-", str(of)).strip("-")


def _draw(path: Path, title: str, unit: str, rows: Sequence[Row], value: object) -> None:
    """Draw bars: a group for each peer, a colour for each shape of the model."""
    assert callable(value)
    peers = list(dict.fromkeys(row.case.peer for row in rows))
    shapes = list(dict.fromkeys(row.case.payload for row in rows))
    of_case = {row.case: value(row) for row in rows}
    line = rows[0].case.line
    series = {
        str(shape): [of_case.get(Case(peer, line, shape)) for peer in peers] for shape in shapes
    }
    names = [peer.replace(", ", "\n").replace(" ", "\n") for peer in peers]
    width = max(WIDTH / 2, BAR_INCHES * len(peers))
    draw_bars(path, Bars(title, unit, names, series), width=width)


def _peak(run: Run) -> int:
    moments = [each.over_base_bytes for side in run.sides.values() for each in side.moments]
    return max(moments, default=0)


def _memory(run: Run) -> Lines:
    series = {
        SIDES[role]: [(each.at, each.over_base_bytes / MIB) for each in side.moments]
        for role, side in run.sides.items()
        if side.moments
    }
    return Lines(run.case.peer, "seconds", "MiB over base", series)


def _sized(line: Line, series: dict[str, list[tuple[float, float]]]) -> list[Lines]:
    """Return a panel, or more where there are more peers than colours; the raw socket is in all."""
    others = [name for name in series if name != RAW]
    groups = [others[at : at + 5] for at in range(0, len(others), 5)] or [[]]
    marks = {size: f"{size:g}" for points in series.values() for size, _ in points}
    return [
        Lines(
            str(line), "MiB", "seconds",
            {name: sorted(series[name]) for name in (RAW, *group) if name in series},
            has_log_x=True, marks=marks,
        )
        for group in groups
    ]  # fmt: skip


def _seconds(row: Row) -> float:
    return row.case.payload.size_bytes / row.rate if row.rate else 0.0
