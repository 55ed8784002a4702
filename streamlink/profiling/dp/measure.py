"""Measures one step: its time, and the most memory that it held.

On a CPU the kernel says the peak of the process, and ``torch.profiler`` what torch alone allocated;
on a GPU CUDA's events and allocator say both. A peak is counted after a reset, so neither the start
of the process nor the warm-up is in it.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from streamlink.profiling.memory import peak_bytes, reset_peak, resident_bytes

__all__ = ["Step", "measured", "profiled_bytes"]


@dataclass(frozen=True, slots=True)
class Step:
    """What one step took."""

    seconds: float
    peak_bytes: int
    """The most that was held in it: resident memory on a CPU, allocated on a GPU."""
    held_bytes: int
    """What was held when it began."""


def measured(step: Callable[[], Any], device: torch.device) -> Step:
    """Do one step and return what it took.

    Raises:
        OSError: this system does not say the peak of a process.
    """
    return _on_gpu(step, device) if device.type == "cuda" else _on_cpu(step)


def profiled_bytes(step: Callable[[], Any]) -> int:
    """Do one step on the CPU, and return how far torch's allocations rose in it, in bytes."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        step()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    facts = [each["args"] for each in events if each.get("name") == "[memory]"]
    return max((int(each["Total Allocated"]) for each in facts), default=0)


def _on_cpu(step: Callable[[], Any]) -> Step:
    held = resident_bytes()
    reset_peak()
    begin = time.perf_counter()
    step()
    seconds = time.perf_counter() - begin
    return Step(seconds, peak_bytes(), held)


def _on_gpu(step: Callable[[], Any], device: torch.device) -> Step:
    held = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    step()
    end.record()
    torch.cuda.synchronize(device)
    return Step(begin.elapsed_time(end) / 1000, torch.cuda.max_memory_allocated(device), held)
