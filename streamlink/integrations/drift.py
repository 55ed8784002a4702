"""What was replaced or called in a framework, and how the installed version differs from that."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

__all__ = ["drift"]


def drift(found: Mapping[str, Any], known: Mapping[str, str]) -> list[str]:
    """Return how functions differ from what is known of them.

    Args:
        found: functions by name; None where there is none any more.
        known: their parameters, without ``self``, in a text such as ``"items, context"``.
    """
    differences = []
    for name, parameters in known.items():
        function = found.get(name)
        present = inspect.signature(function).parameters if function else ()
        now = ", ".join(each for each in present if each != "self")
        if now != parameters:
            differences.append(f"{name}({now}) was {name}({parameters})")
    return differences
