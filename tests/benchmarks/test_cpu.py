"""When the claim about the processor time of a server is met."""

from __future__ import annotations

import pytest

from benchmarks import cpu


@pytest.mark.parametrize(
    ("two", "sixty_four", "met"), [(0.4, 0.5, True), (0.41, 0.5, False), (0.4, 0.51, False)]
)
def test_both_numbers_of_clients_are_judged(two: float, sixty_four: float, met: bool) -> None:
    assert cpu.is_met({2: two, 16: 9.0, 64: sixty_four}) is met
