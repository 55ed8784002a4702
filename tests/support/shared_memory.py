"""Looks at each deal of a shared memory, while the budget's lock is held."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from streamlink.protocol.memory_budget import MemoryBudget, Need

__all__ = ["Deals", "watched_deals"]


class Deals:
    """What was dealt while it looked on; collects faults, which a thread of ours would swallow."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.peak_bytes = 0
        """The most that was reserved or dealt at once."""
        self.most: dict[Hashable, int] = {}
        """The most that each stream had."""
        self.gone: set[Hashable] = set()

    def settling(self, budget: MemoryBudget, stream: Hashable, need: Need) -> None:
        if need.held > budget.dealt(stream):
            self.faults.append(f"holds {need.held} of {budget.dealt(stream)} bytes")

    def settled(self, budget: MemoryBudget, stream: Hashable) -> None:
        dealt = budget.dealt(stream)
        if dealt < budget.minimum(stream):
            self.faults.append(f"has {dealt} bytes, less than its minimum")
        if budget.dealt_bytes > budget.total_bytes:
            self.faults.append(f"{budget.dealt_bytes} of {budget.total_bytes} bytes are dealt")
        self.peak_bytes = max(self.peak_bytes, budget.dealt_bytes)
        self.most[stream] = max(dealt, self.most.get(stream, 0))

    def left(self, budget: MemoryBudget, stream: Hashable) -> None:
        self.gone.add(stream)

    def assert_kept(self, most: int) -> None:
        """Check that the sum was ``most`` at most, nobody starved, and all was returned."""
        assert not self.faults, self.faults[:5]
        assert 0 < self.peak_bytes <= most
        assert self.gone >= self.most.keys(), "a stream has kept its share"


@contextmanager
def watched_deals() -> Iterator[Deals]:
    """Look at all deals of this process within the block."""
    MemoryBudget.observer = deals = Deals()
    try:
        yield deals
    finally:
        MemoryBudget.observer = None
