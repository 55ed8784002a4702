"""How much memory a process holds, as the kernel counts it, and how much there is."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import psutil

__all__ = [
    "available_bytes",
    "give_back_freed_memory",
    "peak_bytes",
    "reset_peak",
    "resident_bytes",
]

_RESET_PEAK = "5"  # see proc(5), clear_refs
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of <malloc.h>
_SMALL_BYTES = 1 << 16


def reset_peak() -> None:
    """Let the peak of this process begin anew, from what is resident now.

    Raises:
        OSError: the kernel does not allow it (it is not Linux, or a sandbox forbids it).
    """
    Path("/proc/self/clear_refs").write_text(_RESET_PEAK, encoding="ascii")


def peak_bytes() -> int:
    """Return the most that was resident since the last reset (``VmHWM``), in bytes."""
    return _status("VmHWM")


def resident_bytes() -> int:
    """Return what is resident now (``VmRSS``), in bytes."""
    return _status("VmRSS")


def give_back_freed_memory() -> None:
    """Let malloc return freed blocks of 64 KiB and more to the kernel at once.

    By default glibc keeps blocks of up to 32 MiB, the more the longer a process runs: a peak would
    count what one step before it has freed. Does nothing where there is no ``mallopt``.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _SMALL_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _SMALL_BYTES)


def available_bytes() -> int:
    """Return what may still be allocated: of the machine, and of this process's control group."""
    return min([psutil.virtual_memory().available, *_group_left()])


def _status(key: str) -> int:
    found = re.search(rf"^{key}:\s+(\d+) kB$", Path("/proc/self/status").read_text("ascii"), re.M)
    if found is None:
        raise OSError(f"/proc/self/status has no {key}; peaks are measured on Linux only")
    return int(found[1]) * 1024


def _group_left() -> list[int]:
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text("ascii").strip()
        used = (group / "memory.current").read_text("ascii").strip()
        cache = dict(
            line.split() for line in (group / "memory.stat").read_text("ascii").splitlines()
        )
    except OSError:
        return []
    if not limit.isdigit():
        return []
    # Pages of files that nobody uses just now are given up before anybody runs out of memory.
    return [max(0, int(limit) - int(used) + int(cache.get("inactive_file", 0)))]
