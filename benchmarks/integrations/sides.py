"""Watches the memory of the sides of a case: all processes of a side, at the same moment.

A process belongs to a case and a side by its environment, which its children inherit, so that
whatever a framework starts, and whatever makes itself a daemon, is found. Memory is the
proportional set size (PSS): pages that several processes share are counted once over all of them.
What lies in /dev/shm is added.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

from benchmarks.integrations.cases import Memory
from benchmarks.processes import Watching

__all__ = ["Look", "Sides", "is_in_memory", "processes_of", "pss"]

_SHM = Path("/dev/shm")


def is_in_memory(folder: Path) -> bool:
    """Tell whether files in ``folder`` lie in memory, as on a tmpfs: no process has their pages."""
    path = folder.resolve()
    mounts = {Path(each.mountpoint): each.fstype for each in psutil.disk_partitions(all=True)}
    # The innermost mount; of several at one place, psutil lists the one that is seen last.
    at = next((each for each in (path, *path.parents) if each in mounts), None)
    return at is not None and mounts[at] in ("tmpfs", "ramfs")


@dataclass(frozen=True)
class Look:
    """One look at all processes of a case: ``at`` by the clock of the marks."""

    at: float
    pss: dict[int, int]
    """By process id (bytes)."""
    shm_bytes: int
    """What lies in /dev/shm, beyond what was there at the start."""


@dataclass
class Sides(Watching):
    """Looks at the processes of the case ``name`` while its ``with`` block runs.

    Args:
        limit_bytes: the most that all sides may have together.
        on_limit: called once, with the reason, when they have more, or the machine has none left.
        told: a file that grows by a byte with each look, for processes that wait for one.
    """

    name: str
    limit_bytes: int
    on_limit: Callable[[str], None]
    told: Path | None = None
    interval_seconds: float = 0.1
    least_free_bytes: int = 1 << 30
    looks: list[Look] = field(default_factory=list)
    side_of: dict[int, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._shm_before = _shm_bytes()
        return super().__enter__()

    def memory(self, idle: dict[int, tuple[float, float]]) -> dict[str, Memory]:
        """Return each side's memory.

        Args:
            idle: when a process said that nothing of a model was in it yet (from, to). One that
                never said so has no base: all of its memory counts.
        """
        bases = {pid: self._base(pid, *span) for pid, span in idle.items()}
        sides = dict.fromkeys(side for side in self.side_of.values() if side)
        return {side: self._memory_of(side, bases) for side in sides}

    def _base(self, pid: int, start: float, end: float) -> int:
        seen = [(look.at, look.pss[pid]) for look in self.looks if look.pss.get(pid)]
        found = [size for at, size in seen if start <= at <= end]
        # None in that span: the last one before it is nearer to the truth than nothing.
        return min(found or [size for at, size in seen if at < start][-1:], default=0)

    def _memory_of(self, side: str, bases: dict[int, int]) -> Memory:
        peak = over = shared = base_at_peak = 0
        for look in self.looks:
            here = {pid: size for pid, size in look.pss.items() if self.side_of.get(pid) == side}
            # /dev/shm tells nobody's side; what a framework puts there is counted to its server.
            shm = look.shm_bytes if side == "server" else 0
            total, base = sum(here.values()) + shm, sum(bases.get(pid, 0) for pid in here)
            if total > peak:
                peak, base_at_peak, shared = total, base, shm
            over = max(over, total - base)
        return Memory(base_at_peak, peak, over, shared)

    def _look(self) -> None:
        found = processes_of(self.name)
        for pid, side in found.items():
            self.side_of.setdefault(pid, side)
        sizes = {pid: size for pid in found if (size := pss(pid))}
        shm_bytes = max(0, _shm_bytes() - self._shm_before)
        self.looks.append(Look(time.monotonic(), sizes, shm_bytes))
        if self.told is not None:
            with self.told.open("ab") as file:
                file.write(b".")
        total = sum(sizes.values()) + shm_bytes
        if total > self.limit_bytes:
            self._over(f"all sides together have {total / 1e9:.1f} GB")
        elif psutil.virtual_memory().available < self.least_free_bytes:
            self._over(f"the machine has no memory left; all sides have {total / 1e9:.1f} GB")

    def _over(self, why: str) -> None:
        report, self.on_limit = self.on_limit, lambda _: None
        report(why)


def processes_of(case: str) -> dict[int, str]:
    """Return the processes that belong to a case, and the side of each, by their environments."""
    wanted, found = f"STREAMLINK_CASE={case}".encode(), {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            environment = Path(entry.path, "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has just ended, or belongs to somebody else
        if wanted in environment:
            sides = [each for each in environment if each.startswith(b"STREAMLINK_SIDE=")]
            found[int(entry.name)] = sides[0].partition(b"=")[2].decode() if sides else ""
    return found


def pss(pid: int) -> int:
    """Return a process's proportional set size (bytes); 0 if it has ended, or is a zombie."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    kilobytes = [int(line.split()[1]) for line in lines if line.startswith("Pss:")]
    return kilobytes[0] * 1024 if kilobytes else 0


def _shm_bytes() -> int:
    """Return what lies in /dev/shm, by blocks: mapped parts are in somebody's PSS as well."""
    try:
        return sum(path.stat().st_blocks * 512 for path in _SHM.rglob("*") if path.is_file())
    except OSError:
        return 0  # files vanish while they are counted
