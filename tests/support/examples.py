"""How much is tried where chance picks: a quarter in ``make test``, all in ``make test-all``."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["examples", "scaled"]

_DEFAULT = 100


def examples(count: int) -> settings:
    """Draw ``count`` examples in the full profile, and a quarter of them in the quick one."""
    return settings(max_examples=max(10, scaled(count)))


def scaled(count: int) -> int:
    """Return ``count``, or a quarter of it in the quick profile; for tests marked ``sampled``."""
    profile = settings.get_profile(settings.get_current_profile_name())
    return count * profile.max_examples // _DEFAULT
