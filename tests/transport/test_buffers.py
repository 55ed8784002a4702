"""Memory for payloads is used again, and never while somebody reads it."""

from __future__ import annotations

import threading
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


def test_after_the_end_nothing_is_kept() -> None:
    buffers = Buffers()
    first, second = buffers.take(4096), buffers.take(4096)
    kept = [weakref.ref(np.asarray(each.obj).base) for each in (first, second)]
    del first
    buffers.close()
    assert kept[0]() is None, "it was spare"
    del second
    assert kept[1]() is None, "it came later"


def test_readers_of_several_lanes_never_get_the_same_memory() -> None:
    buffers, sizes = Buffers(), (4096, 8192)
    wrong: list[int] = []

    def read(number: int) -> None:
        for turn in range(300):
            nbytes = sizes[(turn // 50 + number) % 2]
            view = buffers.take(nbytes)
            view[:] = bytes([number]) * nbytes
            if len(view) != nbytes or set(view) != {number}:
                wrong.append(number)

    readers = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for each in readers:
        each.start()
    for each in readers:
        each.join()
    assert not wrong


def test_no_more_is_kept_for_later_than_it_may() -> None:
    buffers = Buffers()
    views = [buffers.take(4096) for _ in range(4)]
    kept = [weakref.ref(np.asarray(view.obj).base) for view in views]
    buffers.keep(2 * 4096)
    views.clear()
    assert sum(each() is not None for each in kept) == 2
    buffers.keep(4096)
    assert sum(each() is not None for each in kept) == 1
    buffers.keep(0)
    assert sum(each() is not None for each in kept) == 0
    assert len(buffers.take(4096)) == 4096
