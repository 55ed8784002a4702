"""Shapes of a model: equal totals, whole elements, and the judgement of their runs."""

from __future__ import annotations

import pytest

from benchmarks.arrays import MiB
from benchmarks.peers import Run
from benchmarks.processes import Usage
from benchmarks.shapes import is_met, shapes


@pytest.mark.parametrize("quick", [False, True])
def test_shapes_cut_their_bytes_into_equal_tensors_of_whole_elements(quick: bool) -> None:
    one, many, tiny = shapes(quick)
    assert one.total_bytes == many.total_bytes
    assert [case.total_bytes % (8 * case.tensors) for case in (one, many, tiny)] == [0, 0, 0]
    assert tiny.load.total_bytes // tiny.load.tensors == 4000


def _runs(rate: float, *, extra: int = 50 * MiB) -> list[Run]:
    used = Usage(0, 1000 + extra, 0.0)
    return [Run(1000, 1000 / rate, used, used)] * 5


@pytest.mark.parametrize(
    ("one", "tiny", "extra", "met"),
    [
        (3e9, 1e9, 50 * MiB, True),
        (1e9, 1e9, 50 * MiB, False),  # one tensor is much slower than 64
        (3e9, 5e7, 50 * MiB, False),  # tiny tensors take minutes
        (3e9, 1e9, 300 * MiB, False),  # memory follows the shape
    ],
)
def test_speed_and_memory_are_both_judged(one: float, tiny: float, extra: int, met: bool) -> None:
    assert is_met([_runs(one, extra=extra), _runs(3e9), _runs(tiny)]) is met
