"""Pictures that experiments share: bars in groups, points and lines, as PNG files.

No screen is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Bars", "Lines", "Point", "draw_bars", "draw_lines", "draw_points", "line_figure"]

_COLORS = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860")
_DPI = 110
_LEGEND_CHARS = 64
"""What stands beside each other in a legend, names and marks."""


@dataclass(frozen=True, slots=True)
class Bars:
    """One panel of bars: a group for each label, a colour for each series."""

    title: str
    unit: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[float | None]]
    """A value for each group; ``None`` leaves a gap with a cross."""
    first_color: int = 0
    """Of the first series, so that a name has the same colour in all pictures."""


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a scatter plot."""

    series: str
    label: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Lines:
    """One panel of lines."""

    title: str
    x_unit: str
    y_unit: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    """The points of each line, x and y."""
    has_log_x: bool = False
    """Whether x doubles at each mark; it then has a mark for each point."""
    marks: Mapping[float, str] | None = None
    """What to write at values of x; ``None``: the numbers."""


def draw_bars(path: Path, *panels: Bars, width: float = 6.2) -> None:
    """Write a PNG with the panels side by side, each ``width`` inches wide."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * len(panels), 4.2), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, panel in zip(axes, panels, strict=True):
        _bars(axis, panel)
    figure.savefig(path, format="png", dpi=_DPI)


def draw_points(path: Path, title: str, x_unit: str, y_unit: str, points: Sequence[Point]) -> None:
    """Write a PNG of points, those of one series joined and in one colour."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.8, 4.6), layout="constrained")
    axis = figure.subplots()
    names = list(dict.fromkeys(each.series for each in points))
    for name, color in zip(names, _COLORS, strict=False):
        own = [each for each in points if each.series == name]
        xs, ys = [each.x for each in own], [each.y for each in own]
        axis.plot(xs, ys, marker="o", color=color, label=name)
        for each in own:
            axis.annotate(
                each.label, (each.x, each.y), xytext=(5, 4), textcoords="offset points", fontsize=8
            )
    axis.set_title(title, fontsize=11)
    axis.set_xlabel(x_unit)
    axis.set_ylabel(y_unit)
    axis.grid(alpha=0.25)
    if names:
        axis.legend(fontsize=8)
    figure.savefig(path, format="png", dpi=_DPI)


def draw_lines(path: Path, *panels: Lines, columns: int = 2) -> None:
    """Write a PNG with the panels in rows of ``columns``, as ``line_figure`` makes them."""
    line_figure(*panels, columns=columns).savefig(path, format="png", dpi=_DPI)


def line_figure(*panels: Lines, columns: int = 2) -> Figure:
    """Return the panels in rows of ``columns``.

    Panels of one row with the same unit share the scale of y, so that heights can be compared.
    """
    from matplotlib.figure import Figure

    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(6.2 * columns, 3.4 * rows), layout="constrained")
    is_same = len({each.y_unit for each in panels}) == 1
    grid = figure.subplots(rows, columns, squeeze=False, sharey="row" if is_same else False)
    axes = list(grid.flat)
    for axis, panel in zip(axes, panels, strict=False):
        _lines(axis, panel)
    # Once all lines are there: it fixes the scale, which a row shares.
    for axis in axes[: len(panels)]:
        axis.set_ylim(bottom=0)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    return figure


def _lines(axis: object, panel: Lines) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axis, Axes)
    for (name, points), color in zip(panel.series.items(), _COLORS, strict=False):
        marker = "o" if panel.has_log_x else None
        axis.plot(*zip(*points, strict=True), color=color, label=name, marker=marker, linewidth=1.4)
    if panel.has_log_x:
        axis.set_xscale("log", base=2)
    if panel.marks is not None:
        axis.set_xticks(list(panel.marks), list(panel.marks.values()))
    axis.set_xlabel(panel.x_unit)
    axis.set_ylabel(panel.y_unit)
    axis.grid(alpha=0.25)
    _head(axis, panel.title, list(panel.series))


def _head(axis: object, title: str, names: Sequence[str]) -> None:
    """Write the title, and the legend under it: inside the panel it would hide what is drawn."""
    from matplotlib.axes import Axes

    assert isinstance(axis, Axes)
    longest = max((len(name) for name in names), default=0)
    columns = max(1, min(len(names), _LEGEND_CHARS // (longest + 6)))
    rows = -(-len(names) // columns)
    axis.set_title(title, fontsize=11, loc="left", pad=6 + 13 * rows)
    if names:
        axis.legend(
            fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, frameon=False,
            borderaxespad=0.1, borderpad=0.2, labelspacing=0.2,
        )  # fmt: skip


def _bars(axis: object, panel: Bars) -> None:
    width = 0.8 / max(1, len(panel.series))
    for number, (name, values) in enumerate(panel.series.items()):
        color = _COLORS[(panel.first_color + number) % len(_COLORS)]
        places = [at + (number - (len(panel.series) - 1) / 2) * width for at in range(len(values))]
        heights = [value or 0.0 for value in values]
        drawn = axis.bar(places, heights, width * 0.92, color=color, label=name)  # type: ignore[attr-defined]
        marks = ["×" if value is None else _short(value) for value in values]
        axis.bar_label(drawn, marks, fontsize=7, padding=1)  # type: ignore[attr-defined]
    _frame(axis, panel)


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _frame(axis: object, panel: Bars) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axis, Axes)
    axis.set_xticks(range(len(panel.groups)), panel.groups)
    axis.set_ylabel(panel.unit)
    axis.margins(y=0.12)
    axis.grid(axis="y", alpha=0.25)
    axis.set_axisbelow(True)
    _head(axis, panel.title, list(panel.series))
