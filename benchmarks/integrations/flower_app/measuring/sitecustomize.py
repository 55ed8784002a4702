"""Imported by Python in each process of a case: times Flower's own send and receive calls.

Only what each process of Flower itself does is wrapped, under the same names in every line.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

program = Path(sys.orig_argv[1]).name if len(sys.orig_argv) > 1 else ""


def timed(owner: Any, name: str, kind: str) -> None:
    from benchmarks.integrations import inside

    original: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        with inside.call(kind):
            return original(*args, **options)

    setattr(owner, name, call)


def seconds_alive() -> float:
    ticks = int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def at_client() -> None:
    from flwr.supernode.runtime import run_clientapp

    from benchmarks.integrations import inside

    timed(run_clientapp, "pull_task_input", "receive")
    timed(run_clientapp, "push_message", "send")
    pull = run_clientapp.pull_task_input

    def pull_task_input(*args: Any) -> Any:
        inside.idle()
        inside.mark("process begun", seconds=seconds_alive())
        return pull(*args)

    run_clientapp.pull_task_input = pull_task_input


def ours() -> None:
    """Time what takes the place of Flower's calls; the reading of arrays is part of receiving."""
    from benchmarks.integrations import inside

    if inside.facts()["line"] == "bare":
        return
    from streamlink.integrations.flower import records
    from streamlink.objects import ObjectClient

    timed(ObjectClient, "put", "send")
    timed(records.SourceRecord, "to_numpy_ndarrays", "receive")
    timed(records.SourceArray, "numpy", "receive")


if program == "flwr-clientapp":
    at_client()
    ours()
elif program == "flwr-serverapp":
    from flwr.superlink.grid.http_grid import HttpGrid

    timed(HttpGrid, "push_messages", "send")
    timed(HttpGrid, "pull_messages", "receive")
    ours()
