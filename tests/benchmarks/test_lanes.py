"""One direction of the relay by itself: rate, order and settings, with time as a number."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.lanes import Lane, Link

MB = 1_000_000


@given(
    st.integers(1000, 10**9),
    st.lists(st.tuples(st.floats(0, 0.1), st.integers(1, 1 << 18)), min_size=1, max_size=50),
)
def test_a_lane_never_exceeds_its_bandwidth_and_keeps_the_order(
    bandwidth: int, sends: list[tuple[float, int]]
) -> None:
    lane, now, dues = Lane(Link(bandwidth=bandwidth, jitter=0.01)), 1000.0, []
    for wait, nbytes in sends:
        now += wait
        dues.append(lane.due_at(nbytes, now=now))
        assert dues[-1] >= now
    total = sum(nbytes for _, nbytes in sends)
    assert dues[-1] - 1000.0 >= total / bandwidth - 0.005 - 1e-6
    assert all(earlier <= later for earlier, later in pairwise(dues))


@pytest.mark.parametrize("bandwidth", [10_000, 10 * MB, 125 * MB])
def test_a_busy_lane_keeps_its_rate_within_two_percent(bandwidth: int) -> None:
    lane, piece = Lane(Link(bandwidth=bandwidth)), Link(bandwidth=bandwidth).piece_bytes
    sent, due_at = 0, 1000.0
    while due_at < 1001.0:
        due_at = lane.due_at(piece, now=min(due_at, 1000.5))
        sent += piece
    assert sent / (due_at - 1000.0) == pytest.approx(bandwidth, rel=0.02)


@pytest.mark.parametrize(
    "wrong", [{"delay": -1.0}, {"jitter": -1.0}, {"bandwidth": 0.0}, {"slice_bytes": 0}]
)
def test_a_line_over_which_nothing_could_pass_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="Link"):
        Link(**wrong)  # type: ignore[arg-type]
