"""Profiles of memray and folders of runs, as tests of the analysis need them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from streamlink.profiling.heap.record import ProcessRecord, profile_name

__all__ = ["MODEL_BYTES", "a_record", "write_profile"]

MODEL_BYTES = 10_000_000

_PROGRAM = """
import mmap, os, signal, sys
import memray
with memray.Tracker(sys.argv[1]):
    held = mmap.mmap(-1, int(sys.argv[2]))
    many = [bytearray(1000 + number) for number in range(3000)]
    if sys.argv[3] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def write_profile(path: Path, nbytes: int, *, is_killed: bool = False) -> None:
    """Let memray watch a process that maps ``nbytes`` and allocates 3,000 small blocks."""
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [sys.executable, "-c", _PROGRAM, path, str(nbytes), "killed" if is_killed else "whole"],
        check=not is_killed,
    )


def a_record(
    version: str = "original",
    *,
    role: str = "server",
    client: int | None = None,
    over: int = 1_000_000,
    seconds: float = 1.0,
    repeat: int = 1,
    profiled: bool = False,
    **facts: Any,
) -> ProcessRecord:
    """A record of a process that rose ``over`` bytes over its base in two rounds of ``seconds``."""
    name = profile_name(version, repeat, client=client, rank=facts.get("rank"))
    given = {
        "version": version,
        "repeat": repeat,
        "role": role,
        "client": client,
        "rank": None,
        "carrier": "grpc",
        "profiled": profiled,
        "profile": name if profiled else None,
        "base_bytes": 50_000_000,
        "peak_bytes": 50_000_000 + over,
        "model_bytes": MODEL_BYTES,
        "samples": [(0.0, 50_000_000), (1.0, 50_000_000 + over)],
        "rounds": [{"round": number, "seconds": seconds} for number in range(2)],
        "error": None,
    }
    return ProcessRecord.model_validate({**given, **facts})
