"""A model seen through lossy formats: what is rounded, in what blocks, and what is left of it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.encodings.codec import Place
from streamlink.encodings.int8 import Int8
from streamlink.encodings.packed import SLICE_ELEMENTS
from streamlink.encodings.registry import lossy_formats, new_codec
from streamlink.encodings.rounder import RoundedSource, Rounder, formats_of
from streamlink.errors import ModelError
from streamlink.model.computed import GeneratedModel
from streamlink.model.rounding import RoundingError, meter_of
from streamlink.model.spec import BLOCK_ELEMENTS, ModelSpec, TensorSpec
from streamlink.stores.memory import ArrayModel
from tests.support.models import content

Array = npt.NDArray[Any]

RNG = np.random.default_rng(7)
MODEL = ArrayModel(
    {
        "odd": np.arange(3, dtype=np.uint8),
        "head.weight": RNG.standard_normal((31, 37)).astype(np.float32),
        "empty": np.zeros((0, 3), np.float32),
        "scalar": np.full((), 0.1, np.float64),
        "half": RNG.standard_normal(700).astype(np.float16),
        "body.weight": RNG.standard_normal(SLICE_ELEMENTS + 77).astype(np.float32),
        "steps": np.arange(300),
        "complex": np.full(9, 0.1j, np.complex64),
    }
)
WHOLE = content(MODEL)


class Kept:
    """Keeps remainders in memory, of this update and of the one before."""

    def __init__(self) -> None:
        self.last: dict[str, Array] = {}
        self.next: dict[str, Array] = {}

    def take(self, tensor: TensorSpec, start: int, count: int) -> Array:
        if tensor.name not in self.last:
            return np.zeros(count, tensor.numpy_dtype)
        return self.last[tensor.name][start : start + count]

    def put(self, tensor: TensorSpec, start: int, values: Array) -> None:
        there = self.next.setdefault(tensor.name, np.zeros(tensor.count, tensor.numpy_dtype))
        there[start : start + values.size] = values


def seen(rules: Sequence[str], feedback: Kept | None = None) -> RoundedSource:
    return RoundedSource(MODEL, Rounder(MODEL.spec, formats_of(rules, MODEL.spec), feedback))


def measured(source: RoundedSource) -> RoundingError:
    meter = meter_of(source)
    assert meter is not None
    return meter.measured


def test_the_first_rule_that_matches_counts_and_only_what_gets_smaller_is_rounded() -> None:
    formats = formats_of(["head.*=fp16", "*.weight=int8", "*=bf16"], MODEL.spec)
    assert {name: each.name for name, each in formats.items()} == {
        "head.weight": "fp16",
        "body.weight": "int8",
        "scalar": "bf16",
        "empty": "bf16",
    }
    assert set(formats_of(["half=int8"], MODEL.spec)) == {"half"}


def test_a_rule_that_matches_no_tensor_is_refused() -> None:
    with pytest.raises(ModelError, match=r"no tensor's name matches the pattern 'tail\.\*'"):
        formats_of(["*=fp16", "tail.*=int8"], MODEL.spec)


def test_formats_are_offered_once_and_the_smallest_first() -> None:
    assert lossy_formats(["a=bf16", "b=int8", "c=bf16"]) == ("int8", "bf16")
    assert lossy_formats([]) == ()


def test_each_tensor_is_rounded_by_its_format_and_the_others_stay() -> None:
    rounded = content(seen(["*.weight=int8"]))
    offset = 0
    for tensor in MODEL.spec.tensors:
        piece = slice(offset, offset + tensor.nbytes)
        values = np.frombuffer(WHOLE[piece], tensor.numpy_dtype)
        expected = Int8().rounded(values) if tensor.name.endswith("weight") else values
        assert rounded[piece] == expected.tobytes(), tensor.name
        offset += tensor.nbytes


@given(edges=st.lists(st.integers(0, MODEL.spec.nbytes), max_size=6))
def test_how_it_is_read_changes_no_bit_and_no_measurement(edges: list[int]) -> None:
    whole = seen(["*=int8"])
    expected = content(whole)
    source, read = seen(["*=int8"]), bytearray()
    for stop in [*sorted(edges), MODEL.spec.nbytes]:
        read += b"".join(source.read(len(read), stop - len(read)))
    assert bytes(read) == expected
    one, other = measured(source), measured(whole)
    assert (one.elements, one.max_abs) == (other.elements, other.max_abs)
    assert one.relative_rms == pytest.approx(other.relative_rms)


def test_the_error_that_is_measured_is_that_of_what_was_sent() -> None:
    source = seen(["body.*=int8"])
    rounded = content(source)
    start = MODEL.spec.offset_of(MODEL.spec.names["body.weight"])
    length = 4 * (SLICE_ELEMENTS + 77)
    before, after = (
        np.frombuffer(data[start : start + length], np.float32).astype(np.float64)
        for data in (WHOLE, rounded)
    )
    found = measured(source)
    assert (found.formats, found.elements) == (("int8",), before.size)
    assert found.max_abs == np.abs(after - before).max()
    share = np.linalg.norm(after - before) / np.linalg.norm(before)
    assert found.relative_rms == pytest.approx(float(share))


def test_where_no_tensor_has_a_format_nothing_is_measured() -> None:
    source = seen(["steps=int8"])
    assert content(source) == WHOLE
    assert source.meter is None


def test_what_was_lost_in_one_update_is_sent_with_a_later_one() -> None:
    feedback, rounds, total = Kept(), 20, np.zeros(31 * 37)
    start = MODEL.spec.offset_of(MODEL.spec.names["head.weight"])
    for _ in range(rounds):
        sent = content(seen(["head.*=int8"], feedback))[start : start + 4 * 31 * 37]
        total += np.frombuffer(sent, np.float32)
        feedback.last, feedback.next = feedback.next, {}
    wanted = rounds * np.frombuffer(WHOLE[start : start + 4 * 31 * 37], np.float32).astype(float)
    left = feedback.last["head.weight"]
    # All that was not sent is what is left; without feedback the errors would add up.
    assert total + left == pytest.approx(wanted, abs=1e-5)
    once = np.frombuffer(content(seen(["head.*=int8"]))[start : start + 4 * 31 * 37], np.float32)
    assert np.abs(total - wanted).max() < 0.2 * np.abs(rounds * once.astype(float) - wanted).max()


def test_a_read_again_leaves_the_same() -> None:
    feedback = Kept()
    feedback.last = {"head.weight": np.full(31 * 37, 0.001, np.float32)}
    source = seen(["head.*=int8"], feedback)
    first, kept = content(source), feedback.next["head.weight"].copy()
    assert content(source) == first
    assert (feedback.next["head.weight"] == kept).all()


def test_of_nan_and_infinity_nothing_is_left() -> None:
    feedback = Kept()
    model = ArrayModel({"x": np.array([np.nan, np.inf, 0.1, 1e6], np.float32)})
    rounder = Rounder(model.spec, formats_of(["x=fp16"], model.spec), feedback)
    content(RoundedSource(model, rounder))
    left = feedback.next["x"]
    assert list(left[[0, 1, 3]]) == [0, 0, 0]
    assert left[2] == np.float32(0.1) - np.float32(np.float16(0.1))


def test_a_range_that_begins_inside_a_block_is_refused_where_blocks_count() -> None:
    values = np.zeros(10, np.float32)
    tensor = MODEL.spec.tensors[MODEL.spec.names["head.weight"]]
    for rules, start in ((["*=int8"], BLOCK_ELEMENTS), (["*=bf16"], 5)):
        Rounder(MODEL.spec, formats_of(rules, MODEL.spec))(tensor, start, values)
    with pytest.raises(ModelError, match="begins inside one, at element 5"):
        Rounder(MODEL.spec, formats_of(["*=int8"], MODEL.spec))(tensor, 5, values)


@pytest.mark.parametrize("format_", lossy_formats(["a=int8", "b=fp16", "c=bf16"]))
def test_memory_is_that_of_what_is_read_and_not_of_the_tensor(format_: str) -> None:
    def fill(tensor: TensorSpec, start: int, out: Array) -> None:
        out[:] = start % 1000

    spec = ModelSpec((TensorSpec("w", "F32", (2 << 20,)),))
    model = GeneratedModel(spec, fill)
    source = RoundedSource(model, Rounder(spec, formats_of([f"*={format_}"], spec)))
    codec = new_codec(format_)
    step = 512 << 10
    tracemalloc.start()
    try:
        for offset in range(100, spec.nbytes - step, step):
            codec.encode(source.read(offset, step), Place(spec, offset, step))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * step + (2 << 20)  # the chunks that ``stream_bytes`` counts, and slices
