"""Pauses are random and bounded, and draw from nobody else's generator."""

from __future__ import annotations

import random

import pytest
from tenacity import RetryCallState, Retrying

from streamlink.transport.jitter import FullJitter, below


@pytest.mark.parametrize(("attempt", "limit"), [(1, 0.1), (2, 0.2), (3, 0.4), (20, 2.0)])
def test_a_pause_lies_between_nothing_and_a_limit_that_doubles(attempt: int, limit: float) -> None:
    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = attempt
    wait = FullJitter(multiplier=0.1, max=2.0)
    pauses = [wait(state) for _ in range(200)]
    assert 0 <= min(pauses) < 0.2 * limit
    assert 0.8 * limit < max(pauses) <= limit


def test_what_a_program_has_seeded_is_not_drawn_from() -> None:
    random.seed(7)
    before = random.getstate()
    assert 0 <= below(3.0) <= 3.0
    assert random.getstate() == before
