"""What a lazy reader keeps, and how far its streams go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamlink.extent import Extent
from streamlink.objects.window import Kept, extent_for
from tests.support.models import float_spec, model_specs

DATA = bytes(range(251)) * 9


@given(st.integers(1, 300), st.lists(st.integers(1, 90), max_size=25), st.data())
def test_what_is_found_is_what_was_added_and_the_bound_holds(
    most: int, sizes: list[int], data: st.DataObject
) -> None:
    kept, end = Kept(most), 0
    for size in sizes:
        kept.add(end, memoryview(DATA)[end : end + size])
        end += size
        assert kept.nbytes <= max(most, size)
        assert kept.find(end - 1, end) is not None
    at = data.draw(st.integers(0, end + 5))
    stop = data.draw(st.integers(at + 1, end + 9))
    found = kept.find(at, stop)
    if found is not None:
        assert 0 < found.nbytes <= stop - at
        assert bytes(found) == DATA[at : at + found.nbytes]
    else:
        assert at >= end or at < end - kept.nbytes


def test_what_was_cleared_is_gone() -> None:
    kept = Kept(9)
    kept.add(0, memoryview(b"abc"))
    kept.clear()
    assert (kept.find(0, 3), kept.nbytes) == (None, 0)


SPEC = float_spec(10, 0, 5)  # 40, 0 and 20 bytes


def test_a_sequential_reader_gets_the_rest_and_one_that_jumps_its_tensor() -> None:
    assert extent_for(SPEC, 0, 4, is_sequential=True) == Extent(0, 60)
    assert extent_for(SPEC, 8, 12, is_sequential=False) == Extent(8, 40)
    assert extent_for(SPEC, 8, 41, is_sequential=False) == Extent(8, 60)
    assert extent_for(SPEC, 7, 7, is_sequential=True) == Extent(7, 7)


@given(model_specs(), st.booleans(), st.data())
def test_a_stream_covers_what_is_read(spec, is_sequential: bool, data: st.DataObject) -> None:  # type: ignore[no-untyped-def]
    start = data.draw(st.integers(0, spec.nbytes))
    stop = data.draw(st.integers(start, spec.nbytes))
    extent = extent_for(spec, start, stop, is_sequential=is_sequential)
    assert extent.start == start
    assert stop <= extent.stop <= spec.nbytes
