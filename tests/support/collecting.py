"""Runs the garbage collector where it hurts: inside the shelf of a server, with its lock."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["CollectingSeconds", "collecting_only_there", "in_cycle"]


class CollectingSeconds(float):
    """A time to live: whenever the shelf looks whether it is over, garbage is collected.

    That is within a loop over all objects. An object with this ``ttl`` must not be the last that
    is put, since a loop notices only at its next step that something was removed.
    """

    def __radd__(self, other: float) -> CollectingSeconds:
        return CollectingSeconds(other + float(self))

    def __le__(self, other: float) -> bool:
        gc.collect()
        return float(self) <= other


def in_cycle(thing: object) -> None:
    """Leave ``thing`` to the collector, as an exception leaves what its traceback names."""
    cycle = [thing]
    cycle.append(cycle)


@contextmanager
def collecting_only_there() -> Iterator[None]:
    """Turn automatic garbage collection off within the block."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
