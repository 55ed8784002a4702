"""Differences and other ways of coding, each on a small model."""

from __future__ import annotations

import pytest

from benchmarks.differences import CASES, WAYS, Case, measure


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.dtype} {case.name}")
def test_no_way_is_better_than_delta_but_for_another_model(case: Case) -> None:
    measured = measure(case, 1 << 20)
    delta = measured.ratios.pop("delta")
    assert set(measured.ratios) == set(WAYS)
    if case.learning_rate is None:
        assert delta == 1.0  # left to the next encoding
    else:
        assert delta > 0.99 * max(measured.ratios.values())
