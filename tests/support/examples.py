"""How many examples Hypothesis draws where its default, 25 or 100, is not the number."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["examples"]

_DEFAULT = 100


def examples(count: int) -> settings:
    """Draw ``count`` examples in the full profile, and as much fewer as others in the quick one."""
    profile = settings.get_profile(settings.get_current_profile_name())
    return settings(max_examples=max(10, count * profile.max_examples // _DEFAULT))
