"""What goes wrong inside a framework: each failure in both lines, with two sizes of the model."""

from __future__ import annotations

from itertools import product

import pytest

from benchmarks.integrations.cases import FAILURES, OURS

__all__ = ["failing"]

SIZES = (16_000_000, 256_000_000)
QUICK = {("cut", "first"), ("killed", "second")}
"""Those that ``SMALL=1`` runs, with the small model: the others wait for a timeout, or run a second
job."""


def failing(*failures: str) -> pytest.MarkDecorator:
    """Run a test with ``failure``, ``line`` and ``size``; without a name, with all failures."""
    return pytest.mark.parametrize(
        ("failure", "line", "size"),
        [
            pytest.param(failure, line, size, marks=_marks(failure, line, size))
            for size, failure, line in product(SIZES, failures or FAILURES, OURS)
        ],
    )


def _marks(failure: str, line: str, size: int) -> list[pytest.MarkDecorator]:
    is_quick = size == SIZES[0] and (failure, line) in QUICK
    return [pytest.mark.integrations(small=True)] if is_quick else []
