"""What one process of one run reports about its memory and its rounds, as a JSON file.

A memray profile says what the allocator handed out; this record says what the kernel counted, and
how long the rounds took. Each process writes its own, so a record is there even if others died.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

from streamlink.profiling.folder import write_text

__all__ = ["ProcessRecord", "Role", "RoundRecord", "profile_name", "read_record", "record_path"]

Role = Literal["server", "client"]


class RoundRecord(BaseModel):
    """One round, as this process saw it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    round: NonNegativeInt
    seconds: float = Field(ge=0)


class ProcessRecord(BaseModel):
    """One process of one run. Sizes in bytes, times in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    version: str
    """``original``, ``optimized``, or the name of a variant, such as ``no_chunking``."""
    repeat: PositiveInt
    """Counts from 1."""
    role: Role
    client: NonNegativeInt | None
    """Counts from 0; ``None`` for the server, and for a rank that runs several clients."""
    rank: NonNegativeInt | None
    """Of MPI; ``None`` with gRPC."""
    carrier: str
    profiled: bool
    """Whether memray ran. Draw no conclusion about time from a profiled run."""
    profile: str | None
    """Name of memray's file in ``profiles/``."""
    base_bytes: NonNegativeInt
    """Resident after the imports, before the model."""
    peak_bytes: NonNegativeInt
    """The most that was ever resident (``VmHWM``)."""
    model_bytes: NonNegativeInt
    samples: list[tuple[float, int]]
    """(seconds since the base was taken, resident bytes)."""
    rounds: list[RoundRecord]
    """The server's: from the first byte of a model to the new one. A client's are part of them,
    and differ by where it waits; it has none."""
    collections: NonNegativeInt | None = None
    """How often Python's garbage collector ran; ``None`` in records that do not count it."""
    error: str | None
    """Why the process failed; ``None`` if it did its work."""
    digest: str = ""
    """The server: of the global model at the end, the same in all versions."""

    @property
    def name(self) -> str:
        """What its files are called: ``server_original_2_plain`` for example."""
        return _stem(self.version, self.repeat, self.client, self.rank) + (
            "" if self.profiled else "_plain"
        )

    @property
    def over_base_bytes(self) -> int:
        """Return the peak over the base."""
        return max(0, self.peak_bytes - self.base_bytes)

    def write(self, run: Path) -> Path:
        """Write it into the folder ``run``, where it must not be yet; return its path."""
        path = record_path(run, self.name)
        write_text(path, self.model_dump_json(indent=1) + "\n")
        return path


def read_record(path: Path) -> ProcessRecord:
    """Read a record.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged (pydantic's ``ValidationError``).
    """
    return ProcessRecord.model_validate_json(path.read_text("utf-8"))


def record_path(run: Path, name: str) -> Path:
    """Return where the record of that name lies in the folder of a run."""
    return run / "processes" / f"{name}.json"


def profile_name(version: str, repeat: int, *, client: int | None, rank: int | None) -> str:
    """Return the name of memray's file; the first repeat has no number, as the seeds name it."""
    return f"{_stem(version, repeat, client, rank)}_memory_profile.bin"


def _stem(version: str, repeat: int, client: int | None, rank: int | None) -> str:
    if rank is not None:
        who = f"mpi_rank_{rank}"
    else:
        who = "server" if client is None else f"client_{client}"
    return f"{who}_{version}" + ("" if repeat == 1 else f"_{repeat}")
