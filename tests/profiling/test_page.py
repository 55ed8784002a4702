"""The page is one file."""

import re
from pathlib import Path

from streamlink.profiling.page import Page, Picture, Table
from streamlink.profiling.pictures import Bars, Point, draw_bars, draw_points


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
