"""One step of a state: what is read ahead of the arithmetic, and what is written behind it."""

from __future__ import annotations

from collections import deque
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamlink.errors import StoreFull
from streamlink.model.digest import BLOCK_BYTES
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.rounds.aggregate.state import StateKeeper
from streamlink.rounds.aggregate.state_step import SLOT_BYTES, StateStep
from streamlink.stores import MemoryStore
from tests.support.states import advanced, pieces

SLOTS = {"momentum": 0.0, "second_moment": 0.25}
BLOCK = BLOCK_BYTES // 4  # elements of F32
F32 = np.dtype(np.float32)

# An element of 8 bytes lies across the end of each block, and the last one across the last end.
CUT = ModelSpec((TensorSpec("a", "F32", (1,)), TensorSpec("b", "F64", (2 * BLOCK_BYTES // 8,))))
LONG = ModelSpec((TensorSpec("a", "F32", (9 * BLOCK + 5,)),))


def memory_step(spec: ModelSpec, store: MemoryStore) -> StateStep:
    return StateStep((), (store.begin(spec),), (0.0,), ())


@pytest.mark.parametrize("spec", [CUT, LONG], ids=["cut", "long"])
def test_blocks_come_back_as_they_were_put_wherever_they_are_cut(
    spec: ModelSpec, tmp_path: Path
) -> None:
    keeper = StateKeeper(tmp_path, SLOTS, spec)
    advanced(keeper, spec, 1.0)
    advanced(keeper, spec, 0.5, 70_001)
    with closing(keeper.begin()) as step:
        for tensor in spec.tensors:
            for state in pieces(step, tensor):
                for values, first in zip(state, SLOTS.values(), strict=True):
                    assert (values == first + 1.5).all()


def test_both_parts_of_a_complex_number_begin_with_the_first_value(tmp_path: Path) -> None:
    tensor = TensorSpec("c", "C64", (3,))
    with closing(StateKeeper(tmp_path, SLOTS, ModelSpec((tensor,))).begin()) as step:
        for values, first in zip(step.take(np.dtype(np.complex64), 3), SLOTS.values(), strict=True):
            assert values.tolist() == 3 * [complex(first, first)]


def test_a_range_is_of_one_block(tmp_path: Path) -> None:
    with closing(StateKeeper(tmp_path, SLOTS, LONG).begin()) as step:
        sizes = []
        for _ in range(3):
            state = step.take(F32, BLOCK - 7)
            sizes.append(state[0].size)
            step.put(state)
    assert sizes == [BLOCK - 7, 7, BLOCK - 7]


def test_few_rooms_hold_a_state_of_any_size() -> None:
    rooms, store = set(), MemoryStore()
    with closing(memory_step(LONG, store)) as step:
        for _ in range(9):
            state = step.take(F32, BLOCK)
            rooms.add(state[0].ctypes.data)
            step.put(state)
    assert len(rooms) * BLOCK_BYTES < SLOT_BYTES


class FullSink:
    """A sink on a disk that has no room."""

    spec = LONG

    def write(self, offset: int, payload: memoryview) -> None:
        raise StoreFull("no room")

    def commit(self, progress: Any = None) -> None:
        raise AssertionError("nothing was stored")

    def discard(self) -> None:
        pass


def test_a_full_disk_fails_the_step_before_its_commit() -> None:
    with closing(StateStep((), (FullSink(),), (0.0,), ())) as step:
        step.put(step.take(F32, BLOCK))
        with pytest.raises(StoreFull, match="no room"):
            step.commit()


def test_a_full_disk_ends_the_arithmetic_early() -> None:
    with closing(StateStep((), (FullSink(),), (0.0,), ())) as step:
        ranges = pieces(step, LONG.tensors[0], BLOCK)
        with pytest.raises(StoreFull):
            deque(ranges, maxlen=0)


def test_a_step_that_is_closed_in_the_middle_leaves_no_thread_that_writes(tmp_path: Path) -> None:
    keeper = StateKeeper(tmp_path, SLOTS, LONG)
    advanced(keeper, LONG, 1.0)
    with closing(keeper.begin()) as step:
        step.put(step.take(F32, BLOCK))
    assert [each.name for each in tmp_path.glob("*/*/*.safetensors")] == [
        each.name for each in tmp_path.glob("step-1-*/*/*.safetensors")
    ]
