"""What memray's file of one process says, read in a process of its own.

memray's reader trusts its input: one changed bit can end the process that reads it. So a child
reads each profile, and a profile that kills its reader is a sentence in the report.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from streamlink.errors import StreamlinkError
from streamlink.profiling.heap.profile_file import fault_of

__all__ = ["Allocations", "DamagedProfile", "Site", "Snapshot", "read_allocations"]

_WORKER = "streamlink.profiling.heap.allocations_worker"
READ_SECONDS = 600.0
"""A reader that takes longer is ended."""


class DamagedProfile(StreamlinkError):
    """A profile has no figures; the text says why."""


class Site(BaseModel):
    """Memory that one line of code asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    nbytes: int
    allocations: int
    function: str
    file: str
    line: int
    within: str
    """The innermost lines of this package that led there, ``file.py:line function``; or empty."""

    @property
    def text(self) -> str:
        """The line, for a reader."""
        return f"{self.function} ({self.file}:{self.line})" if self.line else self.function


class Snapshot(BaseModel):
    """Memory at one time, as memray's own thread saw it."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    seconds: float
    """Since the profile began."""
    resident_bytes: int
    """Of the kernel, with what memray itself holds."""
    heap_bytes: int
    """What the allocators had handed out and not taken back."""


class Allocations(BaseModel):
    """The content of one profile; sizes in bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    peak_bytes: int
    """The most that the allocators had handed out; ``Peak memory usage`` of ``memray stats``."""
    allocations: int | None
    """How often memory was asked for; ``None`` as below."""
    allocated_bytes: int | None
    """All that was ever handed out; ``None``: the file has sums only (an aggregated capture)."""
    allocators: dict[str, int]
    """How often each allocator was called."""
    at_peak: list[Site]
    """Who held the peak, the largest first."""
    largest: list[Site]
    """Who asked for most over the whole run, released or not."""
    snapshots: list[Snapshot]
    started: datetime
    ended: datetime
    command: str
    fault: str | None = None
    """Why these figures are not those of the whole run; the peak may then be too low."""


def read_allocations(path: Path, flamegraph: Path) -> Allocations:
    """Read a profile and write its flame graph.

    Raises:
        DamagedProfile: it cannot be read.
        OSError: it is not there, or the flame graph cannot be written.
    """
    fault = fault_of(path)
    with tempfile.TemporaryFile() as errors:
        try:
            done = subprocess.run(
                [sys.executable, "-m", _WORKER, str(path), str(flamegraph)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                timeout=READ_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise DamagedProfile(f"it was not read within {READ_SECONDS:g} s") from None
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip().splitlines()
    if done.returncode != 0:
        flamegraph.unlink(missing_ok=True)
        raise DamagedProfile(fault or _ending(done.returncode, said))
    try:
        found = Allocations.model_validate_json(done.stdout)
    except ValidationError as error:
        raise DamagedProfile(
            f"its reader wrote no figures ({error.error_count()} faults)"
        ) from error
    return found if fault is None else found.model_copy(update={"fault": fault})


def _ending(code: int, said: list[str]) -> str:
    if code > 0:
        return said[-1] if said else f"its reader ended with exit code {code}"
    names = {each.value: each.name for each in signal.Signals}
    return f"its content is damaged: memray's reader was ended by {names.get(-code, -code)}"
