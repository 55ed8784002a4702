"""A part is the tensors its patterns name, and reads give just their bytes of the whole."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import ModelError, SpecMismatch, StoreError
from streamlink.model.copy import TeeSink, copy_model
from streamlink.model.interfaces import ModelSource, Payload
from streamlink.model.part import (
    PartSink,
    PartSource,
    part_of,
    part_sink,
    part_source,
    place_in,
    require_part,
)
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.stores.memory import ArrayModel, MemoryStore
from tests.support.models import (
    SourceContract,
    arrays_of,
    content,
    fill,
    float_spec,
    model_specs,
    pattern_model,
)


def names(spec: ModelSpec) -> list[str]:
    return [tensor.name for tensor in spec.tensors]


def named(*names: str) -> ModelSpec:
    return ModelSpec(tuple(TensorSpec(name, "F32", (3,)) for name in names))


MODEL = named("block.0.w", "block.0.lora_a", "block.1.w", "block.1.lora_a", "head")


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([], names(MODEL)),
        (["*"], names(MODEL)),
        (["head"], ["head"]),
        (["head", "*.lora_?"], ["block.0.lora_a", "block.1.lora_a", "head"]),
        (["block.[1-9].*", "block.1.w"], ["block.1.w", "block.1.lora_a"]),
    ],
)
def test_patterns_choose_tensors_in_the_models_order(
    patterns: list[str], expected: list[str]
) -> None:
    assert names(part_of(MODEL, patterns)) == expected


def test_a_pattern_that_matches_nothing_is_named() -> None:
    with pytest.raises(ModelError, match=r"matches the pattern 'HEAD'; names are like 'block\.0"):
        part_of(MODEL, ["head", "HEAD"])
    with pytest.raises(ModelError, match=r"pattern 'lora_\*'"):
        part_of(MODEL, ["lora_*"])
    with pytest.raises(ModelError, match="no tensors"):
        part_of(ModelSpec(()), ["*"])


@given(model_specs(), st.text("abé?*[]!", min_size=1, max_size=4))
def test_patterns_match_as_file_names_do(spec: ModelSpec, pattern: str) -> None:
    expected = [name for name in names(spec) if fnmatchcase(name, pattern)]
    if expected:
        assert names(part_of(spec, [pattern])) == expected
    else:
        with pytest.raises(ModelError):
            part_of(spec, [pattern])


@given(model_specs(), st.data())
def test_any_part_gives_its_tensors_bytes(spec: ModelSpec, data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(spec.tensors)))
    chosen = [t for t, keep in zip(spec.tensors, kept, strict=False) if keep]
    tensors = tuple(data.draw(st.permutations(chosen)))  # files may have an order of their own
    part = PartSource(pattern_model(spec), ModelSpec(tensors))
    arrays = arrays_of(spec, content(pattern_model(spec)))
    expected = b"".join(arrays[tensor.name].tobytes() for tensor in tensors)
    assert content(part, data.draw(st.integers(1, 40))) == expected


class TestPartSource(SourceContract):
    whole = ModelSpec(
        (
            TensorSpec("first", "F16", (11,)),
            *SourceContract.spec.tensors[:2],
            TensorSpec("between", "U8", (0,)),
            *SourceContract.spec.tensors[2:4],
            TensorSpec("gap", "F64", (5,)),
            *SourceContract.spec.tensors[4:],
            TensorSpec("last", "F16", (11,)),
        )
    )

    @pytest.fixture
    def source(self) -> PartSource:
        return PartSource(pattern_model(self.whole), self.spec)

    @pytest.fixture
    def expected(self) -> bytes:
        arrays = arrays_of(self.whole, content(pattern_model(self.whole)))
        return b"".join(arrays[tensor.name].tobytes() for tensor in self.spec.tensors)


def test_every_byte_of_a_part_has_its_place_in_the_whole() -> None:
    shapes = {"a": 3, "none": 0, "b": 5, "c": 2, "d": 7}
    whole = ModelSpec(tuple(TensorSpec(name, "U8", (n,)) for name, n in shapes.items()))
    part = part_of(whole, ["none", "b", "d"])
    places = [place_in(whole, part, offset) for offset in range(part.nbytes)]
    assert places == [*range(3, 8), *range(10, 17)]
    assert place_in(whole, part, part.nbytes) == whole.nbytes
    with pytest.raises(ValueError, match="not inside"):
        place_in(whole, part, part.nbytes + 1)


def test_the_whole_is_given_by_the_source_itself() -> None:
    source = pattern_model(MODEL)
    assert part_source(source, ModelSpec(MODEL.tensors)) is source
    assert isinstance(part_source(source, named("head")), PartSource)


def test_neighbours_are_read_at_once_and_nothing_is_copied() -> None:
    reads: list[tuple[int, int]] = []
    arrays = arrays_of(MODEL, content(pattern_model(MODEL)))

    class Noting(ArrayModel):
        def read(self, offset: int, length: int) -> Payload:
            reads.append((offset, length))
            return super().read(offset, length)

    part = PartSource(Noting(arrays), part_of(MODEL, ["block.0.*", "block.1.w", "head"]))
    views = part.read(2, 46)
    assert reads == [(2, 34), (48, 12)]
    arrays["head"][:] = 5
    assert bytes(views[-1]) == arrays["head"].tobytes()


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (named("head", "tail"), "'tail' of the part is not in the model"),
        (float_spec(4), "'t0' of the part is not in the model"),
        (
            ModelSpec((TensorSpec("head", "F16", (6,)),)),
            r"'head' is F16 of shape \(6,\) in the part and F32 of shape \(3,\)",
        ),
    ],
)
def test_what_is_no_part_is_refused_in_words(part: ModelSpec, why: str) -> None:
    with pytest.raises(SpecMismatch, match=why):
        part_source(pattern_model(MODEL), part)


def test_closing_the_part_closes_the_whole() -> None:
    closed: list[bool] = []
    source = pattern_model(MODEL)
    source.close = lambda: closed.append(True)  # type: ignore[method-assign]
    PartSource(source, named("head")).close()
    assert closed == [True]


# --- taking a part of what arrives ----------------------------------------------------


@given(model_specs(), st.data())
def test_of_any_writes_the_part_is_kept(spec: ModelSpec, data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(spec.tensors)))
    chosen = [t for t, keep in zip(spec.tensors, kept, strict=False) if keep]
    part = ModelSpec(tuple(data.draw(st.permutations(chosen))))
    store, cuts = MemoryStore(), data.draw(st.lists(st.integers(0, max(spec.nbytes, 1))))
    sink = PartSink(store.begin(part), spec)
    fill(sink, content(pattern_model(spec)), [cut for cut in cuts if cut < spec.nbytes], seed=0)
    sink.commit()
    assert content(store.open()) == content(PartSource(pattern_model(spec), part))


def test_a_model_and_a_part_of_it_are_received_at_once() -> None:
    whole, part = MemoryStore(), MemoryStore()
    head = part_of(MODEL, ["*lora_a", "head"])
    copy_model(
        pattern_model(MODEL), TeeSink(part_sink(part.begin(head), MODEL), whole.begin(MODEL)), 10
    )
    assert content(whole.open()) == content(pattern_model(MODEL))
    assert content(part.open()) == content(PartSource(pattern_model(MODEL), head))


def test_a_sink_for_the_whole_is_taken_as_it_is() -> None:
    sink = MemoryStore().begin(MODEL)
    assert part_sink(sink, ModelSpec(MODEL.tensors)) is sink
    with pytest.raises(SpecMismatch, match="'t0' of the part is not in the model"):
        part_sink(MemoryStore().begin(float_spec(4)), MODEL)


def test_a_part_with_a_gap_is_not_committed_and_no_byte_lies_outside() -> None:
    sink = PartSink(MemoryStore().begin(named("head")), MODEL)
    sink.write(0, memoryview(bytes(MODEL.nbytes - 1)))
    with pytest.raises(StoreError, match="byte 11 of tensor 'head'"):
        sink.commit()
    with pytest.raises(ValueError, match=str(MODEL.nbytes)):
        sink.write(MODEL.nbytes - 1, memoryview(bytes(2)))
    sink.discard()


class Zeros(ModelSource):
    """A model of zeros that counts how often it is asked for some."""

    def __init__(self, spec: ModelSpec) -> None:
        self._spec, self.reads = spec, 0

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    def read(self, offset: int, length: int) -> Payload:
        self.reads += 1
        return (memoryview(bytes(length)),)

    def close(self) -> None:
        pass


class Nowhere:
    """Takes a model and keeps nothing."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec

    def write(self, offset: int, payload: memoryview) -> None:
        pass

    def commit(self, progress: object = None) -> None:
        pass

    def discard(self) -> None:
        pass


def lines_run(work: Callable[[], object]) -> int:
    """Count the lines of Python that ``work`` runs, those of every turn of a loop."""
    lines, before = 0, sys.gettrace()

    def note(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return note

    gc.disable()  # others' callbacks at a collection are lines, too
    sys.settrace(note)
    try:
        work()
    finally:
        sys.settrace(before)
        gc.enable()
    return lines


def every_second_of(tensors: int) -> tuple[Zeros, PartSource]:
    whole = Zeros(ModelSpec(tuple(TensorSpec(f"t{n}", "F32", (2,)) for n in range(tensors))))
    return whole, PartSource(whole, part_of(whole.spec, ["t*[02468]"]))


def test_a_read_costs_what_its_pieces_do_however_many_tensors_there_are() -> None:
    small, (whole, part) = every_second_of(10)[1], every_second_of(100_000)
    expected = lines_run(partial(small.read, 0, 16))
    for offset in (0, 200_000, part.spec.nbytes - 16):
        assert lines_run(partial(part.read, offset, 16)) == expected
    assert whole.reads == 3 * 2


def test_so_does_a_write() -> None:
    def sink(tensors: int) -> PartSink:
        whole, part = every_second_of(tensors)
        return PartSink(Nowhere(part.spec), whole.spec)

    small, large, payload = sink(10), sink(100_000), memoryview(bytes(32))
    expected = lines_run(partial(small.write, 0, payload))
    for offset in (0, 400_000, 800_000 - 32):
        assert lines_run(partial(large.write, offset, payload)) == expected


def test_names_are_looked_up_and_not_searched_for() -> None:
    spec = ModelSpec(tuple(TensorSpec(f"t{n}", "F32", (2,)) for n in range(10_000)))
    few, many = ([f"t{n}" for n in range(1, count, 2)] for count in (3, 2_001))
    more = lines_run(partial(part_of, spec, many)) - lines_run(partial(part_of, spec, few))
    # For each name 19 lines in Python 3.11 and 20 in 3.14; a search would take 10,000.
    assert more < 50 * len(many)


def test_a_store_is_opened_only_where_there_is_a_pattern_to_check() -> None:
    store, model = MemoryStore(), pattern_model(named("a", "b"))
    require_part(store, ())  # it holds no model, and is not asked for one
    copy_model(model, store.begin(model.spec))
    require_part(store, ("a",))
    with pytest.raises(ModelError, match="no tensor's name matches the pattern 'x'"):
        require_part(store, ("x",))
