"""What a message is travels as its tag."""

from __future__ import annotations

import pytest

from streamlink.transport.mpi.tags import Kind, Tag, numbers_within

SMALLEST_THAT_MPI_PROMISES = 32767


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("is_up", [False, True])
def test_a_tag_says_which_call_which_way_and_what(kind: Kind, is_up: bool) -> None:
    tag = Tag(123, is_up, kind)
    assert Tag.unpacked(tag.packed()) == tag


def test_every_number_of_a_call_fits_the_smallest_range_of_tags() -> None:
    last = numbers_within(SMALLEST_THAT_MPI_PROMISES) - 1
    tags = {Tag(last, is_up, kind).packed() for is_up in (False, True) for kind in Kind}
    assert last > 1000
    assert max(tags) <= SMALLEST_THAT_MPI_PROMISES


def test_a_tag_that_is_none_of_ours_is_noticed() -> None:
    with pytest.raises(ValueError, match="15"):
        Tag.unpacked(15)
