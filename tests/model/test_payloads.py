from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.model.payloads import BufferPool, PayloadReader, as_bytes_view, join


@given(views=st.lists(st.binary(max_size=9)), data=st.data())
def test_a_payload_is_walked_in_any_pieces(views: list[bytes], data: st.DataObject) -> None:
    reader, expected = PayloadReader(tuple(map(memoryview, views))), b"".join(views)
    taken = b""
    while len(taken) < len(expected):
        taken += reader.take(data.draw(st.integers(0, len(expected) - len(taken))))
    assert taken == expected
    with pytest.raises(ValueError, match="fewer bytes"):
        reader.take(1)


def test_what_lies_in_one_view_is_not_copied() -> None:
    array = np.arange(10, dtype=np.uint8)
    reader = PayloadReader((array.data,))
    reader.take(4)
    assert np.shares_memory(np.asarray(reader.take(6)), array)


def test_a_payload_of_one_view_is_joined_without_a_copy() -> None:
    view = memoryview(b"abc")
    assert join((view,)) is view
    assert bytes(join((view, view))) == b"abcabc"
    assert bytes(join(())) == b""


def test_a_zero_dimensional_array_is_bytes_too() -> None:
    assert bytes(as_bytes_view(np.array(1, np.uint16))) == b"\x01\x00"


def test_a_buffer_comes_back_when_its_last_view_is_gone() -> None:
    pool = BufferPool(idle_bytes=100)
    view = pool.take(50)
    part = view[10:20].toreadonly()
    owner = address(view)
    del view
    gc.collect()
    assert address(pool.take(50)) != owner
    del part
    gc.collect()
    assert address(pool.take(40)) == owner


def test_what_lies_idle_is_bounded_and_fits() -> None:
    pool = BufferPool(idle_bytes=100)
    first, second = pool.take(60), pool.take(60)
    kept = address(second)
    del first
    del second
    assert address(pool.take(60)) == kept
    small = pool.take(10)
    assert small.nbytes == 10
    assert address(small) != kept


def address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).ctypes.data)
