"""Draws the progress of many transfers: one bar each while they fit, one line for the others.

Pure functions without state or clock: ``board`` returns the lines for one moment. Figures are never
cut. On a narrow terminal it omits the bar first, then the remaining time, then the end of the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from streamlink.logs import escape

__all__ = ["Row", "board", "size", "span", "summed"]

_GAP = 2
_LEAST_BAR = 4
_MOST_BAR = 40
_LEAST_ROOM = 16  # for the name and the words
_LEAST_WORDS = 6


@dataclass(frozen=True, slots=True)
class Row:
    """How far one transfer is. Bytes; seconds."""

    name: str
    """An arrow and the peer."""
    words: str
    """What there is to say beside the figures."""
    done: int
    total: int
    """0: not known."""
    rate: float = 0.0
    """Bytes per second; 0: nothing moves."""

    @property
    def is_complete(self) -> bool:
        """Whether every byte was moved."""
        return 0 < self.total <= self.done

    @property
    def seconds_left(self) -> float | None:
        """At this rate; None: nobody can say."""
        if not self.rate or self.is_complete or not self.total:
            return None
        return (self.total - self.done) / self.rate


def board(headline: str, rows: Sequence[Row], *, width: int, height: int) -> list[Text]:
    """Return at most ``height`` lines, of at most ``width`` cells each."""
    above = escape(headline)
    lines = [Text(_cut(above, min(width, cell_len(above))), no_wrap=True)] if headline else []
    return lines + _drawn(_fitting(rows, height - len(lines)), width)


def summed(rows: Sequence[Row], name: str) -> Row:
    """Return one row for many: what they moved, and how many are done."""
    done = sum(row.is_complete for row in rows)
    return Row(
        name,
        f"{done} of {len(rows)} done",
        sum(row.done for row in rows),
        sum(row.total for row in rows),
        sum(row.rate for row in rows if not row.is_complete),
    )


def _fitting(rows: Sequence[Row], height: int) -> list[Row]:
    """Return what fits, those that move first, and the sum of the others; the order stays."""
    if len(rows) <= height:
        return list(rows)
    # By rank which are shown, by position where: bars that change places cannot be read.
    by_interest = sorted(range(len(rows)), key=lambda at: _interest(rows[at]))
    shown = sorted(by_interest[: max(0, height - 1)])
    rest = [rows[at] for at in sorted(by_interest[max(0, height - 1) :])]
    return [rows[at] for at in shown] + [summed(rest, f"{len(rest)} more")]


def _interest(row: Row) -> int:
    return 2 if row.is_complete else 0 if row.rate else 1


@dataclass(frozen=True, slots=True)
class _Columns:
    """How wide each part of a line is; 0: it is left out."""

    name: int
    words: int
    bar: int
    figures: tuple[int, ...]


def _drawn(rows: Sequence[Row], width: int) -> list[Text]:
    columns = _columns(rows, width)
    return [_line(row, columns) for row in rows]


def _columns(rows: Sequence[Row], width: int) -> _Columns:
    figures = [_widest([figure(row) for row in rows]) for figure in _FIGURES]
    room = width - sum(each + _GAP for each in figures if each)
    if room < _LEAST_ROOM:  # bytes are worth more than a guess of the time
        room, figures[-1] = room + figures[-1] + _GAP, 0
    names, words = (
        _widest([escape(text) for text in texts])
        for texts in ([row.name for row in rows], [row.words for row in rows])
    )
    name = min(names, max(1, room // 2))
    least, words = min(words, _LEAST_WORDS), min(words, room - name - _GAP)
    if words < least or words < 0:
        name, words = min(names, max(1, room)), 0
    room -= name + _GAP + (words + _GAP if words else 0)
    return _Columns(name, words, min(_MOST_BAR, room) * (room >= _LEAST_BAR), tuple(figures))


def _line(row: Row, columns: _Columns) -> Text:
    line, gap = Text(_cut(escape(row.name), columns.name), no_wrap=True), " " * _GAP
    if columns.words:
        line.append(gap + _cut(escape(row.words), columns.words))
    if columns.bar:
        line.append(gap).append_text(_bar(row, columns.bar))
    for figure, cells in zip(_FIGURES, columns.figures, strict=True):
        if cells:
            line.append(gap + figure(row).rjust(cells))
    line.rstrip()
    return line


def _widest(texts: Sequence[str]) -> int:
    return max(map(cell_len, texts), default=0)


def _cut(text: str, cells: int) -> str:
    """Return ``text`` in so many cells; an ellipsis where it does not fit."""
    if cell_len(text) > cells > 1:
        return set_cell_size(text, cells - 1) + "…"
    return set_cell_size(text, cells)


def _bar(row: Row, cells: int) -> Text:
    full = cells if row.is_complete else cells * row.done // row.total if row.total else 0
    full = min(cells, full)
    style = "bar.finished" if row.is_complete else "bar.complete"
    return Text("━" * full, style).append("─" * (cells - full), "bar.back")


def _far(row: Row) -> str:
    if not row.total:
        return size(row.done)
    # Rounded down: 100% is said of what is whole, and of nothing else.
    return f"{100 * min(row.done, row.total) // row.total}% of {size(row.total)}"


def _speed(row: Row) -> str:
    return f"{size(row.rate)}/s" if row.rate else ""


def _left(row: Row) -> str:
    return "" if row.seconds_left is None else span(row.seconds_left)


_FIGURES = (_far, _speed, _left)


def size(nbytes: float) -> str:
    """Return a size as people say it: ``1.3 GB``, a thousand to each step."""
    for unit in ("B", "kB", "MB", "GB"):
        # Not 1000: what rounds to 1000.0 belongs to the next unit.
        if nbytes < 999.95 or (unit == "B" and nbytes < 999.5):
            return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.1f} TB"


def span(seconds: float) -> str:
    """Return a span as clocks show it: ``1:02:03`` or ``2:03``; days where there are any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 100:
        return f"{hours // 24} d"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
