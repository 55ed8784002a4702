"""Panels of lines: nothing of them is cut off, and no empty one is shown."""

import pytest

from streamlink.profiling.pictures import Lines, line_figure

pytest.importorskip("matplotlib", reason="needs streamlink-fl[plot]")


def panel(highest: float, unit: str = "MB") -> Lines:
    return Lines("memory", "s", unit, {"server": [(0.0, 1.0), (1.0, highest)]})


def test_panels_of_a_row_share_a_scale_that_has_all_their_lines() -> None:
    axes = line_figure(panel(10), panel(500), panel(3)).axes
    for axis in axes[:2]:
        low, high = axis.get_ylim()
        assert low == 0
        assert high >= 500
    assert axes[2].get_ylim()[1] < 10  # a row of its own


def test_panels_of_different_units_have_scales_of_their_own() -> None:
    first, second = line_figure(panel(10), panel(500, "%")).axes
    assert first.get_ylim()[1] < 20
    assert second.get_ylim()[1] >= 500


def test_a_place_without_a_panel_is_not_shown() -> None:
    assert [axis.get_visible() for axis in line_figure(panel(1), panel(2), panel(3)).axes] == [
        *(True, True, True),
        False,
    ]
