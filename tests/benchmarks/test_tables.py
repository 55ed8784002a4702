"""Tables of figures: whatever the width, every figure is there, whole."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from benchmarks.tables import print_table

COLUMNS = ("what", "throughput MB/s", "p50", "peak memory MiB", "against plain gRPC (10..90 %)")
ROWS = (
    ("streamlink, one tensor", "1834.52", "0.87", "194", "0.87x (0.84..0.91)"),
    ("plain grpcio", "2012.01", "0.81", "88", "1.00x (1.00..1.00)"),
)


def printed(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...], width: int = 0) -> str:
    """Return what a terminal of ``width`` shows; 0: what a file gets."""
    console = Console(file=io.StringIO(), force_terminal=bool(width), width=width or 80)
    print_table(console, columns, rows)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200])
def test_no_figure_is_cut_whatever_the_width(width: int) -> None:
    text = printed(COLUMNS, ROWS, width)
    for row in ROWS:
        for word in " ".join(row).split():
            assert word in text
    assert "…" not in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_table_stays_inside_the_terminal(width: int) -> None:
    lines = printed(COLUMNS, ROWS, width).splitlines()
    assert max(len(line) for line in lines if "\x1b" not in line) <= width


def test_a_file_gets_each_row_on_one_line() -> None:
    lines = printed(COLUMNS, ROWS).splitlines()
    for row in ROWS:
        assert sum(all(cell in line for cell in row) for line in lines) == 1


def test_where_no_table_fits_each_figure_has_its_line() -> None:
    lines = printed(COLUMNS, ROWS, 30).splitlines()
    assert lines[:3] == ["streamlink, one tensor", "  throughput MB/s: 1834.52", "  p50: 0.87"]


@given(width=st.integers(1, 120), figures=st.lists(st.floats(0, 1e15), min_size=1, max_size=12))
def test_any_figures_are_whole_in_any_width(width: int, figures: list[float]) -> None:
    row = ("row", *map(repr, figures))
    text = printed(("what", *(f"figure {n}" for n in range(len(figures)))), (row,), width)
    assert all(cell in text for cell in row)
