"""Models for tests: strategies, patterns of any size, and what sources and stores promise."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st

from streamlink.errors import SpecMismatch, StoreError
from streamlink.model.computed import GeneratedModel
from streamlink.model.copy import copy_model
from streamlink.model.digest import BLOCK_BYTES, digest_of
from streamlink.model.interfaces import (
    Lending,
    ModelInPlace,
    ModelSink,
    ModelSource,
    ModelStore,
    Preparing,
    lends,
)
from streamlink.model.spec import DTYPES, ModelSpec, TensorSpec

Array = npt.NDArray[Any]


@st.composite
def tensor_specs(draw: st.DrawFn, name: str) -> TensorSpec:
    shape = draw(st.lists(st.integers(0, 6), max_size=3))
    return TensorSpec(name, draw(st.sampled_from(sorted(DTYPES))), tuple(shape))


@st.composite
def model_specs(draw: st.DrawFn, max_tensors: int = 6) -> ModelSpec:
    """Specs with every dtype, 0-d and empty tensors, and names in no particular order."""
    names = draw(
        st.lists(st.text("abé.", min_size=1, max_size=6), max_size=max_tensors, unique=True)
    )
    return ModelSpec(tuple(draw(tensor_specs(name)) for name in names))


def float_spec(*sizes: int) -> ModelSpec:
    """Return a spec of 1-D float32 tensors ``t0``, ``t1``, ... with so many elements."""
    return ModelSpec(tuple(TensorSpec(f"t{n}", "F32", (size,)) for n, size in enumerate(sizes)))


_PERIOD = 251
_PATTERN = np.tile(np.arange(_PERIOD, dtype=np.uint8), 1001)


def pattern_model(spec: ModelSpec, seed: int = 0) -> GeneratedModel:
    """Return a model whose bytes repeat with a prime period; the seed shifts them."""

    def fill(tensor: TensorSpec, start: int, out: Array) -> None:
        first = (start * tensor.itemsize + seed + len(tensor.name)) % _PERIOD
        into, length = out.view(np.uint8), len(_PATTERN) - _PERIOD
        for at in range(0, out.nbytes, length):
            piece = into[at : at + length]
            piece[:] = _PATTERN[first : first + piece.nbytes]
        if tensor.dtype == "BOOL":
            into %= 2

    return GeneratedModel(spec, fill)


def random_bytes(length: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(length)


def arrays_of(spec: ModelSpec, data: bytes) -> dict[str, Array]:
    """Return the model's bytes as arrays."""
    arrays, offset = {}, 0
    for tensor in spec.tensors:
        piece = np.frombuffer(data, tensor.numpy_dtype, tensor.count, offset)
        arrays[tensor.name] = piece.reshape(tensor.shape).copy()
        offset += tensor.nbytes
    return arrays


def content(source: ModelSource, piece: int = BLOCK_BYTES) -> bytes:
    """Read everything, a piece at a time."""
    nbytes = source.spec.nbytes
    ranges = ((start, min(piece, nbytes - start)) for start in range(0, nbytes, piece))
    return b"".join(view for offset, length in ranges for view in source.read(offset, length))


def fill(sink: ModelSink, data: bytes, cuts: Iterable[int], seed: int | None = None) -> None:
    """Write ``data`` cut at ``cuts``; in an order shuffled by ``seed`` if there is one."""
    edges = sorted({0, len(data), *cuts})
    pieces = list(itertools.pairwise(edges))
    if seed is not None:
        random.Random(seed).shuffle(pieces)
    for start, stop in pieces:
        sink.write(start, memoryview(data)[start:stop])


def save(store: ModelStore, source: ModelSource) -> bytes:
    """Make ``source`` the store's model and return its bytes."""
    copy_model(source, store.begin(source.spec))
    return content(source)


class SourceContract:
    """What every source must do. A subclass gives ``source``."""

    spec = ModelSpec(
        (
            TensorSpec("flag", "BOOL", (3,)),
            TensorSpec("w", "F32", (300, 1000)),
            TensorSpec("none", "I64", (0, 4)),
            TensorSpec("scalar", "BF16", ()),
            TensorSpec("z", "C64", (7,)),
        )
    )

    @pytest.fixture
    def source(self) -> ModelSource:
        raise NotImplementedError

    @pytest.fixture
    def expected(self) -> bytes:
        """The bytes that ``source`` must give; by default the pattern's."""
        return content(pattern_model(self.spec))

    def test_it_is_a_model_source(self, source: ModelSource) -> None:
        assert isinstance(source, ModelSource)
        assert source.spec == self.spec

    @pytest.mark.parametrize("piece", [4097, 65536, BLOCK_BYTES, 1 << 22])
    def test_any_pieces_give_the_same_bytes(
        self, source: ModelSource, expected: bytes, piece: int
    ) -> None:
        assert content(source, piece) == expected

    def test_random_ranges_give_their_bytes(self, source: ModelSource, expected: bytes) -> None:
        rng = random.Random(3)
        for _ in range(100):
            start, stop = sorted(rng.choices(range(len(expected) + 1), k=2))
            assert b"".join(source.read(start, stop - start)) == expected[start:stop]

    def test_every_view_is_flat_bytes(self, source: ModelSource) -> None:
        for view in source.read(1, 5000):
            assert (view.format, view.ndim, view.c_contiguous) == ("B", 1, True)

    def test_a_view_outlives_reads_after_it(self, source: ModelSource, expected: bytes) -> None:
        held = source.read(0, 1000)
        content(source, 1000)
        assert b"".join(held) == expected[:1000]

    @pytest.mark.parametrize(("offset", "length"), [(-1, 2), (0, -1), (0, 1 << 40), (1 << 40, 0)])
    def test_a_range_outside_is_refused(
        self, source: ModelSource, offset: int, length: int
    ) -> None:
        with pytest.raises(ValueError, match="not inside a model"):
            source.read(offset, length)

    def test_closing_twice_is_harmless(self, source: ModelSource) -> None:
        source.close()
        source.close()


class StoreContract:
    """What every store must do. A subclass gives ``store``, empty at first."""

    spec = float_spec(5, 0, 700_000, 3)

    @pytest.fixture
    def store(self) -> ModelStore:
        raise NotImplementedError

    def test_an_empty_store_has_nothing_to_open(self, store: ModelStore) -> None:
        with pytest.raises(StoreError):
            store.open()

    def test_what_was_written_is_read(self, store: ModelStore) -> None:
        data = save(store, pattern_model(self.spec))
        source = store.open()
        assert source.spec == self.spec
        assert content(source) == data
        source.close()

    @pytest.mark.parametrize("seed", [None, 1, 2])
    @pytest.mark.parametrize("piece", [70_001, 300_000, BLOCK_BYTES, 3 * BLOCK_BYTES])
    def test_pieces_come_in_any_size_and_order(
        self, store: ModelStore, piece: int, seed: int | None
    ) -> None:
        data = content(pattern_model(self.spec))
        sink = store.begin(self.spec)
        fill(sink, data, range(0, len(data), piece), seed)
        sink.commit()
        self.check(store, data)

    def test_the_last_write_of_a_byte_counts(self, store: ModelStore) -> None:
        data = bytearray(content(pattern_model(self.spec)))
        sink = store.begin(self.spec)
        fill(sink, bytes(data), [BLOCK_BYTES + 5])
        for start, length in [(100, 50), (BLOCK_BYTES - 10, 20), (0, BLOCK_BYTES), (7, 9)]:
            data[start : start + length] = random_bytes(length, start)
            sink.write(start, memoryview(data)[start : start + length])
        sink.commit()
        self.check(store, bytes(data))

    def test_the_old_model_stands_until_commit(self, store: ModelStore) -> None:
        old = save(store, pattern_model(self.spec))
        new = content(pattern_model(self.spec, seed=9))
        sink = store.begin(self.spec)
        fill(sink, new, [])
        self.check(store, old)
        sink.commit()
        self.check(store, new)

    def test_an_open_source_stays_readable_while_replaced(self, store: ModelStore) -> None:
        old = save(store, pattern_model(self.spec))
        source = store.open()
        new = save(store, pattern_model(float_spec(10), seed=4))
        assert content(source) == old
        source.close()
        self.check(store, new)

    def test_a_discarded_attempt_leaves_the_old_model(self, store: ModelStore) -> None:
        old = save(store, pattern_model(self.spec))
        sink = store.begin(self.spec)
        sink.write(0, memoryview(b"x" * 1000))
        sink.discard()
        sink.discard()
        self.check(store, old)

    def test_discarding_after_commit_is_harmless(self, store: ModelStore) -> None:
        data = content(pattern_model(self.spec))
        sink = store.begin(self.spec)
        fill(sink, data, [])
        sink.commit()
        sink.discard()
        self.check(store, data)

    def test_a_model_with_a_gap_is_not_committed(self, store: ModelStore) -> None:
        sink = store.begin(self.spec)
        fill(sink, content(pattern_model(self.spec))[: -4 * 4], [])
        with pytest.raises(StoreError, match="first missing one is byte 2799996 of tensor 't2'"):
            sink.commit()
        sink.discard()

    def test_a_write_outside_is_refused(self, store: ModelStore) -> None:
        sink = store.begin(float_spec(4))
        with pytest.raises(ValueError, match="not inside a model"):
            sink.write(10, memoryview(b"1234567"))
        sink.discard()

    @pytest.mark.parametrize("spec", [ModelSpec(()), float_spec(0), float_spec(0, 1, 0)])
    def test_models_with_hardly_a_byte_are_models(self, store: ModelStore, spec: ModelSpec) -> None:
        data = save(store, pattern_model(spec))
        assert store.open().spec == spec
        self.check(store, data)

    def test_copying_into_another_spec_is_refused(self, store: ModelStore) -> None:
        sink = store.begin(float_spec(4))
        with pytest.raises(SpecMismatch, match="shape"):
            copy_model(pattern_model(float_spec(5)), sink)
        sink.discard()

    def test_a_commit_reports_growing_progress(self, store: ModelStore) -> None:
        told: list[int] = []
        source = pattern_model(self.spec)
        copy_model(source, store.begin(self.spec), progress=told.append)
        assert told == sorted(told)
        assert told[-1] >= self.spec.nbytes

    def test_a_prepared_model_is_not_visible_until_its_commit(self, store: ModelStore) -> None:
        old = save(store, pattern_model(self.spec))
        new = content(pattern_model(self.spec, seed=9))
        sink = self.prepared(store, new)
        self.check(store, old)
        sink.commit()
        self.check(store, new)

    def test_a_prepared_model_can_be_discarded(self, store: ModelStore) -> None:
        old = save(store, pattern_model(self.spec))
        self.prepared(store, content(pattern_model(self.spec, seed=9))).discard()
        self.check(store, old)
        newer = save(store, pattern_model(self.spec, seed=4))
        self.check(store, newer)

    def test_a_prepared_model_takes_no_more(self, store: ModelStore) -> None:
        sink = self.prepared(store, content(pattern_model(self.spec)))
        with pytest.raises(StoreError, match="prepared and accepts no more bytes"):
            sink.write(0, memoryview(b"1234"))
        sink.discard()

    def test_preparing_twice_is_harmless(self, store: ModelStore) -> None:
        data = content(pattern_model(self.spec))
        sink = self.prepared(store, data)
        sink.prepare()
        sink.commit()
        self.check(store, data)

    def test_a_model_with_a_gap_is_not_prepared(self, store: ModelStore) -> None:
        old = save(store, pattern_model(self.spec))
        sink = store.begin(self.spec)
        fill(sink, old[:-4], [])
        assert isinstance(sink, Preparing)
        with pytest.raises(StoreError, match="first missing one is byte 8 of tensor 't3'"):
            sink.prepare()
        sink.discard()
        self.check(store, old)

    def prepared(self, store: ModelStore, data: bytes) -> Preparing:
        """Return the sink of a model that is prepared."""
        sink = store.begin(self.spec)
        fill(sink, data, [])
        assert isinstance(sink, Preparing)
        sink.prepare()
        return sink

    def check(self, store: ModelStore, data: bytes) -> None:
        """Compare the store's model and its digest with ``data``."""
        source = store.open()
        assert content(source) == data
        stored = getattr(source, "digest", None)
        if stored is not None:
            assert stored() == digest_of(source)
        source.close()


class LendingContract:
    """What every sink that lends must do. A subclass gives ``sink``, not written to yet."""

    spec = float_spec(5, 0, 700_000, 3)

    @pytest.fixture
    def sink(self) -> Lending:
        raise NotImplementedError

    def arrived(self, sink: Lending) -> bytes:
        """Return the model that ``sink`` has committed."""
        raise NotImplementedError

    def test_it_is_a_sink_that_lends(self, sink: Lending) -> None:
        assert lends(sink) is sink

    @pytest.mark.parametrize("seed", [None, 1])
    def test_what_is_read_into_lent_memory_is_the_model(
        self, sink: Lending, seed: int | None
    ) -> None:
        data = content(pattern_model(self.spec))
        edges = sorted({0, 20, len(data) - 12, len(data), *range(70_001, len(data), 70_001)})
        pieces = list(itertools.pairwise(edges))
        if seed is not None:
            random.Random(seed).shuffle(pieces)
        lent = [(start, stop, sink.lend(start, stop - start)) for start, stop in pieces]
        for start, stop, view in lent:
            assert view is not None, f"[{start}, {stop}) lies within one tensor"
            assert (view.nbytes, view.format, view.ndim) == (stop - start, "B", 1)
            view[:] = data[start:stop]
            sink.filled(start, stop - start)
        sink.commit()
        assert self.arrived(sink) == data

    def test_lent_and_written_ranges_make_one_model(self, sink: Lending) -> None:
        data = content(pattern_model(self.spec))
        for number, start in enumerate(range(0, len(data), 10_000)):
            stop = min(start + 10_000, len(data))
            view = sink.lend(start, stop - start) if number % 2 else None
            if view is None:
                sink.write(start, memoryview(data)[start:stop])
            else:
                view[:] = data[start:stop]
                sink.filled(start, stop - start)
        sink.commit()
        assert self.arrived(sink) == data

    def test_a_range_across_tensors_is_not_lent(self, sink: Lending) -> None:
        assert sink.lend(16, 8) is None

    def test_what_is_lent_again_is_the_same_memory(self, sink: Lending) -> None:
        first, again = sink.lend(1000, 500), sink.lend(1000, 500)
        assert first is not None
        assert again is not None
        first[:3] = b"abc"
        assert bytes(again[:3]) == b"abc"

    def test_what_was_lent_and_not_filled_is_missing(self, sink: Lending) -> None:
        data = content(pattern_model(self.spec))
        fill(sink, data[:-12], [])
        assert sink.lend(len(data) - 12, 12) is not None
        with pytest.raises(StoreError, match="first missing one is byte 0 of tensor 't3'"):
            sink.commit()
        sink.discard()

    @pytest.mark.parametrize(("offset", "nbytes"), [(-1, 2), (0, -1), (0, 1 << 40), (1 << 40, 1)])
    def test_a_range_outside_is_not_lent(self, sink: Lending, offset: int, nbytes: int) -> None:
        with pytest.raises(ValueError, match="not inside a model"):
            sink.lend(offset, nbytes)

    def test_a_model_that_is_filled_in_place_is_torn_by_what_it_lends(self, sink: Lending) -> None:
        if not isinstance(sink, ModelInPlace):
            pytest.skip("it keeps the old model whole")
        torn = [sink.is_torn]
        assert sink.lend(16, 8) is None
        torn.append(sink.is_torn)
        assert sink.lend(20, 8) is not None
        torn.append(sink.is_torn)
        sink.discard()
        assert [*torn, sink.is_torn] == [False, False, True, True]
