"""What lossy formats save and lose: judged by each model that was sent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import lossy
from benchmarks.lossy import CASES, Sent

GOOD = Sent(1000, 255, 0.1, 0.0003, 0.01, 0.1)


def test_a_format_that_saves_enough_and_keeps_to_its_bound_meets_the_claim() -> None:
    assert lossy.is_met({"int8": [GOOD], "plain": [replace(GOOD, wire_bytes=1000, max_abs=0.0)]})


@pytest.mark.parametrize(
    "worse", [replace(GOOD, wire_bytes=270), replace(GOOD, max_abs=0.1 / 254 * 1.01)]
)
def test_one_model_that_is_worse_does_not(worse: Sent) -> None:
    assert not lossy.is_met({"int8": [GOOD, worse]})


@pytest.mark.processes
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_format_is_measured_and_meets_the_claim(case: lossy.Case) -> None:
    found = lossy.measure(case, 4 << 20)
    assert 1 <= len(found) < lossy.ROUNDS
    assert lossy.is_met({case.name: found})
