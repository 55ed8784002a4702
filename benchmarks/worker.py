"""The child's side of a measured process: ``python -m benchmarks.worker module:function '{…}'``.

``processes.py`` starts this module once per role; the function named on the command line does the
work and talks to the program that started it through a :class:`Port`, one JSON object per line.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, TextIO

__all__ = ["Port", "peak_rss_bytes", "rss_bytes"]

Facts = dict[str, Any]

_PR_SET_PDEATHSIG = 1


class Port:
    """A line to the program that started this process.

    Attributes:
        base_rss_bytes: resident memory when :meth:`mark_base` was called (bytes).
    """

    def __init__(self, commands: TextIO, events: TextIO) -> None:
        self._commands = commands
        self._events = events
        self._base_cpu_seconds = 0.0
        self._base_faults = 0
        self.base_rss_bytes = 0

    def mark_base(self) -> None:
        """Take this moment as the base: call it after all imports, before the first buffer."""
        reset_peak()
        self._base_cpu_seconds = time.process_time()
        self._base_faults = page_faults()
        self.base_rss_bytes = rss_bytes()
        self.tell("base", base_rss_bytes=self.base_rss_bytes)

    def tell(self, event: str, **facts: object) -> None:
        """Send one event with its facts; everything must be JSON."""
        self._events.write(json.dumps({"event": event, **facts}) + "\n")
        self._events.flush()

    def wait_for(self, event: str) -> Facts:
        """Return the facts of the next command, which must be ``event``.

        Raises:
            EOFError: the program that started this process is gone.
            ValueError: it said something else.
        """
        facts = self.next_command(f"waited for {event!r}")
        said = facts.pop("event")
        if said != event:
            raise ValueError(f"waited for {event!r}, got {said!r} with {facts}")
        return facts

    def next_command(self, why: str = "waited for a command") -> Facts:
        """Return the next command, whatever it is: its name as ``event``, and its facts.

        Raises:
            EOFError: the program that started this process is gone.
        """
        line = self._commands.readline()
        if not line:
            raise EOFError(f"{why}, but the starting program is gone")
        facts: Facts = json.loads(line)
        return facts

    def usage(self) -> Facts:
        """Return base and peak memory (bytes), CPU time (s) and page faults since the base."""
        return {
            "base_rss_bytes": self.base_rss_bytes,
            "peak_rss_bytes": peak_rss_bytes(),
            "cpu_seconds": time.process_time() - self._base_cpu_seconds,
            "page_faults": page_faults() - self._base_faults,
        }


def rss_bytes() -> int:
    """Return this process's resident memory now (bytes)."""
    return _status_bytes("VmRSS")


def peak_rss_bytes() -> int:
    """Return the highest resident memory of this process since its start or :func:`reset_peak`."""
    return _status_bytes("VmHWM")


def page_faults() -> int:
    """Return how many pages this process has had mapped in without reading a disk (count)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def reset_peak() -> bool:
    """Let the peak start again from now; False where the system does not allow it."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        return False
    return True


def _status_bytes(key: str) -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {key}")


def _own_stdout() -> TextIO:
    # Events need a channel nobody else writes to: a stray print of a library goes to stderr.
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return events


def _end_with_the_starter() -> None:
    """Be killed when the program that started this process is: nothing of a run stays behind."""
    with contextlib.suppress(AttributeError):  # Linux only
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _imported(module: str) -> ModuleType:
    """Import without the garbage collector, and let it pass over what is there from then on.

    Modules stay until the end. To walk through them again and again takes a fifth of a start, and
    a third where PyTorch is imported.
    """
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        gc.freeze()
        gc.enable()


def main() -> None:
    """Run the function named by the first argument with the JSON facts of the second."""
    _end_with_the_starter()
    port = Port(sys.stdin, _own_stdout())
    module, _, name = sys.argv[1].partition(":")
    body: Callable[..., None] = getattr(_imported(module), name)
    body(port, **json.loads(sys.argv[2]))
    port.tell("done", **port.usage())


if __name__ == "__main__":
    main()
