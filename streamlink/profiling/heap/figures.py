"""Figures of one run: for each process and version what each repeat measured, and their median.

Memory that the allocators handed out is memray's; resident memory and times are those of runs
without memray, because memray holds memory itself and slows down whatever allocates.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from streamlink.config import parse_size
from streamlink.profiling.heap.observation import Observation, Subject
from streamlink.profiling.heap.observed import Run
from streamlink.profiling.heap.variants import ALONE

__all__ = [
    *("BASELINE", "MEMORY", "OPTIMIZED", "Figures", "Measure"),
    *("chunk_bytes", "figures_of", "versions_of"),
]

BASELINE, OPTIMIZED = "original", "optimized"
_FIRST = (BASELINE, OPTIMIZED)


class Measure(StrEnum):
    """What is measured; names of the columns, with the unit."""

    HEAP_PEAK = "allocator_peak_bytes"
    RESIDENT_PEAK = "resident_peak_bytes"
    OVER_BASE = "resident_over_base_bytes"
    PROFILED_RESIDENT_PEAK = "resident_peak_under_memray_bytes"
    PROFILED_OVER_BASE = "resident_over_base_under_memray_bytes"
    HEAP_OVER_ALONE = "allocator_peak_over_training_alone_bytes"
    OVER_ALONE = "resident_over_training_alone_bytes"
    ROUND = "round_seconds"
    PROFILED_ROUND = "round_under_memray_seconds"
    COLLECTIONS = "garbage_collections"

    @property
    def label(self) -> str:
        """What a reader calls it."""
        return _LABELS[self]

    @property
    def is_time(self) -> bool:
        """Whether it is in seconds; all others are in bytes, but for what is counted."""
        return self.value.endswith("_seconds")


_LABELS = {
    Measure.HEAP_PEAK: "allocator's peak",
    Measure.RESIDENT_PEAK: "resident peak",
    Measure.OVER_BASE: "resident peak over the base",
    Measure.PROFILED_RESIDENT_PEAK: "resident peak under memray",
    Measure.PROFILED_OVER_BASE: "resident peak over the base, under memray",
    Measure.HEAP_OVER_ALONE: "allocator's peak over training alone",
    Measure.OVER_ALONE: "resident peak over training alone",
    Measure.ROUND: "time of a round",
    Measure.PROFILED_ROUND: "time of a round under memray",
    Measure.COLLECTIONS: "garbage collections",
}

MEMORY = (
    *(Measure.HEAP_PEAK, Measure.OVER_BASE, Measure.PROFILED_OVER_BASE),
    *(Measure.HEAP_OVER_ALONE, Measure.OVER_ALONE),
)
"""What versions are compared by."""

_OVER_ALONE = {
    Measure.HEAP_PEAK: Measure.HEAP_OVER_ALONE,
    Measure.OVER_BASE: Measure.OVER_ALONE,
}


@dataclass(frozen=True, slots=True)
class Figures:
    """All repeats of one process in one version."""

    subject: Subject
    version: str
    values: dict[Measure, list[float]]
    """In bytes or seconds, or counted; one for each repeat that has it."""
    model_bytes: int
    has_one_client: bool
    """Whether it is a client, and no rank that runs several."""

    def median(self, measure: Measure) -> float | None:
        """Return the median over the repeats, ``None`` if none has a figure."""
        values = self.values.get(measure)
        return statistics.median(values) if values else None

    def runs(self, measure: Measure) -> int:
        """How many repeats have this figure."""
        return len(self.values.get(measure, ()))


def figures_of(run: Run) -> list[Figures]:
    """Return the figures of each process and version; what failed or is incomplete has none."""
    groups: dict[tuple[Subject, str], list[Observation]] = {}
    for each in run.observations:
        groups.setdefault((each.subject, each.version), []).append(each)
    figures = [
        Figures(subject, version, _values(group), _model_bytes(group), _has_one_client(group))
        for (subject, version), group in sorted(
            groups.items(), key=lambda item: (item[0][0].order, version_order(item[0][1]))
        )
    ]
    _add_over_alone(figures)
    return figures


def versions_of(figures: Iterable[Figures]) -> list[str]:
    """Return the versions, ``original`` and ``optimized`` first."""
    return sorted({each.version for each in figures}, key=version_order)


def version_order(version: str) -> tuple[int, int, str]:
    """How versions are sorted: the two that are compared, the others by name, chunks by size."""
    first = _FIRST.index(version) if version in _FIRST else len(_FIRST)
    return (first, chunk_bytes(version) or 0, version)


def chunk_bytes(version: str) -> int | None:
    """Return the chunk size of a version that is named by it."""
    if not version.startswith("chunk_"):
        return None
    try:
        return parse_size(version.removeprefix("chunk_"))
    except ValueError:
        return None  # a file somebody renamed


def _add_over_alone(figures: Sequence[Figures]) -> None:
    """Add what a client needs beyond one that trains without transport, where one did so."""
    alone = next((each for each in figures if each.version == ALONE), None)
    for measure, over in _OVER_ALONE.items():
        least = None if alone is None else alone.median(measure)
        if least is None:
            continue
        for each in figures:
            own = each.values.get(measure, ())
            if each.version != ALONE and each.has_one_client and own:
                each.values[over] = [max(0.0, value - least) for value in own]


def _values(group: Sequence[Observation]) -> dict[Measure, list[float]]:
    values: dict[Measure, list[float]] = {}
    for each in group:
        for measure, value in _measured(each):
            values.setdefault(measure, []).append(value)
    return values


def _measured(each: Observation) -> Iterator[tuple[Measure, float]]:
    if each.has_whole_profile and each.allocations is not None:
        yield Measure.HEAP_PEAK, each.allocations.peak_bytes
    record = each.record
    if record is None or not each.is_whole:
        return
    profiled = each.is_profiled
    peak, over = record.peak_bytes, record.over_base_bytes
    yield (Measure.PROFILED_RESIDENT_PEAK if profiled else Measure.RESIDENT_PEAK), peak
    yield (Measure.PROFILED_OVER_BASE if profiled else Measure.OVER_BASE), over
    if record.rounds:
        seconds = statistics.median(each.seconds for each in record.rounds)
        yield (Measure.PROFILED_ROUND if profiled else Measure.ROUND), seconds
    if not profiled and record.collections is not None:
        yield Measure.COLLECTIONS, record.collections


def _has_one_client(group: Sequence[Observation]) -> bool:
    return any(each.record is not None and each.record.client is not None for each in group)


def _model_bytes(group: Sequence[Observation]) -> int:
    return max((each.record.model_bytes for each in group if each.record is not None), default=0)
