"""Memory and processor time of a process and all its children, read from ``/proc``.

A framework is often several processes: what it costs is the sum over them. Imported in the
environments of the peers: the standard library only.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cpu_seconds", "members", "rss_bytes"]

_TICKS = os.sysconf("SC_CLK_TCK")
_USER_FIELD, _FIELDS = 11, 4  # utime, stime, cutime, cstime, counted behind the command's name


def members(root: int) -> list[int]:
    """Return ``root`` and all its descendants that are alive."""
    found, unread = [], [root]
    while unread:
        pid = unread.pop()
        found.append(pid)
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                path = Path(f"/proc/{pid}/task/{task}/children")
                unread += map(int, path.read_text("ascii").split())
        except OSError:
            continue  # it has ended
    return found


def rss_bytes(pids: list[int]) -> int:
    """Return the sum of their resident memory; one that has ended has none."""
    return sum(map(_rss_bytes, pids))


def cpu_seconds(pids: list[int]) -> float:
    """Return the processor time that they and their children that have ended have used."""
    return sum(map(_cpu_ticks, pids)) / _TICKS


def _rss_bytes(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text("ascii", errors="replace")
    except OSError:
        return 0
    lines = [line for line in text.splitlines() if line.startswith("VmRSS:")]
    return int(lines[0].split()[1]) * 1024 if lines else 0


def _cpu_ticks(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace")
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()
    return sum(map(int, fields[_USER_FIELD : _USER_FIELD + _FIELDS]))
