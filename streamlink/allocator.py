"""Keeps glibc from giving chunk-sized buffers back to the kernel after each use.

A chunk is a few MiB, and glibc serves such blocks with ``mmap`` and returns them with ``munmap``:
every chunk pays for fresh, zeroed pages, which costs more than copying its bytes does. Programs
that *own* their process (the command line, the examples, the benchmarks) call ``tune_allocator``
once at their start; a library must not decide this for the program it is embedded in, so importing
does nothing.
"""

from __future__ import annotations

import ctypes
import sys

__all__ = ["tune_allocator"]

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # <malloc.h>
_KEEP_BYTES = 64 << 20
_MMAP_ABOVE_BYTES = 32 << 20  # glibc's largest
_ARENAS = 1


def tune_allocator() -> bool:
    """Make this process reuse chunk-sized memory. Price: up to 64 MiB kept.

    Returns:
        Whether it took effect; False where the C library is not glibc.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    # Setting a threshold also stops glibc from adapting it. The number of arenas counts only for
    # arenas that do not exist yet, so it must be set before there are threads.
    settings = (
        (_M_MMAP_THRESHOLD, _MMAP_ABOVE_BYTES),
        (_M_TRIM_THRESHOLD, _KEEP_BYTES),
        (_M_ARENA_MAX, _ARENAS),
    )
    return all(mallopt(name, value) == 1 for name, value in settings)
