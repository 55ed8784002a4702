"""Memory for large arrays that goes back to the system at once."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from streamlink.stores import ArrayModel, empty_bytes

MiB = 1 << 20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


@pytest.mark.parametrize("nbytes", [0, 1, 1000, MiB, 5 * MiB + 3])
def test_bytes_can_be_written_and_read(nbytes: int) -> None:
    array = empty_bytes(nbytes)
    array[:] = 7
    assert array.size == nbytes
    assert int(array.sum(dtype=np.int64)) == 7 * nbytes


def test_freed_arrays_leave_nothing_behind_between_those_that_stay() -> None:
    arrays = [empty_bytes(2 * MiB) for _ in range(64)]
    for array in arrays:
        array[:] = 1
    full = resident_bytes()
    del array, arrays[::2]
    assert full - resident_bytes() > 48 * MiB


def test_more_bytes_than_there_can_be_are_a_memory_error() -> None:
    with pytest.raises(MemoryError, match=str(1 << 60)):
        empty_bytes(1 << 60)


def test_such_an_array_is_not_taken_for_a_mapped_file() -> None:
    mapped = np.frombuffer(mmap.mmap(-1, MiB), np.float32)
    assert ArrayModel({"w": empty_bytes(MiB).view(np.float32)}).is_prompt
    assert not ArrayModel({"w": mapped}).is_prompt
