"""The arithmetic along the model: what is combined, what is copied, what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import (
    ModelError,
    NonFiniteRound,
    NonFiniteUpdate,
    QuorumNotReached,
    SpecMismatch,
)
from streamlink.link import UpdateKind
from streamlink.model.computed import RangeFunction
from streamlink.model.interfaces import ModelSource, Payload
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.rounds.aggregate.aggregator import Aggregation
from streamlink.rounds.aggregate.aggregators import Mean
from streamlink.rounds.aggregate.combiner import PIECE_BYTES, Combiner, ContributorFailed
from streamlink.rounds.aggregate.mean import WeightedMean
from streamlink.stores.memory import MemoryStore
from tests.support.disk import peak_of
from tests.support.models import content, float_spec, model_specs, pattern_model
from tests.support.peers import ODD, Array, assert_same, initial, mean_of, trained

VALUES, DIFFERENCES = UpdateKind.VALUES, UpdateKind.DIFFERENCES


class Given:
    """A contribution that is all here."""

    def __init__(
        self,
        data: ModelSource,
        *,
        peer_name: str = "site-1",
        weight: float = 1.0,
        kind: UpdateKind = VALUES,
        filters: Sequence[RangeFunction] = (),
    ) -> None:
        self.peer_name, self.weight, self.kind, self.filters = peer_name, weight, kind, filters
        self._data, self._position = data, 0

    def take(self, nbytes: int) -> memoryview:
        self._position += nbytes
        return memoryview(b"".join(self._data.read(self._position - nbytes, nbytes)))


class Ordered:
    """A sink that takes nothing but the next byte."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec, self.data, self.sizes = spec, bytearray(), list[int]()

    def write(self, offset: int, payload: memoryview) -> None:
        assert offset == len(self.data)
        self.data += payload
        self.sizes.append(payload.nbytes)

    def commit(self, progress: object = None) -> None:
        raise AssertionError("the combiner does not commit")

    def discard(self) -> None: ...


class Counted:
    """A source that counts what is read of it."""

    def __init__(self, source: ModelSource) -> None:
        self.spec, self._source, self.read_bytes = source.spec, source, 0

    def read(self, offset: int, length: int) -> Payload:
        self.read_bytes += length
        return self._source.read(offset, length)

    def close(self) -> None: ...


class Zeros:
    """A source of any size that needs no memory for a read."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec, self._zeros = spec, memoryview(bytes(2 * PIECE_BYTES))

    def read(self, offset: int, length: int) -> Payload:
        return (self._zeros[:length],)

    def close(self) -> None: ...


def combined(
    base: ModelSource,
    contributions: Sequence[Given],
    part: ModelSpec | None = None,
    reaches: Callable[[int], int] = lambda _: 1 << 62,
    **rules: Any,
) -> bytes:
    """Return the new model; ``reaches(used)`` says how far the updates have come."""
    sink = Ordered(base.spec)
    part = base.spec if part is None else part
    combiner = Combiner(base, part, contributions, sink, **rules)
    while not combiner.is_done:
        nbytes = combiner.ahead(min(part.nbytes, max(combiner.used, reaches(combiner.used))))
        if nbytes:
            combiner.compute(nbytes)
    assert combiner.used == part.nbytes
    return bytes(sink.data)


def source_of(arrays: Mapping[str, Array]) -> ModelSource:
    return MemoryStore(arrays).open()


def some(names: Sequence[str], spec: ModelSpec = ODD) -> ModelSpec:
    return ModelSpec(tuple(tensor for tensor in spec.tensors if tensor.name in names))


def of_site(number: int, part: ModelSpec = ODD) -> dict[str, Array]:
    """What the client would send of ``part``."""
    before = initial()
    return {
        t.name: trained(number)(t, 0, before[t.name].reshape(-1)).reshape(t.shape)
        for t in part.tensors
    }


# --- parts --------------------------------------------------------------------------------


@given(st.sets(st.sampled_from([tensor.name for tensor in ODD.tensors])))
def test_tensors_outside_the_part_keep_the_bytes_of_the_base(names: set[str]) -> None:
    part = some(sorted(names))
    found = combined(
        source_of(initial()), [Given(source_of(of_site(n, part))) for n in (0, 1)], part
    )
    means = mean_of(initial(), {0: 1.0, 1: 1.0})
    expected = {name: means[name] if name in names else old for name, old in initial().items()}
    assert found == content(source_of(expected))


@given(model_specs(), st.data())
def test_equal_updates_of_any_part_give_that_part(spec: ModelSpec, data: st.DataObject) -> None:
    part = some(data.draw(st.lists(st.sampled_from([t.name for t in spec.tensors] or [""]))), spec)
    base, sent = pattern_model(spec), pattern_model(part, seed=1)
    by_name = {t.name: part.offset_of(n) for n, t in enumerate(part.tensors)}
    found = combined(base, [Given(sent)], part, non_finite="accept")  # a pattern has such bits
    for index, tensor in enumerate(spec.tensors):
        piece = found[spec.offset_of(index) :][: tensor.nbytes]
        if tensor.name not in by_name:
            assert piece == b"".join(base.read(spec.offset_of(index), tensor.nbytes))
        elif not _has_nan(piece, tensor):  # every NaN comes out as the default one
            assert piece == b"".join(sent.read(by_name[tensor.name], tensor.nbytes))


def _has_nan(piece: bytes, tensor: TensorSpec) -> bool:
    return bool(np.isnan(np.frombuffer(piece, tensor.numpy_dtype).astype(np.complex128)).any())


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize("kind", [VALUES, DIFFERENCES])
def test_how_far_the_updates_have_come_changes_no_bit(step: int, kind: UpdateKind) -> None:
    part = some(["flag", "f32", "i8", "f16", "scalar", "c64"])

    def once(reaches: Callable[[int], int]) -> bytes:
        sites = [Given(source_of(of_site(n, part)), kind=kind) for n in (0, 1)]
        return combined(source_of(initial()), sites, part, reaches)

    assert once(lambda used: used + 16 + step) == once(lambda _: part.nbytes)


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize("kind", [VALUES, DIFFERENCES])
def test_a_sink_that_lends_its_memory_gets_the_same_bits(step: int, kind: UpdateKind) -> None:
    part = some(["flag", "f32", "i8", "f16", "scalar", "c64"])

    def sites() -> list[Given]:
        return [Given(source_of(of_site(n, part)), kind=kind) for n in (0, 1)]

    store = MemoryStore()
    sink = store.begin(ODD)
    combiner = Combiner(source_of(initial()), part, sites(), sink)
    while not combiner.is_done:
        combiner.compute(combiner.ahead(min(part.nbytes, combiner.used + 16 + step)))
    sink.commit()
    assert content(store.open()) == combined(source_of(initial()), sites(), part)


def test_no_piece_is_larger_than_a_block_and_an_element() -> None:
    spec = float_spec(700_001, 3, 900_000, 800_000)
    sink, part = Ordered(spec), some(["t0", "t3"], spec)
    combiner = Combiner(pattern_model(spec), part, [Given(pattern_model(part))], sink)
    while not combiner.is_done:
        combiner.compute(combiner.ahead(part.nbytes))
    assert max(sink.sizes) <= PIECE_BYTES + 16


@pytest.mark.parametrize("names", [["t1", "t0"], ["other"]])
def test_what_is_no_part_of_the_model_is_refused(names: list[str]) -> None:
    part = ModelSpec(tuple(TensorSpec(name, "F32", (1,)) for name in names))
    with pytest.raises(SpecMismatch, match=f"tensor '{names[-1]}' of the part is not in the model"):
        combined(pattern_model(float_spec(1, 1)), [Given(pattern_model(part))], part)


# --- differences --------------------------------------------------------------------------


def test_differences_of_floats_are_added_and_integers_are_values() -> None:
    base = {"f": np.array([1.0, 2.0], "<f4"), "i": np.array([10, 20]), "b": np.array([True])}
    sent = {"f": np.array([0.5, -1.0], "<f4"), "i": np.array([7, 8]), "b": np.array([False])}
    found = combined(source_of(base), [Given(source_of(sent), kind=DIFFERENCES)])
    expected = {**sent, "f": np.array([1.5, 1.0], "<f4")}
    assert found == content(source_of(expected))


@pytest.mark.parametrize("kinds", [(DIFFERENCES, VALUES), (VALUES, DIFFERENCES)])
def test_values_and_differences_may_be_mixed(kinds: Sequence[UpdateKind]) -> None:
    base = initial()
    sites = []
    for number, kind in enumerate(kinds):
        after = of_site(number)
        if kind is DIFFERENCES:
            after = {n: a if a.dtype.kind in "iub" else _less(a, base[n]) for n, a in after.items()}
        sites.append(Given(source_of(after), kind=kind))
    found = MemoryStore(initial())
    sink = found.begin(ODD)
    sink.write(0, memoryview(combined(source_of(base), sites)))
    sink.commit()
    assert_same(found.arrays, mean_of(base, {0: 1.0, 1: 1.0}))  # small whole numbers: exact


def _less(after: Array, before: Array) -> Array:
    difference: Array = np.subtract(after, before, out=np.empty_like(after))
    return difference


def test_differences_of_zero_leave_every_kind_of_tensor_as_it_is() -> None:
    base = {**initial(), "f32": -np.zeros((37, 41), np.float32)}
    zeros = {n: a if a.dtype.kind in "iub" else np.zeros_like(a) for n, a in base.items()}
    sites = [Given(source_of(zeros), weight=w, kind=DIFFERENCES) for w in (0.1, 0.7, 3.0)]
    assert combined(source_of(base), sites) == content(source_of(base))


def test_the_base_is_read_once_however_small_the_steps_and_never_for_values() -> None:
    spec = float_spec(600_000)
    base = Counted(pattern_model(spec))
    combined(base, [Given(pattern_model(spec))])
    assert base.read_bytes == 0
    combined(base, [Given(pattern_model(spec), kind=DIFFERENCES)], None, lambda used: used + 4096)
    assert base.read_bytes == spec.nbytes


def test_memory_is_a_few_pieces_and_not_the_model() -> None:
    spec = float_spec(10_000_000)
    sink = Ordered(spec)
    sink.write = lambda offset, payload: None  # type: ignore[method-assign]
    sites = [Given(Zeros(spec), kind=DIFFERENCES, filters=[_halved]) for _ in range(2)]
    combiner = Combiner(Zeros(spec), spec, sites, sink)

    def run() -> None:
        while not combiner.is_done:
            combiner.compute(combiner.ahead(spec.nbytes))

    # Of two updates a piece and what the filter made of it, of the base and of sources a piece.
    assert peak_of(run) < 8 * PIECE_BYTES


# --- filters ------------------------------------------------------------------------------


def _halved(tensor: TensorSpec, start: int, values: Array) -> Array:
    half: Array = (values / 2).astype(values.dtype)
    return half


def test_filters_are_applied_in_order_before_the_mean() -> None:
    def plus_place(tensor: TensorSpec, start: int, values: Array) -> Array:
        moved: Array = values + np.arange(start, start + values.size, dtype=values.dtype)
        return moved

    zeros, ones = np.zeros(4, np.float32), np.ones(4, np.float32)
    sites = [
        Given(source_of({"w": ones}), filters=[plus_place, _halved]),
        Given(source_of({"w": zeros})),
    ]
    found = combined(source_of({"w": zeros}), sites, None, lambda used: used + 8)
    assert np.frombuffer(found, np.float32).tolist() == [0.25, 0.5, 0.75, 1.0]


def test_a_filter_sees_each_tensor_for_itself_and_read_only() -> None:
    seen: list[tuple[str, int, int, bool]] = []

    def look(tensor: TensorSpec, start: int, values: Array) -> Array:
        seen.append((tensor.name, start, values.size, values.flags.writeable))
        return values

    spec = float_spec(3, 0, 2)
    combined(pattern_model(spec), [Given(pattern_model(spec), filters=[look, look])])
    assert seen == 2 * [("t0", 0, 3, False)] + 2 * [("t2", 0, 2, False)]


def test_a_filter_that_keeps_its_result_may_go_on_writing_it() -> None:
    own = np.zeros(3, np.float32)
    spec = float_spec(3)
    combined(pattern_model(spec), [Given(pattern_model(spec), filters=[lambda *_: own, _halved])])
    assert own.flags.writeable


@pytest.mark.parametrize("result", [np.zeros(3, np.float64), np.zeros(2, np.float32)])
def test_a_filter_that_changes_dtype_or_length_is_named_a_filter(result: Array) -> None:
    spec = float_spec(3)
    with pytest.raises(
        ModelError, match=r"a filter made shape .* out of 3 elements of tensor 't0'"
    ):
        combined(pattern_model(spec), [Given(pattern_model(spec), filters=[lambda *_: result])])


# --- NaN and infinity ---------------------------------------------------------------------


def holed(value: float, at: int = 2, dtype: str = "<f4") -> ModelSource:
    array = np.zeros(5, dtype)
    array[at] = value
    return source_of({"i": np.arange(3), "w": array})


FINE: dict[str, Array] = {"i": np.arange(3), "w": np.zeros(5, np.float32)}


def test_bad_values_are_averaged_where_that_is_the_rule() -> None:
    sites = [Given(holed(math.nan)), Given(holed(0.0))]
    found = combined(source_of(FINE), sites, non_finite="accept")
    assert np.isnan(np.frombuffer(found[24:], np.float32)).tolist() == [0, 0, 1, 0, 0]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", [VALUES, DIFFERENCES])
def test_bad_values_are_refused_with_the_update_they_are_in(value: float, kind: UpdateKind) -> None:
    sites = [Given(holed(0.0)), Given(holed(value), peer_name="site-2", kind=kind)]
    with pytest.raises(ContributorFailed, match="the update of site-2 failed") as failed:
        combined(source_of(FINE), sites, non_finite="reject")
    error = failed.value.__cause__
    assert isinstance(error, NonFiniteUpdate)
    assert (failed.value.peer_name, error.peer_name, error.tensor, error.index) == (
        "site-2",
        "site-2",
        "w",
        2,
    )
    assert str(error) == (
        "element 2 of tensor 'w' in the update of site-2 is NaN or infinite, and non_finite is "
        "'reject'"
    )


def test_bad_values_fail_the_round_if_that_is_the_rule() -> None:
    with pytest.raises(
        NonFiniteRound, match=r"site-1 is not finite .*element 4 of tensor 'w'"
    ) as bad:
        combined(source_of(FINE), [Given(holed(math.inf, at=4))], non_finite="fail")
    assert bad.value.peer_name == "site-1"
    assert not isinstance(bad.value, ContributorFailed)


def test_bad_values_are_looked_for_after_the_filters() -> None:
    def mended(tensor: TensorSpec, start: int, values: Array) -> Array:
        return np.nan_to_num(values)

    fine = [Given(holed(math.nan), filters=[mended])]
    assert combined(source_of(FINE), fine, non_finite="reject") == content(source_of(FINE))


def test_the_element_is_counted_in_its_tensor_whatever_the_step() -> None:
    spec = float_spec(50_000)
    array = np.zeros(50_000, np.float32)
    array[40_001] = math.nan
    site = Given(source_of({"t0": array}))
    with pytest.raises(ContributorFailed) as failed:
        combined(pattern_model(spec), [site], None, lambda used: used + 40_000, non_finite="reject")
    assert isinstance(failed.value.__cause__, NonFiniteUpdate)
    assert failed.value.__cause__.index == 40_001


class SaysFinite(WeightedMean):
    """Says that its results are finite, whatever they are."""

    def combine(self, *given: Any) -> bool:
        super().combine(*given)
        return True


class Finite(Mean):
    def begin(self, weights: Sequence[float], kinds: Sequence[UpdateKind]) -> Aggregation:
        return SaysFinite(weights, kinds)


def test_nothing_is_looked_at_where_the_mean_is_finite() -> None:
    with pytest.raises(ContributorFailed):
        combined(source_of(FINE), [Given(holed(math.nan))])
    combined(source_of(FINE), [Given(holed(math.nan))], aggregator=Finite())


def test_bad_values_of_weight_zero_are_nobodys_concern() -> None:
    sites = [Given(holed(math.nan), weight=0.0), Given(holed(0.0))]
    assert combined(source_of(FINE), sites) == content(source_of(FINE))


def test_a_model_that_is_bad_already_is_no_clients_fault() -> None:
    sent = Given(holed(0.0), kind=DIFFERENCES)
    found = combined(holed(math.nan), [sent])
    assert np.isnan(np.frombuffer(found[24:], np.float32)).tolist() == [0, 0, 1, 0, 0]


def test_the_tensor_is_named_though_its_neighbours_are_computed_with_it() -> None:
    spec = float_spec(3, 0, 5, 4)
    arrays = {f"t{n}": np.zeros(size, np.float32) for n, size in enumerate((3, 0, 5, 4))}
    arrays["t2"][4] = math.nan
    with pytest.raises(ContributorFailed) as failed:
        combined(pattern_model(spec), [Given(source_of(arrays))])
    error = failed.value.__cause__
    assert isinstance(error, NonFiniteUpdate)
    assert (error.tensor, error.index) == ("t2", 4)


def test_weights_that_are_all_zero_have_no_mean() -> None:
    with pytest.raises(QuorumNotReached, match="weight 0"):
        combined(pattern_model(float_spec(3)), [Given(pattern_model(float_spec(3)), weight=0.0)])
