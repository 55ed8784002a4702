"""One process of one run, as its record and profile show it; and when two are not of one run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamlink.errors import StreamlinkError
from streamlink.profiling.heap.allocations import Allocations
from streamlink.profiling.heap.record import ProcessRecord, Role

__all__ = [
    *("UNKNOWN", "Observation", "RunError", "Subject"),
    *("require_one_model", "require_one_time"),
]

UNKNOWN = "unknown"
"""The version of a profile whose name is none of ours."""

_SAME_MODEL = 1.01
"""How much larger the model of one process may be than that of another (ratio)."""


class RunError(StreamlinkError):
    """A folder cannot be analysed as one run; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One process of the job, the same in all versions and repeats."""

    carrier: str
    role: Role
    name: str
    """``server``, ``client 0``, or with MPI ``rank 0``."""

    @property
    def label(self) -> str:
        """What a reader calls it."""
        return f"{self.name} ({self.role})" if self.name.startswith("rank") else self.name

    @property
    def order(self) -> tuple[str, bool, int, str]:
        """How subjects are sorted: the server first, then by number."""
        digits = re.sub(r"\D", "", self.name)
        return (self.carrier, self.role != "server", int(digits or 0), self.name)


@dataclass(frozen=True, slots=True)
class Observation:
    """One process of one run of one version; at least one of record and profile is there."""

    subject: Subject
    version: str
    repeat: int
    is_profiled: bool
    record: ProcessRecord | None
    allocations: Allocations | None
    profile: Path | None

    @property
    def has_whole_profile(self) -> bool:
        """Whether memray's figures are those of the whole run."""
        return self.allocations is not None and self.allocations.fault is None and self.is_whole

    @property
    def is_whole(self) -> bool:
        """Whether the process ended without an error, as far as is known."""
        return self.record is None or self.record.error is None


def require_one_model(records: Mapping[str, ProcessRecord]) -> None:
    """Refuse records, by file name, whose models differ in size.

    Raises:
        RunError: they do.
    """
    sizes = {name: each.model_bytes for name, each in records.items() if each.model_bytes}
    if not sizes:
        return
    name, other = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
    # A client counts buffers, too, which are no part of what travels.
    if sizes[other] > sizes[name] * _SAME_MODEL:
        raise RunError(
            f"this folder holds two runs: in processes/{name} the model has {sizes[name]} bytes "
            f"and in processes/{other} {sizes[other]}; move the files of one run to a folder of "
            "its own"
        )


def require_one_time(observations: Sequence[Observation]) -> None:
    """Refuse processes of one job that never ran at the same time: they are not of one run.

    Raises:
        RunError: two did not.
    """
    jobs: dict[tuple[str, str, int], Observation] = {}
    for each in observations:
        if not each.has_whole_profile or each.version == UNKNOWN:
            continue
        first = jobs.setdefault((each.subject.carrier, each.version, each.repeat), each)
        assert first.allocations is not None
        assert each.allocations is not None
        a, b = first.allocations, each.allocations
        if a.ended < b.started or b.ended < a.started:
            raise RunError(
                f"this folder holds two runs: {_name(first)} ended before {_name(each)} began, or "
                "the other way round; move the files of one run to a folder of its own"
            )


def _name(each: Observation) -> str:
    return each.profile.name if each.profile is not None else each.subject.name
