"""Memory for payloads is used again, and never while somebody reads it."""

from __future__ import annotations

import weakref

import numpy as np

from streamlink.transport.buffers import Buffers


def address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).ctypes.data)


def test_memory_that_nobody_reads_any_more_is_used_again() -> None:
    buffers = Buffers()
    first = buffers.take(4096)
    was = address(first)
    del first
    assert address(buffers.take(4096)) == was


def test_memory_of_which_a_part_is_still_read_is_left_alone() -> None:
    buffers = Buffers()
    first = buffers.take(4096)
    first[:] = bytes([7]) * 4096
    part = first[1000:2000]
    del first
    buffers.take(4096)[:] = bytes([8]) * 4096
    assert set(part) == {7}


def test_memory_of_another_size_is_not_kept_for_later() -> None:
    buffers = Buffers()
    kept = weakref.ref(np.asarray(buffers.take(4096).obj).base)
    assert kept() is not None, "it is spare"
    buffers.take(8192)
    assert kept() is None
