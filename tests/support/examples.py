"""How much is tried where chance picks: a tenth in ``make test``, all in ``make test-all``."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import pytest
from hypothesis import settings

__all__ = ["examples", "few_of_products", "scaled"]

_DEFAULT = 100


def examples(count: int) -> settings:
    """Draw ``count`` examples in the full profile; in the quick one a tenth, and at least ten."""
    return settings(max_examples=max(10, scaled(count)))


def scaled(count: int) -> int:
    """Return ``count``, or a tenth of it in the quick profile; for tests marked ``sampled``."""
    profile = settings.get_profile(settings.get_current_profile_name())
    return max(1, count * profile.max_examples // _DEFAULT)


def few_of_products(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return what the quick profile runs, and what it leaves out: most cases of each ``product``.

    Of each test that is marked so it runs the first case and about one of four others, always the
    same. They are picked by a checksum: every fourth could have one value of a parameter in common.
    """
    few: list[pytest.Item] = []
    most: list[pytest.Item] = []
    begun: set[str] = set()
    for item in items:
        test = item.nodeid.partition("[")[0]
        is_left_out = (
            item.get_closest_marker("product") is not None
            and test in begun
            and crc32(item.nodeid.encode()) % 4 > 0
        )
        (most if is_left_out else few).append(item)
        begun.add(test)
    return few, most
