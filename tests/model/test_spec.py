from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import ModelError, SpecMismatch, UnsupportedDtype
from streamlink.model.spec import DTYPES, ModelSpec, TensorSpec, dtype_name, require_same
from tests.support.models import model_specs

TWO = ModelSpec((TensorSpec("a", "F32", (2, 3)), TensorSpec("b", "I8", ())))


def test_sizes_follow_from_dtype_and_shape() -> None:
    tensor = TensorSpec("a", "BF16", (2, 3))
    assert (tensor.itemsize, tensor.count, tensor.nbytes) == (2, 6, 12)
    assert TensorSpec("a", "F64", ()).nbytes == 8
    assert TensorSpec("a", "F64", (3, 0)).nbytes == 0


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_is_found_again_by_its_name(name: str) -> None:
    assert dtype_name(TensorSpec("a", name, ()).numpy_dtype) == name


def test_integers_of_numpy_count_as_dimensions() -> None:
    assert TensorSpec("a", "U8", (np.int64(3),)).shape == (3,)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        (np.dtype("O"), "does not pickle"),
        (np.dtype("f4,i4"), "structured"),
        (np.dtype(">f4"), "big-endian; convert it first"),
        (np.dtype("c16"), "the only complex type"),
        (np.dtype("longdouble"), "cast it to float64"),
        (np.dtype("U3"), "holds text"),
        (np.dtype("S3"), "holds text"),
        (np.dtype("M8[s]"), "view\\('int64'\\)"),
        (np.dtype("m8[s]"), "dates or times"),
        (np.dtype("V3"), "the supported ones are BOOL"),
    ],
)
def test_dtypes_that_cannot_travel_are_refused_in_words(dtype: np.dtype[Any], words: str) -> None:
    with pytest.raises(UnsupportedDtype, match=words):
        dtype_name(dtype)


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("", (1,), "name is empty"),
        ("x" * 4097, (1,), "4097 bytes"),
        ("é" * 2049, (1,), "4098 bytes"),
        ("\ud800", (1,), "not valid Unicode"),
        ("a", (2, -1), "negative"),
        ("a", (1.5,), "not made of integers"),
        ("a", (1,) * 256, "a shape has at most"),
        ("a", (1 << 64, 0), "a shape has at most"),
    ],
)
def test_impossible_tensors_are_refused(name: str, shape: Any, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        TensorSpec(name, "F32", shape)


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(UnsupportedDtype, match=r"tensor 'a': dtype 'F4' is not one of BOOL"):
        TensorSpec("a", "F4", ())


def test_a_name_may_come_only_once() -> None:
    with pytest.raises(SpecMismatch, match="'t' is in the spec twice"):
        ModelSpec((TensorSpec("s", "U8", ()), *[TensorSpec("t", "U8", ())] * 2))


def test_a_model_beyond_63_bits_is_refused() -> None:
    with pytest.raises(ModelError, match="above the limit of"):
        ModelSpec((TensorSpec("t", "F64", (1 << 62,)),))


@given(spec=model_specs(), data=st.data())
def test_segments_cover_a_range_exactly_and_in_order(spec: ModelSpec, data: st.DataObject) -> None:
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, spec.nbytes)] * 2)))
    covered: list[int] = []
    for segment in spec.segments(start, stop - start):
        assert segment.tensor is spec.tensors[segment.index]
        assert 0 <= segment.start < segment.stop <= segment.tensor.nbytes
        base = spec.offset_of(segment.index)
        covered += range(base + segment.start, base + segment.stop)
    assert covered == list(range(start, stop))


@given(spec=model_specs())
def test_locate_is_the_inverse_of_offset_of(spec: ModelSpec) -> None:
    for offset in range(spec.nbytes):
        index, inside = spec.locate(offset)
        assert spec.offset_of(index) + inside == offset
        assert inside < spec.tensors[index].nbytes


def test_places_outside_the_model_are_refused() -> None:
    with pytest.raises(ValueError, match="byte 25 is not inside"):
        TWO.locate(25)
    with pytest.raises(IndexError, match="tensor 2 of 2"):
        TWO.offset_of(2)
    with pytest.raises(ValueError, match=r"\[20, 26\)"):
        TWO.segments(20, 6)


def test_positions_are_found_by_name() -> None:
    assert TWO.names == {"a": 0, "b": 1}


def test_the_digest_is_fixed_by_its_encoding() -> None:
    assert TWO.digest.hex() == ("e739e2011706a795b43f5b74392f5a4022838fc10de68cfdda10e8fd57b54388")
    assert ModelSpec(TWO.tensors).digest == TWO.digest


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (
            ModelSpec((TensorSpec("x", "F32", (2, 3)), TWO.tensors[1])),
            "tensor 0 differs: the server has 'a', site-1 'x'",
        ),
        (
            ModelSpec((TensorSpec("a", "F16", (2, 3)), TWO.tensors[1])),
            "dtype: the server has F32, site-1 F16",
        ),
        (
            ModelSpec((TensorSpec("a", "F32", (3, 2)), TWO.tensors[1])),
            r"the server has \(2, 3\), site-1 \(3, 2\)",
        ),
        (
            ModelSpec(TWO.tensors[:1]),
            r"site-1 lacks tensor 'b' \(the server has 2 tensors, site-1 1\)",
        ),
        (ModelSpec((*TWO.tensors, TensorSpec("c", "U8", ()))), "the server lacks tensor 'c'"),
    ],
)
def test_the_first_difference_is_told_in_words_that_name_both_sides(
    other: ModelSpec, words: str
) -> None:
    assert TWO.digest != other.digest
    with pytest.raises(SpecMismatch, match=f"site-1 has another model: .*{words}"):
        require_same(TWO, other, "site-1", "the server")


def test_equal_specs_have_no_difference() -> None:
    same = ModelSpec(TWO.tensors)
    require_same(TWO, same, "site-1", "the server")
    assert TWO.difference(same, "the server", "site-1") == ""


def test_blocks_are_counted_from_the_beginning_of_each_tensor() -> None:
    spec = ModelSpec(
        (TensorSpec("a", "U8", (3,)), TensorSpec("b", "F32", (300,)), TensorSpec("c", "U8", (0,)))
    )
    starts = [spec.block_start(offset) for offset in (0, 2, 3, 1026, 1027, 1202, 1203)]
    assert starts == [0, 0, 3, 3, 1027, 1027, 1203]
    with pytest.raises(ValueError, match="byte 1204"):
        spec.block_start(1204)
