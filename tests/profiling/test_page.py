"""The page is one file."""

import re
from pathlib import Path

import pytest

from streamlink.profiling.page import Links, Notes, Page, Picture, Table
from streamlink.profiling.pictures import Bars, Lines, Point, draw_bars, draw_lines, draw_points


def test_a_page_has_its_pictures_inside_and_fetches_nothing(tmp_path: Path) -> None:
    bars, points = tmp_path / "bars.png", tmp_path / "points.png"
    draw_bars(bars, Bars("memory", "MB", ["1024"], {"a": [1.0], "b": [None]}))
    draw_points(points, "both", "s", "MB", [Point("a", "1024", 1.0, 2.0)])
    parts = (Picture(bars, "bars"), Picture(points, "points"))
    text = Page("title", "about", ["found"], parts).html()
    assert text.count('src="data:image/png;base64,') == 2
    assert not re.search(r"https?://|<script|<link", text)


def test_what_a_result_says_cannot_become_markup() -> None:
    table = Table("<b>", ["<i>"], [["<script>"]])
    text = Page("<t>", "<a>", ["<f>"], (table,)).html()
    assert not [tag for tag in ("<b>", "<i>", "<script>", "<t>", "<a>", "<f>") if tag in text]


def test_links_and_notes_cannot_become_markup_and_links_lead_beside_the_page() -> None:
    parts = (
        Notes("<h>", ["<script>"]),
        Links("<l>", [("<b>", [("<i>", 'sub folder/a"b.html')])]),
    )
    text = Page("t", "a", [], parts).html()
    assert not [tag for tag in ("<h>", "<script>", "<l>", "<b>", "<i>") if tag in text]
    assert 'href="sub%20folder/a%22b.html"' in text


def test_only_the_columns_of_words_are_aligned_as_such() -> None:
    text = Table("t", ["name", "MB"], [["a", "1"]], text_columns=1).html()
    assert "<td class=text>a</td><td>1</td>" in text


@pytest.mark.slow
def test_lines_are_drawn_in_rows_of_panels(tmp_path: Path) -> None:
    panel = Lines("peak", "size", "MB", {"a": [(1.0, 2.0), (4.0, 3.0)]}, True, {1.0: "1", 4.0: "4"})
    one, three = tmp_path / "one.png", tmp_path / "three.png"
    draw_lines(one, panel, columns=1)
    draw_lines(three, panel, panel, panel)
    assert height(three) == 2 * height(one)


def height(picture: Path) -> int:
    return int.from_bytes(picture.read_bytes()[20:24], "big")  # of the PNG's header
