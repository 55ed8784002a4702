"""What every lossy format has to do, beside what ``CodecContract`` asks of its packing."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.encodings.codec import Place
from streamlink.encodings.packed import SLICE_ELEMENTS, Packed
from streamlink.encodings.registry import new_codec
from streamlink.model.payloads import as_bytes_view
from streamlink.model.spec import DTYPES, ModelSpec, TensorSpec
from tests.support.codec_contract import CodecContract, any_class
from tests.support.floats import any_floats, wide

DTYPES_OF_FLOATS = ("F64", "F32", "F16", "BF16")


def place_of(*arrays: tuple[str, npt.NDArray[Any]]) -> tuple[Place, memoryview]:
    """Return a whole model of these arrays, by dtype, and its bytes."""
    tensors = [TensorSpec(str(at), name, each.shape) for at, (name, each) in enumerate(arrays)]
    spec = ModelSpec(tuple(tensors))
    data = memoryview(b"".join(as_bytes_view(each) for _, each in arrays))
    return Place(spec, 0, spec.nbytes), data


class LossyContract(CodecContract):
    """Inherit it as ``CodecContract``; ``packed_bytes`` is what one F32 element is packed to."""

    packed_bytes: ClassVar[float]

    @property
    def format(self) -> Packed:
        codec = new_codec(self.name)
        assert isinstance(codec, Packed)
        return codec

    def claiming(self, nbytes: int) -> bytes:
        return b"\1" * 64  # no payload states a length

    @any_class
    @given(data=st.data())
    def test_rounding_keeps_to_its_bound_and_a_second_time_changes_nothing(
        self, data: st.DataObject
    ) -> None:
        dtype = data.draw(st.sampled_from(sorted(self.format.dtypes)))
        values = data.draw(any_floats(dtype))
        rounded = self.format.rounded(values)
        assert (rounded.dtype, rounded.shape) == (values.dtype, values.shape)
        with np.errstate(all="ignore"):
            error = np.abs(wide(rounded) - wide(values))
        finite = np.isfinite(wide(values))
        assert (error[finite] <= self.format.bound(values)[finite]).all()
        assert self.format.rounded(rounded).tobytes() == rounded.tobytes()

    @any_class
    @given(data=st.data())
    def test_nan_and_infinity_stay_and_none_is_made(self, data: st.DataObject) -> None:
        dtype = data.draw(st.sampled_from(sorted(self.format.dtypes)))
        values = data.draw(any_floats(dtype))
        rounded = wide(self.format.rounded(values))
        assert np.array_equal(np.isnan(rounded), np.isnan(wide(values)))
        infinite = np.isinf(wide(values))
        assert np.array_equal(np.isinf(rounded), infinite)
        assert np.array_equal(rounded[infinite], wide(values)[infinite])

    @any_class
    @given(data=st.data())
    def test_any_cut_of_a_rounded_model_is_encoded_without_loss(self, data: st.DataObject) -> None:
        drawn = [
            (dtype, data.draw(any_floats(dtype)))
            for dtype in data.draw(st.lists(st.sampled_from(DTYPES_OF_FLOATS), max_size=3))
        ]
        model = [(dtype, self.rounded(dtype, each)) for dtype, each in drawn]
        whole, raw = place_of(("U8", np.arange(3, dtype=np.uint8)), *model)
        edges = data.draw(st.lists(st.integers(0, raw.nbytes), max_size=3))
        for start, stop in pairwise(sorted({0, raw.nbytes, *edges})):
            place = Place(whole.spec, start, stop - start)
            packed = self.format.encode((raw[start:stop],), place)
            if packed is not None:
                assert bytes(self.format.decode((packed,), place)) == bytes(raw[start:stop])

    def rounded(self, dtype: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return self.format.rounded(values) if dtype in self.format.dtypes else values

    @pytest.mark.parametrize("count", [1, 255, 256, 257, SLICE_ELEMENTS + 300])
    def test_what_was_rounded_is_packed_whatever_its_length(self, count: int) -> None:
        values = np.random.default_rng(count).standard_normal(count).astype(np.float32)
        place, raw = place_of(("F32", self.format.rounded(values)))
        packed = self.format.encode((raw,), place)
        assert packed is not None
        # Two slices at most, and a scale for each 256 elements.
        assert packed.nbytes <= count * self.packed_bytes + 2 + 8

    @pytest.mark.parametrize(("at", "kept"), [(300, 1), (5, 2)])
    def test_one_number_that_does_not_fit_costs_its_slice_or_the_rest_of_its_range(
        self, at: int, kept: int
    ) -> None:
        values = self.format.rounded(np.ones(3 * SLICE_ELEMENTS, np.float32))
        values[SLICE_ELEMENTS + at] = np.frombuffer(b"\1\2\xff\x7f", np.float32)[0]  # some NaN
        place, raw = place_of(("F32", values))
        packed = self.format.encode((raw,), place)
        assert packed is not None
        least = SLICE_ELEMENTS * (4 * kept + self.packed_bytes * (3 - kept))
        assert packed.nbytes == pytest.approx(least, abs=10)
        assert bytes(self.format.decode((packed,), place)) == bytes(raw)

    def test_what_was_not_rounded_is_not_encoded(self) -> None:
        values = np.random.default_rng(1).standard_normal(4000)
        for dtype in ("F64", "F32"):
            place, raw = place_of((dtype, values.astype(DTYPES[dtype])))
            assert self.format.encode((raw,), place) is None

    def test_tensors_of_other_dtypes_travel_beside_it_as_they_are(self) -> None:
        ones = self.format.rounded(np.ones(300, np.float32))
        counts = np.arange(500, dtype=np.int64)
        place, raw = place_of(("I64", counts), ("F32", ones), ("I64", counts + 1))
        packed = self.format.encode((raw,), place)
        assert packed is not None
        assert packed.nbytes > 8000  # the integers
        assert bytes(self.format.decode((packed,), place)) == bytes(raw)

    def test_empty_tensors_and_those_without_dimensions(self) -> None:
        arrays = [np.zeros((0, 3), np.float32), np.full((), 0.5, np.float32)]
        place, raw = place_of(*(("F32", each) for each in arrays))
        packed = self.format.encode((raw,), place)
        if packed is not None:
            assert bytes(self.format.decode((packed,), place)) == bytes(raw)
        assert self.format.rounded(arrays[0].reshape(-1)).size == 0
        assert self.format.encode((), Place(place.spec, 0, 0)) is None
