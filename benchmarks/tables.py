"""Tables of figures that are never cut: laid out for the width there is, or one under the other.

Rich makes columns narrower than what is in them, and ends a figure in an ellipsis ("0.8…"). Here a
column is as wide as the longest word in it; headings and cells are folded between words only. Where
even that does not fit, each row becomes a small block, a line for each figure.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

__all__ = ["print_table", "report_progress"]

_FRAME = 3  # cells between two columns: two of padding and a line


def print_table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print ``rows`` under ``columns``, the first one left-justified, and no figure cut."""
    # What goes to a file is as wide as it needs to be.
    room = console.width if console.is_terminal else 1 << 16
    widths = _widths(columns, rows, room)
    if widths is None:
        _print_blocks(console, columns, rows)
        return
    table = Table(width=sum(widths) + _FRAME * len(widths) + 1)
    for at, (heading, width) in enumerate(zip(columns, widths, strict=True)):
        justify: JustifyMethod = "right" if at else "left"
        table.add_column(Text(heading), justify=justify, width=width, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table, crop=False)


def report_progress(text: str) -> None:
    """Print one line of what a long run has done so far, beside what it prints in the end."""
    print(text, file=sys.stderr, flush=True)


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """Return the width of each column, all of them inside ``room``; None: they do not fit."""
    cells = [list(texts) for texts in zip(columns, *rows, strict=True)]
    least = [max(cell_len(word) for text in texts for word in text.split() or [""])
             for texts in cells]  # fmt: skip
    most = [max(map(cell_len, texts)) for texts in cells]
    spare = room - sum(least) - _FRAME * len(least) - 1
    if spare < 0:
        return None
    # The room that is left goes to the narrowest wishes first.
    for at in sorted(range(len(least)), key=lambda at: most[at] - least[at]):
        more = min(most[at] - least[at], spare)
        least[at], spare = least[at] + more, spare - more
    return least


def _print_blocks(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for row in rows:
        # Folded by the terminal, if at all: a figure that is long is whole in what is copied.
        console.print(row[0], markup=False, highlight=False, soft_wrap=True)
        for heading, figure in zip(columns[1:], row[1:], strict=True):
            text = f"  {heading}: {figure}"
            console.print(text, markup=False, highlight=False, soft_wrap=True)
