from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import CorruptStore, StoreError
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.stores.safetensors.header import encode_header, read_header
from tests.support.models import model_specs

GOOD = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def read(path: Path, content: bytes) -> Any:
    path.write_bytes(content)
    fd = os.open(path, os.O_RDONLY)
    try:
        return read_header(fd, path)
    finally:
        os.close(fd)


def file_of(header: Any, data_bytes: int) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(data_bytes)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "0 bytes are too few for a safetensors"),
        (b"1234567", "7 bytes are too few for a safetensors"),
        (b"\xff" * 100, "above the limit of 100000000"),
        (struct.pack("<Q", 100) + b"{}", "one that was cut short"),
        (file_of(b"\xff\xfe", 0), "JSON cannot be read"),
        (file_of(b"{", 0), "JSON cannot be read"),
        (file_of(b"[" * 100_000, 0), "JSON cannot be read"),
        (file_of([1], 0), "JSON is not an object"),
        (file_of({"a": 3}, 0), "exactly dtype, shape and data_offsets"),
        (file_of({"a": {**GOOD, "x": 1}}, 8), "exactly dtype, shape and data_offsets"),
        (file_of({"a": {**GOOD, "shape": [True]}}, 8), "lists of integers"),
        (file_of({"a": {**GOOD, "shape": 2}}, 8), "lists of integers"),
        (file_of({"a": {**GOOD, "data_offsets": [0]}}, 8), "lists of integers"),
        (file_of({"a": {**GOOD, "data_offsets": [-8, 0]}}, 8), "lists of integers"),
        (file_of({"a": {**GOOD, "data_offsets": [8, 0]}}, 8), "span -8 bytes"),
        (file_of({"a": {**GOOD, "shape": [3]}}, 8), "span 8 bytes, its shape needs 12"),
        (file_of({"a": {**GOOD, "shape": [1] * 300}}, 8), "a shape has at most"),
        (file_of({"a": GOOD, "b": {**GOOD, "data_offsets": [4, 12]}}, 12), "overlaps"),
        (file_of({"a": GOOD, "b": {**GOOD, "data_offsets": [9, 17]}}, 17), "leaves a hole"),
        (file_of({"a": GOOD}, 7), "7 bytes of data .* was cut short"),
        (file_of({"a": GOOD}, 9), "9 bytes of data .* belong to no tensor"),
        (file_of(b'{"a": 1, "b": 2, "a": 3}', 0), "key 'a' is there twice"),
        (file_of({"": GOOD}, 8), "name is empty"),
    ],
)
def test_a_header_that_lies_is_refused_in_words(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(CorruptStore, match=words):
        read(tmp_path / "f", content)


def test_an_unsupported_dtype_is_no_corruption(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="dtype 'F4' is not one of") as caught:
        read(tmp_path / "f", file_of({"a": {**GOOD, "dtype": "F4"}}, 8))
    assert not isinstance(caught.value, CorruptStore)


@given(content=st.binary(max_size=200) | st.binary(max_size=100).map(lambda b: file_of(b, 3)))
def test_arbitrary_bytes_are_refused_with_our_errors(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "arbitrary"
    try:
        read(path, content)
    except StoreError:
        return
    assert content[8:].strip().startswith(b"{")


def test_metadata_is_no_tensor(tmp_path: Path) -> None:
    header = read(tmp_path / "f", file_of({"__metadata__": {"format": "pt"}, "a": GOOD}, 8))
    assert header.tensors == (TensorSpec("a", "F32", (2,)),)


@given(spec=model_specs())
def test_an_encoded_header_is_read_back_aligned(
    tmp_path_factory: pytest.TempPathFactory, spec: ModelSpec
) -> None:
    text, offsets = encode_header(spec.tensors)
    header = read(tmp_path_factory.getbasetemp() / "encoded", text + bytes(spec.nbytes))
    assert (header.tensors, header.offsets) == (spec.tensors, offsets)
    for tensor, offset in zip(spec.tensors, offsets, strict=True):
        assert offset % tensor.itemsize == 0


def test_the_formats_own_name_is_refused() -> None:
    with pytest.raises(StoreError, match="rename the tensor"):
        encode_header([TensorSpec("__metadata__", "U8", ())])


def test_the_librarys_files_are_read(tmp_path: Path) -> None:
    arrays = {"b": np.arange(3, dtype=np.int8), "a": np.ones((2, 2)), "c": np.zeros((0, 2), "f2")}
    header = read(tmp_path / "f", safetensors.numpy.save(arrays, {"format": "np"}))
    assert {(t.name, t.dtype, t.shape) for t in header.tensors} == {
        ("b", "I8", (3,)),
        ("a", "F64", (2, 2)),
        ("c", "F16", (0, 2)),
    }
