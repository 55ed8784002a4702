from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import StoreError
from streamlink.model.ranges import RangeSet, require_complete
from tests.support.models import float_spec

RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=30)


@given(added=RANGES, asked=st.tuples(st.integers(0, 50), st.integers(0, 50)))
def test_it_agrees_with_a_set_of_integers(
    added: list[tuple[int, int]], asked: tuple[int, int]
) -> None:
    ranges, numbers = RangeSet(), set[int]()
    for start, length in added:
        ranges.add(start, start + length)
        numbers |= set(range(start, start + length))
    assert {n for start, stop in ranges for n in range(start, stop)} == numbers
    assert ranges.total == len(numbers)
    assert ranges.contains(*asked) == numbers.issuperset(range(*asked))
    assert ranges.is_complete(asked[0]) == numbers.issuperset(range(asked[0]))
    gaps = {n for start, stop in ranges.gaps(asked[0]) for n in range(start, stop)}
    assert gaps == set(range(asked[0])) - numbers


@given(added=RANGES)
def test_its_ranges_are_apart_and_ascending(added: list[tuple[int, int]]) -> None:
    ranges = RangeSet()
    for start, length in added:
        ranges.add(start, start + length)
    edges = [edge for pair in ranges for edge in pair]
    assert edges == sorted(set(edges))


def test_what_comes_in_order_is_one_range() -> None:
    ranges = RangeSet()
    for start in range(100):
        ranges.add(start, start + 1)
    assert list(ranges) == [(0, 100)]
    ranges.clear()
    assert len(ranges) == 0


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (4, 3)])
def test_what_is_no_range_is_refused(start: int, stop: int) -> None:
    with pytest.raises(ValueError, match="is no range"):
        RangeSet().add(start, stop)


def test_a_gap_is_named_by_its_tensor() -> None:
    written = RangeSet()
    written.add(0, 9)
    require_complete(written, float_spec(2))
    with pytest.raises(StoreError, match=r"9 of 12 bytes .* byte 1 of tensor 't1'"):
        require_complete(written, float_spec(2, 1))
