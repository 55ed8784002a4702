"""Emulated lines that have all that a relay has, and losses: real TCP over them."""

from __future__ import annotations

import pytest

from benchmarks.links.accuracy import measure_line
from benchmarks.links.lines import parse_line
from benchmarks.links.places import opened
from benchmarks.longline.namespace import why_not

needs_root = pytest.mark.skipif(bool(why_not()), reason=why_not())


@needs_root
@pytest.mark.processes
def test_a_line_with_losses_has_its_rate_in_each_direction_and_its_delay() -> None:
    found = measure_line(parse_line("up=8Mbit,down=24Mbit,20ms,jitter=5ms,loss=0.01%"), 1.0)
    assert found.round_trip >= 0.02
    # Bounds from above only: a machine that is busy with something else carries less.
    assert 0 < found.rate <= 1.1 * 8e6
    assert 0 < found.down_rate <= 1.1 * 24e6


@needs_root
@pytest.mark.processes
@pytest.mark.slow
def test_a_line_with_losses_stands_still_again_and_again() -> None:
    # Nine tenths of the time: what got through at full rate would be ten times as much.
    found = measure_line(parse_line("24Mbit,5ms,stall=900ms/1s,loss=0.01%"), 2.0)
    assert 0 < found.rate <= 0.35 * 24e6


def test_a_line_with_losses_needs_a_rate() -> None:
    reason = why_not()
    kind, text = (OSError, "has losses") if reason else (ValueError, "a rate in each direction")
    with pytest.raises(kind, match=text):
        opened(parse_line("up=1Mbit,loss=1%"))
