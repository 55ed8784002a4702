"""Lines that the kernel limits: two namespaces, and tbf between them."""

from __future__ import annotations

import os

import pytest

from benchmarks.links.accuracy import measure_line
from benchmarks.links.lines import parse_line
from benchmarks.links.places import opened
from benchmarks.links.shaped import ShapedPlace, why_not_shaped

needs_root = pytest.mark.skipif(bool(why_not_shaped()), reason=why_not_shaped())


@needs_root
@pytest.mark.processes
def test_a_socket_finds_no_more_than_the_rate_that_the_kernel_was_told() -> None:
    found = measure_line(parse_line("40Mbit,tbf"), 3.0)
    # tbf counts Ethernet frames, of which headers are about 4 %. A machine that is busy with
    # something else carries less; without tbf it would be a hundred times as much.
    assert 0 < found.rate <= 40e6


@needs_root
@pytest.mark.processes
def test_what_left_each_end_is_counted_and_nothing_stays_behind() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with opened(parse_line("up=8Mbit,down=16Mbit,tbf")) as place:
        assert isinstance(place, ShapedPlace)
        passed = place.passed()
        assert (passed.up, passed.down) == (0, 0)
        assert place.finish()["dropped"] == {"up": 0, "down": 0}
    assert len(os.listdir("/proc/self/fd")) == before
