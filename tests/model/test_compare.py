from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import SpecMismatch
from streamlink.model.compare import TensorDifference, difference
from streamlink.model.digest import BLOCK_BYTES, block_hash_of
from streamlink.model.interfaces import Payload
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.stores.memory import ArrayModel
from tests.support.models import arrays_of, float_spec, random_bytes

# The odd length before it makes an element of "w" straddle the edge of a block.
SPEC = ModelSpec(
    (
        TensorSpec("odd", "U8", (3,)),
        TensorSpec("w", "F64", (BLOCK_BYTES // 4,)),
        TensorSpec("end", "C64", (2,)),
    )
)
DATA = random_bytes(SPEC.nbytes)
EDGE = BLOCK_BYTES - 3  # inside "w"


class Leafy(ArrayModel):
    """Counts its reads and knows its hashes."""

    def __init__(self, data: bytes) -> None:
        super().__init__(arrays_of(SPEC, data))
        self.data = data
        self.reads = 0

    def read(self, offset: int, length: int) -> Payload:
        self.reads += 1
        return super().read(offset, length)

    def block_hash(self, block: int) -> bytes:
        return block_hash_of(self.data[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES])

    def digest(self) -> str:
        raise NotImplementedError


def changed(*places: int) -> bytes:
    data = bytearray(DATA)
    for place in places:
        data[place] ^= 1
    return bytes(data)


def compare(data: bytes) -> list[TensorDifference]:
    return list(difference(ArrayModel(arrays_of(SPEC, DATA)), ArrayModel(arrays_of(SPEC, data))))


def test_equal_models_do_not_differ() -> None:
    assert compare(DATA) == []


def test_a_difference_tells_tensor_place_and_count() -> None:
    (found,) = compare(changed(3 + 8 * 5 + 2, 3 + 8 * 7, 3 + 8 * 7 + 1))
    assert found == TensorDifference("w", 8 * 5 + 2, 2)
    assert str(found) == "w: 2 elements differ, the first at byte 42"


@pytest.mark.parametrize(
    "places", [(EDGE + 3 - 1,), (EDGE + 3,), (EDGE + 2, EDGE + 3), (EDGE - 1, EDGE + 3)]
)
def test_an_element_across_blocks_counts_once(places: tuple[int, ...]) -> None:
    (found,) = compare(changed(*places))
    elements = {(place - 3) // 8 for place in places}
    assert found == TensorDifference("w", min(places) - 3, len(elements))


@given(st.sets(st.integers(0, SPEC.nbytes - 1), max_size=5))
def test_it_agrees_with_comparing_arrays(places: set[int]) -> None:
    data = changed(*places)
    ours, theirs = arrays_of(SPEC, DATA), arrays_of(SPEC, data)
    counts = {
        name: int((ours[name].view(f"V{size}") != theirs[name].view(f"V{size}")).sum())
        for name, size in {"odd": 1, "w": 8, "end": 8}.items()
    }
    assert {found.name: found.count for found in compare(data)} == {
        name: count for name, count in counts.items() if count
    }


def test_a_last_element_across_blocks_is_not_compared_twice() -> None:
    spec = ModelSpec((TensorSpec("w", "U8", (BLOCK_BYTES - 4,)), TensorSpec("x", "F64", ())))
    ours, theirs = arrays_of(spec, bytes(spec.nbytes)), arrays_of(spec, bytes(spec.nbytes))
    theirs["x"].view(np.uint64)[()] = (1 << 64) - 1
    found = list(difference(ArrayModel(ours), ArrayModel(theirs)))
    assert found == [TensorDifference("x", 0, 1)]


def test_blocks_with_equal_hashes_are_not_read() -> None:
    ours, theirs = Leafy(DATA), Leafy(changed(SPEC.nbytes - 1))
    assert [found.name for found in difference(ours, theirs)] == ["end"]
    assert theirs.reads < 6


def test_equal_nans_are_equal_and_signed_zeros_are_not() -> None:
    ours = ArrayModel({"t0": np.array([np.nan, 0.0], "f4")})
    theirs = ArrayModel({"t0": np.array([np.nan, -0.0], "f4")})
    assert list(difference(ours, theirs)) == [TensorDifference("t0", 7, 1)]


def test_other_tensors_are_refused() -> None:
    with pytest.raises(SpecMismatch):
        next(difference(ArrayModel({}), ArrayModel(arrays_of(float_spec(1), b"1234"))))
