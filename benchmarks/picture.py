"""Draws a run's report: memory, and CPU where it was recorded, over time, for every process.

``python -m benchmarks.picture REPORT.json PICTURE.png``. The horizontal lines are each process's
base and its stated limit: the base plus what it may use by computation. No screen is needed.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Annotated, Any

import matplotlib as mpl
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["draw", "limits"]

MIB = 1 << 20
POINTS = 1500  # more than a picture has columns; keeps the file small
CPU_POINTS = 300
PEAK_KEYS = {"server": "server_peak_bytes", "client": "client_peak_bytes"}


def draw(report: dict[str, Any], path: Path) -> None:
    """Write one PNG with a row of panels per process: memory left, CPU right where recorded.

    Args:
        report: as the large-model example writes it; each of its ``processes`` has ``rss``
            (pairs of seconds and bytes) and may have ``cpu`` (pairs of seconds and CPU seconds used
            so far) and ``limit_bytes`` (resident memory that it must not exceed).
        path: the PNG file.
    """
    processes = report["processes"]
    columns = 2 if any(process.get("cpu") for process in processes) else 1
    figure = Figure(figsize=(5.5 * columns, 0.7 + 1.8 * len(processes)), layout="constrained")
    panels = figure.subplots(len(processes), columns, sharex=True, squeeze=False)
    bounds = limits(report)
    for process, axes in zip(processes, panels, strict=True):
        _draw_memory(axes[0], process, bounds.get(process["name"]))
        if columns == 2:
            _draw_cpu(axes[1], process)
    for axis in panels[-1]:
        axis.set_xlabel("seconds")
    figure.suptitle(_title(report), fontsize=9)
    with mpl.rc_context({"path.simplify": True}):
        figure.savefig(path, format="png", dpi=90)


def limits(report: dict[str, Any]) -> dict[str, int]:
    """Return the resident memory each process must not exceed (bytes), for those with a limit."""
    found: dict[str, int] = {}
    for process in report["processes"]:
        over_base = report.get(PEAK_KEYS.get(process["role"], ""))
        if "limit_bytes" in process:
            found[process["name"]] = int(process["limit_bytes"])
        elif over_base is not None:
            found[process["name"]] = int(process["base_rss_bytes"]) + int(over_base)
    return found


def _draw_memory(axis: Axes, process: dict[str, Any], limit_bytes: int | None) -> None:
    seconds, nbytes = _thinned(process["rss"])
    mebibytes = [value / MIB for value in nbytes]
    axis.plot(seconds, mebibytes, color="tab:blue", linewidth=1)
    axis.fill_between(seconds, mebibytes, color="tab:blue", alpha=0.12, linewidth=0)
    _level(axis, int(process["base_rss_bytes"]), "base", "tab:gray")
    if limit_bytes is not None:
        _level(axis, limit_bytes, "limit", "tab:red")
    highest = max([*mebibytes, (limit_bytes or 0) / MIB, int(process["base_rss_bytes"]) / MIB])
    axis.set_ylim(0, 1.2 * highest)  # room for the words above the highest line
    axis.set_ylabel("memory, MiB", fontsize=8)
    peak = int(process["peak_rss_bytes"]) / MIB
    axis.set_title(f"{process['name']}: peak {peak:.0f} MiB", fontsize=9, loc="left")
    axis.grid(alpha=0.25)


def _draw_cpu(axis: Axes, process: dict[str, Any]) -> None:
    seconds, percent = _percent_of_a_core(process.get("cpu") or [])
    axis.plot(seconds, percent, color="tab:green", linewidth=1)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("CPU, % of a core", fontsize=8)
    used = float(process.get("cpu_seconds", 0.0))
    axis.set_title(f"{process['name']}: {used:.1f} CPU s", fontsize=9, loc="left")
    axis.grid(alpha=0.25)


def _level(axis: Axes, nbytes: int, word: str, color: str) -> None:
    axis.axhline(nbytes / MIB, color=color, linewidth=1, linestyle="--")
    axis.annotate(
        f"{word} {nbytes / MIB:.0f}",
        (1.0, nbytes / MIB),
        xycoords=("axes fraction", "data"),
        xytext=(-3, 2),
        textcoords="offset points",
        ha="right",
        fontsize=7,
        color=color,
    )


def _thinned(pairs: list[list[float]]) -> tuple[list[float], list[float]]:
    # The largest value of each group stays: a thinned curve must not lose its peaks.
    group = -(-len(pairs) // POINTS) or 1
    kept = [
        max(pairs[first : first + group], key=lambda pair: pair[1])
        for first in range(0, len(pairs), group)
    ]
    return [pair[0] for pair in kept], [pair[1] for pair in kept]


def _percent_of_a_core(pairs: list[list[float]]) -> tuple[list[float], list[float]]:
    # Fewer points than for memory: the kernel counts CPU time in steps of 10 ms.
    kept = pairs[:: -(-len(pairs) // CPU_POINTS) or 1]
    steps = [(a, b) for a, b in itertools.pairwise(kept) if b[0] > a[0]]
    return [b[0] for _, b in steps], [100 * (b[1] - a[1]) / (b[0] - a[0]) for a, b in steps]


def _title(report: dict[str, Any]) -> str:
    gigabytes = report["model_bytes"] / 1e9
    return (
        f"{report['keys']} keys, {gigabytes:.2f} GB in all, {report['clients']} clients, "
        f"{report['rounds']} rounds, {report['seconds']:.0f} s, commit {report['commit']}"
    )


def main(
    report: Annotated[Path, typer.Argument(help="Report of a run, JSON.")],
    picture: Annotated[Path, typer.Argument(help="PNG file to write.")],
) -> None:
    """Draw memory and CPU over time from a run's report."""
    draw(json.loads(report.read_text(encoding="utf-8")), picture)


if __name__ == "__main__":
    typer.run(main)
