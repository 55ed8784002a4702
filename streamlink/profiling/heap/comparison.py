"""Versions against ``original``, and runs under memray against those without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from streamlink.profiling.heap.figures import BASELINE, MEMORY, Figures, Measure
from streamlink.profiling.heap.observation import Subject
from streamlink.profiling.heap.variants import ALONE

__all__ = ["Comparison", "Verdict", "comparisons", "overheads"]

_SMALL_PERCENT = 1.0
_SMALL_TIME_PERCENT = 5.0  # the same program differs by as much from one run to the next
_PLAIN = {
    Measure.PROFILED_ROUND: Measure.ROUND,
    Measure.PROFILED_RESIDENT_PEAK: Measure.RESIDENT_PEAK,
}


class Verdict(StrEnum):
    """What a comparison shows."""

    LOWER = "lower"
    HIGHER = "higher"
    NONE = "no difference"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One measure of one process in two versions; bytes or seconds, medians over the repeats."""

    subject: Subject
    measure: Measure
    baseline: str
    version: str
    baseline_values: Sequence[float]
    values: Sequence[float]
    baseline_value: float
    value: float

    @property
    def percent(self) -> float:
        """How much higher than the baseline (%); negative: lower."""
        return 100 * (self.value / self.baseline_value - 1)

    @property
    def verdict(self) -> Verdict:
        """What it shows: nothing, where the repeats of both overlap or the difference is small."""
        if abs(self.percent) < self.small_percent or self.is_within_spread:
            return Verdict.NONE
        return Verdict.LOWER if self.percent < 0 else Verdict.HIGHER

    @property
    def small_percent(self) -> float:
        """Below which a difference shows nothing (%)."""
        return _SMALL_TIME_PERCENT if self.measure.is_time else _SMALL_PERCENT

    @property
    def is_within_spread(self) -> bool:
        """Whether the ranges of the repeats overlap; one run each shows no range."""
        if len(self.values) + len(self.baseline_values) == 2:
            return False
        return (
            min(self.values) <= max(self.baseline_values)
            and min(self.baseline_values) <= max(self.values)
        )  # fmt: skip

    @property
    def runs(self) -> str:
        """How many repeats each of both medians has."""
        ours, theirs = len(self.values), len(self.baseline_values)
        return (
            f"{ours} run{'s' if ours > 1 else ''} each"
            if ours == theirs
            else f"{ours} and {theirs} runs"
        )


def comparisons(figures: Sequence[Figures]) -> list[Comparison]:
    """Return every version against ``original``, by memory and by time without memray."""
    base = {each.subject: each for each in figures if each.version == BASELINE}
    made = []
    for measure in (*MEMORY, Measure.ROUND):
        for each in figures:
            if each.version not in (BASELINE, ALONE) and each.subject in base:
                made += _compared(each.subject, measure, base[each.subject], measure, each)
    return made


def overheads(figures: Iterable[Figures]) -> list[Comparison]:
    """Return the time and the resident memory under memray against those without it."""
    return [
        made
        for each in figures
        for profiled, plain in _PLAIN.items()
        for made in _compared(each.subject, profiled, each, plain, each)
    ]


def _compared(
    subject: Subject, measure: Measure, base: Figures, base_measure: Measure, other: Figures
) -> list[Comparison]:
    theirs, ours = base.median(base_measure), other.median(measure)
    if not theirs or ours is None:
        return []
    baseline = base.version if measure is base_measure else f"{base.version} without memray"
    return [
        Comparison(
            subject=subject,
            measure=measure,
            baseline=baseline,
            version=other.version,
            baseline_values=base.values[base_measure],
            values=other.values[measure],
            baseline_value=theirs,
            value=ours,
        )
    ]
