"""What every encoding has to do: a test module inherits ``CodecContract`` and names its codec."""

from __future__ import annotations

import tracemalloc
from abc import abstractmethod
from contextlib import suppress
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamlink.encodings.codec import Codec, Place
from streamlink.encodings.registry import known_encodings, new_codec
from streamlink.errors import StreamlinkError
from streamlink.model.spec import DTYPES, ModelSpec, TensorSpec

MOST_BYTES = 1 << 16
MiB = 1 << 20
BEYOND_MEMORY = 1 << 32
"""What a hostile payload claims to decode to (bytes)."""

# Several classes inherit each of these tests. Hypothesis warns of that, since what one of them has
# found may be tried with another; here that is one more example.
any_class = settings(suppress_health_check=[HealthCheck.differing_executors])


@st.composite
def ranges(draw: st.DrawFn) -> tuple[Place, bytes]:
    """Some bytes of a model: random or repetitive, ending anywhere within an element."""
    pattern = draw(st.binary(min_size=1, max_size=64))
    data = (pattern * draw(st.integers(1, 1024)))[:MOST_BYTES]
    dtypes = draw(st.lists(st.sampled_from(sorted(DTYPES)), min_size=1, max_size=4))
    before = draw(st.integers(0, 40))
    share = len(data) + before
    spec = ModelSpec(tuple(TensorSpec(str(at), dtype, (share,)) for at, dtype in enumerate(dtypes)))
    return Place(spec, before, len(data)), data


def cut(data: bytes, at: int) -> tuple[memoryview, ...]:
    """Return ``data`` as a payload of one or two views."""
    view = memoryview(data)
    return tuple(part for part in (view[:at], view[at:]) if part.nbytes)


class CodecContract:
    """Inherit it as ``TestX(CodecContract)``, with a ``name`` that is registered, and ``claiming``.

    Memory is what Python allocates (``bytes``, NumPy arrays). What a C library allocates by itself
    is not counted here: where a payload can ask for some of that, test the codec's own check.
    """

    name: ClassVar[str]

    @property
    def codec(self) -> Codec:
        return new_codec(self.name)

    @abstractmethod
    def claiming(self, nbytes: int) -> bytes:
        """Return fewer than a thousand bytes that claim to decode to ``nbytes``."""

    def place(self, spec: ModelSpec, offset: int, nbytes: int) -> Place:
        """Return a range of ``spec``; an encoding of differences gives it a base."""
        return Place(spec, offset, nbytes)

    def _with_base(self, case: tuple[Place, bytes]) -> tuple[Place, bytes]:
        place, data = case
        return self.place(place.spec, place.offset, place.nbytes), data

    def encoded(self, size: int = 10_000) -> tuple[Place, memoryview]:
        """Return a range that any encoding shrinks, and what it shrinks to."""
        spec = ModelSpec((TensorSpec("zeros", "F32", (size,)),))
        place = self.place(spec, 0, spec.nbytes)
        packed = self.codec.encode((memoryview(bytes(spec.nbytes)),), place)
        assert packed is not None, "zeros have to be worth it"
        return place, packed

    def test_it_goes_by_the_name_it_is_registered_under(self) -> None:
        assert self.codec.name == self.name
        assert self.name in known_encodings()

    @any_class
    @given(case=ranges(), at=st.integers(0, MOST_BYTES))
    def test_what_it_encodes_it_decodes(self, case: tuple[Place, bytes], at: int) -> None:
        place, data = self._with_base(case)
        packed = self.codec.encode(cut(data, at), place)
        if packed is not None:
            assert bytes(self.codec.decode((packed,), place)) == data
            assert bytes(self.codec.decode(cut(bytes(packed), at % 7), place)) == data

    @any_class
    @given(case=ranges())
    def test_the_same_range_is_encoded_the_same_at_any_time(
        self, case: tuple[Place, bytes]
    ) -> None:
        place, data = self._with_base(case)
        codec = self.codec
        first = codec.encode(cut(data, 0), place)
        codec.encode((memoryview(bytes(place.nbytes)),), place)
        assert codec.encode(cut(data, 0), place) == first
        assert self.codec.encode(cut(data, 0), place) == first

    @any_class
    @given(data=st.binary(max_size=400), nbytes=st.integers(1, MOST_BYTES))
    def test_hostile_bytes_decode_to_the_range_or_raise_our_errors(
        self, data: bytes, nbytes: int
    ) -> None:
        place = self.place(ModelSpec((TensorSpec("x", "U8", (nbytes,)),)), 0, nbytes)
        try:
            plain = self.codec.decode((memoryview(data),), place)
        except StreamlinkError:
            return
        assert plain.nbytes == nbytes

    @any_class
    @given(data=st.data())
    def test_a_damaged_encoding_decodes_to_the_range_or_raises_our_errors(
        self, data: st.DataObject
    ) -> None:
        place, packed = self.encoded()
        raw = bytearray(packed)
        for _ in range(data.draw(st.integers(1, 3))):
            raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
        try:
            plain = self.codec.decode((memoryview(raw),), place)
        except StreamlinkError:
            return
        assert plain.nbytes == place.nbytes

    @any_class
    @given(share=st.floats(0, 1, exclude_max=True))
    def test_a_truncated_encoding_is_refused(self, share: float) -> None:
        place, packed = self.encoded()
        with pytest.raises(StreamlinkError):
            self.codec.decode((packed[: int(share * packed.nbytes)],), place)

    def test_a_few_bytes_that_claim_4_gib_are_refused_and_allocate_none_of_it(self) -> None:
        payload = self.claiming(BEYOND_MEMORY)
        assert len(payload) < 1000
        with pytest.raises(StreamlinkError):
            self.decode_within(MiB, payload, 64 * 1024)

    def test_what_was_encoded_from_a_longer_range_allocates_no_more_than_the_range(self) -> None:
        _, packed = self.encoded(16 * MiB)
        with suppress(StreamlinkError):  # a format without lengths may decode it
            self.decode_within(MiB, bytes(packed), 64 * 1024)

    def decode_within(self, most: int, payload: bytes, nbytes: int) -> None:
        """Decode ``payload`` for a range of ``nbytes`` while ``most`` bytes may be allocated."""
        codec = self.codec
        place = self.place(ModelSpec((TensorSpec("x", "U8", (nbytes,)),)), 0, nbytes)
        tracemalloc.start()
        try:
            assert codec.decode((memoryview(payload),), place).nbytes == nbytes
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < most

    def test_more_than_the_encoding_is_refused(self) -> None:
        place, packed = self.encoded()
        with pytest.raises(StreamlinkError):
            self.codec.decode((memoryview(bytes(packed) + bytes(packed)),), place)

    def test_what_was_encoded_from_another_length_never_decodes_to_that(self) -> None:
        place, packed = self.encoded()
        for other in (place.nbytes - 1, place.nbytes // 2):
            with suppress(StreamlinkError):
                plain = self.codec.decode((packed,), self.place(place.spec, 0, other))
                assert plain.nbytes == other
