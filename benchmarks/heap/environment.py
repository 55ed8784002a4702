"""The environment of APPFL with memray: apart from that of the integrations, and built once."""

from __future__ import annotations

import fcntl
import shutil
from dataclasses import replace
from pathlib import Path

from benchmarks.integrations.environments import PINS, build, digest_of, install

__all__ = ["python"]

MEMRAY = "memray==1.20.0"


def python() -> Path:
    """Return its python; build it if it is not there.

    Raises:
        NoEnvironment: no index has APPFL.
        BrokenEnvironment: it cannot be built.
    """
    wanted = replace(PINS["appfl"], wants=(*PINS["appfl"].wants, MEMRAY))
    folder = build("appfl").parents[2] / f"appfl-memray-{digest_of(wanted)}"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "whole").exists():
            shutil.rmtree(folder, ignore_errors=True)
            install(folder, wanted)
            (folder / "whole").touch()
    return folder / "bin" / "python"
