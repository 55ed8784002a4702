"""Imported by Python in each process of a case: times Flower's own send and receive calls.

Only what each process of Flower itself does is wrapped, under the same names in every line. Turning
arrays into what is sent, and back, is part of it: in our lines the bytes travel in these calls. A
call within another one is not counted again.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

inner = threading.local()
program = Path(sys.orig_argv[1]).name if len(sys.orig_argv) > 1 else ""


def timed(owner: Any, name: str, kind: str) -> None:
    from benchmarks.integrations import inside

    original: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        if getattr(inner, "is_timed", False):
            return original(*args, **options)
        inner.is_timed = True
        try:
            with inside.call(kind):
                return original(*args, **options)
        finally:
            inner.is_timed = False

    setattr(owner, name, staticmethod(call) if inspect.ismethod(original) else call)


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


def conversions() -> None:
    """Time how arrays become what Flower sends and come back, or what we have in its place."""
    from benchmarks.integrations import inside

    if inside.facts()["line"] == "bare":
        from flwr.app import Array, ArrayRecord

        if program == "flwr-clientapp":  # the server's are its first model, and the mean
            timed(Array, "from_numpy_ndarray", "send")
        timed(ArrayRecord, "to_numpy_ndarrays", "receive")
        timed(Array, "numpy", "receive")
        return
    from streamlink.integrations.flower import records
    from streamlink.objects import ObjectClient

    timed(ObjectClient, "put", "send")
    timed(records.SourceRecord, "to_numpy_ndarrays", "receive")
    timed(records.SourceArray, "numpy", "receive")


if program == "flwr-clientapp":
    at_client()
    conversions()
elif program == "flwr-serverapp":
    from flwr.superlink.grid.http_grid import HttpGrid

    timed(HttpGrid, "push_messages", "send")
    timed(HttpGrid, "pull_messages", "receive")
    conversions()
