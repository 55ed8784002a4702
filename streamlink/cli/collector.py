"""Imports without garbage collection, which would look for garbage where there is none.

What an import makes is kept: functions, classes, modules. The collector visits all of it again and
again while it grows, which is a tenth of the time that a command takes to import.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["importing"]


@contextmanager
def importing() -> Iterator[None]:
    """Pause the garbage collector while the block imports modules."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
