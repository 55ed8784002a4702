"""Looks at the memory of both ends while a model moves."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from benchmarks.links import trees
from benchmarks.links.cases import Moment
from benchmarks.processes import Watching

__all__ = ["Looks", "thinned"]

MOST_MOMENTS = 120
"""In a picture; and what keeps the file of raw results small."""


@dataclass
class Looks(Watching):
    """Looks at two trees of processes while its ``with`` block runs.

    Args:
        roots: the first process of each side, by role.
        interval_seconds: how often to look; a look at a process costs some 50 µs.
    """

    roots: dict[str, int]
    interval_seconds: float = 0.05
    seen: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """By role: when, by ``time.monotonic``, and resident memory (bytes)."""
    most_processes: int = 1

    def peak(self, role: str) -> int:
        """Return the highest sum of a side (bytes)."""
        return max((rss for _, rss in self.seen[role]), default=0)

    def moments(self, role: str, started_at: float, base_bytes: int) -> tuple[Moment, ...]:
        """Return what was seen of a side, by the clock of the run."""
        seen = [Moment(round(at - started_at, 3), rss - base_bytes) for at, rss in self.seen[role]]
        return thinned(seen)

    def _look(self) -> None:
        for role, root in self.roots.items():
            pids = trees.members(root)
            self.most_processes = max(self.most_processes, len(pids))
            self.seen.setdefault(role, []).append((time.monotonic(), trees.rss_bytes(pids)))


def thinned(moments: list[Moment], most: int = MOST_MOMENTS) -> tuple[Moment, ...]:
    """Return at most ``most`` of them, evenly, each the highest of those that it stands for."""
    step = -(-len(moments) // most) or 1
    groups = [moments[at : at + step] for at in range(0, len(moments), step)]
    return tuple(max(group, key=lambda each: each.over_base_bytes) for group in groups)
