"""Names for what a log says: an event that stays the same, and its facts, beside the sentence."""

from __future__ import annotations

from typing import Any

__all__ = ["is_news", "noted"]


def noted(event: str, **facts: str | float | bool) -> dict[str, Any]:
    """Return the ``extra`` of a log record; a log made of JSON shows it (docs/operations.md)."""
    return {"event": event, "facts": facts}


def is_news(count: int) -> bool:
    """Whether the ``count``-th of what may come in floods is worth a line: 1, 2, 4, ..."""
    return count & (count - 1) == 0
