"""Consecutive bytes of a model."""

from __future__ import annotations

import pytest

from streamlink.extent import Extent


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (3, 2)])
def test_an_extent_begins_before_it_ends_and_at_no_negative_byte(start: int, stop: int) -> None:
    with pytest.raises(ValueError, match="is no range"):
        Extent(start, stop)


def test_an_extent_may_be_empty_and_is_told_as_a_half_open_range() -> None:
    assert Extent(4, 4).nbytes == 0
    assert str(Extent(4, 9)) == "[4, 9)"
