"""What is read off a measured line."""

from __future__ import annotations

import pytest

from streamlink.probing.measured import RoundTrips
from tests.probing.lines import a_line


def test_round_trips_keep_the_lowest_the_median_and_the_highest() -> None:
    assert RoundTrips.of([0.3, 0.1, 0.2]) == RoundTrips(0.1, 0.2, 0.3, 3)
    with pytest.raises(ValueError, match="no round trip"):
        RoundTrips.of([])


def test_several_connections_count_for_the_fastest_and_not_for_the_slowest() -> None:
    line = a_line(1e6, gain=2.5)
    assert (line.fastest, line.slowest) == (2.5e6, 1e6)
    assert line.gain_of_several == pytest.approx(2.5)
