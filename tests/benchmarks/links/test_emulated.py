"""Emulated lines that have all that a relay has, and losses: real TCP over them."""

from __future__ import annotations

import pytest

from benchmarks.links.accuracy import measure_line
from benchmarks.links.lines import parse_line
from benchmarks.longline.namespace import why_not

needs_root = pytest.mark.skipif(bool(why_not()), reason=why_not())


@needs_root
@pytest.mark.processes
def test_a_line_with_losses_has_its_rate_in_each_direction_and_its_delay() -> None:
    line = parse_line("up=8Mbit,down=24Mbit,20ms,jitter=5ms,stall=20ms/500ms,loss=0.01%")
    found = measure_line(line, 1.0)
    assert found.round_trip >= 0.02
    # Bounds from above only: a machine that is busy with something else carries less.
    assert 0 < found.rate <= 1.1 * 8e6
    assert 0 < found.down_rate <= 1.1 * 24e6
    assert found.lost is not None
    assert 0 <= found.lost < 0.01
