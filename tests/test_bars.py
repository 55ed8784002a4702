"""What a terminal shows of many transfers: what fits, and the rest in one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from streamlink.bars import Row, board, size, span, summed

GB = 1_000_000_000
HELD = Row("← site-12", "held for site-2", 13 * GB // 10, 4 * GB, 512.3e6)


def shown(*rows: Row, headline: str = "", width: int = 80, height: int = 24) -> list[str]:
    return [line.plain for line in board(headline, rows, width=width, height=height)]


def of_clients(count: int) -> list[Row]:
    """Return the rows of a round in which every model is down and the updates are on their way."""
    down = [Row(f"→ site-{n}", "", 4 * GB, 4 * GB, 50e6) for n in range(1, count + 1)]
    up = [Row(f"← site-{n}", "", n * GB // 10, 4 * GB, n * 1e6) for n in range(1, count + 1)]
    return [row for pair in zip(down, up, strict=True) for row in pair]


def test_a_line_has_the_peer_the_words_a_bar_and_the_figures() -> None:
    line = "← site-12  held for site-2  ━━━━━━─────────────  32% of 4.0 GB  512.3 MB/s  0:05"
    (found,) = shown(HELD)
    assert found == line


def test_above_the_bars_stands_the_round() -> None:
    head = "job 'job': round 1 (2 of 5), gathering"
    assert shown(HELD, headline=head)[0] == head


def test_what_does_not_fit_is_summed_up_in_one_line() -> None:
    lines = shown(*of_clients(16), headline="round 2 of 5", height=24)
    assert len(lines) == 24
    assert lines[0] == "round 2 of 5"
    assert lines[-1].startswith("10 more")
    assert "10 of 10 done" in lines[-1]
    assert "100% of 40.0 GB" in lines[-1]


def test_what_moves_is_shown_before_what_is_done() -> None:
    lines = shown(*of_clients(16), height=17)
    assert [line.split()[1] for line in lines[:-1]] == [f"site-{n}" for n in range(1, 17)]
    assert all(line.startswith("←") for line in lines[:-1])


def test_the_sum_has_the_rate_of_those_that_move() -> None:
    row = summed(of_clients(4), "8 more")
    assert (row.words, row.done, row.total) == ("4 of 8 done", 17 * GB, 32 * GB)
    assert row.rate == 10e6


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 200])
def test_a_narrow_terminal_loses_no_figure_of_bytes(width: int) -> None:
    for line in shown(HELD, width=width):
        assert "32% of 4.0 GB" in line or width < 30
        assert cell_len(line) <= max(width, 30)


def test_a_narrow_terminal_loses_the_bar_first_and_then_the_end_of_the_words() -> None:
    figures = "32% of 4.0 GB  512.3 MB/s  0:05"
    assert shown(HELD, width=60) == [f"← site-12  held for site-2  {figures}"]
    assert shown(HELD, width=50) == [f"← site-…  held f…  {figures}"]


def test_short_words_are_shown_too() -> None:
    assert "done" in shown(Row("← a", "done", 4 * GB, 4 * GB))[0]


def test_an_unknown_total_is_drawn_without_one() -> None:
    (line,) = shown(Row("← a", "committing", 3_000_000, 0, 1e6))
    assert line.split() == ["←", "a", "committing", *["─" * 40], "3.0", "MB", "1.0", "MB/s"]


def test_a_peers_name_cannot_draw_on_the_terminal() -> None:
    (line,) = shown(Row("→ [red]\x1b[2Jx", "", 1, 2))
    assert r"[red]\x1b[2Jx" in line


def test_all_of_it_is_said_of_what_is_whole_and_of_nothing_else() -> None:
    assert "99% of 4.0 GB" in shown(Row("→ a", "", 4 * GB - 1, 4 * GB))[0]


@given(
    count=st.integers(0, 40), width=st.integers(1, 250), height=st.integers(1, 60),
    name=st.text(max_size=30),
)  # fmt: skip
def test_whatever_the_terminal_nothing_runs_over_its_height_and_every_transfer_counts(
    count: int, width: int, height: int, name: str
) -> None:
    rows = [Row(f"→ {name}{n}", "held for x", n, 100, float(n)) for n in range(count)]
    lines = shown(*rows, headline="round 0", width=width, height=height)
    assert len(lines) <= max(height, 2)
    assert len(lines) - 1 >= min(count, 1)


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_960, "1.0 MB"), (4.29e9, "4.3 GB"),
     (5e15, "5000.0 TB")],
)  # fmt: skip
def test_sizes_are_as_people_say_them(nbytes: float, text: str) -> None:
    assert size(nbytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (59.6, "1:00"), (3723, "1:02:03"), (359_999, "99:59:59"), (1e6, "11 d")],
)
def test_spans_are_as_clocks_show_them(seconds: float, text: str) -> None:
    assert span(seconds) == text
