"""The program ``auto``: it measures pairs of transfers, and judges their median."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import auto


def found(plain: float, *seconds: float) -> dict[str, Any]:
    return {"seconds": {"plain": [plain] * len(seconds), "auto": list(seconds)}}


@pytest.mark.parametrize(
    ("seconds", "met"), [((0.3, 0.31, 0.9), True), ((0.1, 0.31, 0.32), True), ((0.31, 0.32), False)]
)
def test_auto_is_judged_by_the_median_of_its_pairs(seconds: tuple[float, ...], met: bool) -> None:
    assert auto.is_met(found(0.303, *seconds)) is met


@pytest.mark.processes
def test_a_quick_run_moves_both_kinds_of_weights_in_pairs() -> None:
    result = auto.run(quick=True)
    assert result.met is None
    runs = result.facts["runs"].values()
    assert [set(map(len, each["seconds"].values())) for each in runs] == [{2}, {2}]
    assert all({*each["wire_bytes"]["plain"]} == {each["model_bytes"]} for each in runs)
    assert len(result.rows) == len(result.facts["ratios"]) == 2
