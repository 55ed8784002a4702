"""What the figures of a run say, as sentences; a regression has the same form as a gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from streamlink.profiling.heap.comparison import Comparison, Verdict, comparisons, overheads
from streamlink.profiling.heap.figures import (
    BASELINE,
    OPTIMIZED,
    Figures,
    Measure,
    figures_of,
    versions_of,
)
from streamlink.profiling.heap.observation import Subject
from streamlink.profiling.heap.observed import Run

__all__ = [
    *("Findings", "amount", "brief", "find", "largest_client", "listed", "overhead", "sentence"),
]


@dataclass(frozen=True, slots=True)
class Findings:
    """The figures of a run, and what they say."""

    run: Run
    figures: Sequence[Figures]
    comparisons: Sequence[Comparison]
    overheads: Sequence[Comparison]
    versions: Sequence[str] = field(default=())

    def of(self, subject: Subject, version: str) -> Figures | None:
        """Return the figures of one process in one version, if there are any."""
        for each in self.figures:
            if each.subject == subject and each.version == version:
                return each
        return None

    @property
    def subjects(self) -> list[Subject]:
        """All processes, the server first."""
        return list(dict.fromkeys(each.subject for each in self.figures))

    @property
    def resident(self) -> Measure:
        """The resident memory over the base to show: without memray, where that was measured."""
        plain = sum(each.runs(Measure.OVER_BASE) > 0 for each in self.figures)
        profiled = sum(each.runs(Measure.PROFILED_OVER_BASE) > 0 for each in self.figures)
        return Measure.OVER_BASE if plain >= profiled else Measure.PROFILED_OVER_BASE

    @property
    def shown(self) -> list[Comparison]:
        """The comparisons that are shown: of two resident peaks, one."""
        hidden = {Measure.OVER_BASE, Measure.PROFILED_OVER_BASE} - {self.resident}
        return [each for each in self.comparisons if each.measure not in hidden]

    def with_verdict(self, verdict: Verdict, *, variants: bool) -> list[Comparison]:
        """Return the comparisons that show ``verdict``: of ``optimized``, or of all others."""
        return [
            each
            for each in self.shown
            if each.verdict is verdict and (each.version != OPTIMIZED) is variants
        ]

    def differences(self) -> list[str]:
        """Return, for each process and version, both views of memory: they count other things."""
        made = []
        for each in self.figures:
            heap, resident = each.median(Measure.HEAP_PEAK), each.median(self.resident)
            if each.version in (BASELINE, OPTIMIZED) and heap is not None and resident is not None:
                made.append(
                    f"{each.subject.label}, {each.version}: the allocators had at most "
                    f"{amount(heap)} handed out, {self.resident.label} was {amount(resident)}"
                )
        return made

    def collections(self) -> list[str]:
        """Return how often garbage was collected, for each process and version without memray."""
        made = []
        for each in self.figures:
            count = each.median(Measure.COLLECTIONS)
            if count is not None:
                runs = each.runs(Measure.COLLECTIONS)
                made.append(
                    f"{each.subject.label}, {each.version}: {count:.0f} "
                    f"collections (median of {runs} run{'s' if runs > 1 else ''})"
                )
        return made

    def digests(self) -> list[str]:
        """Return whether all versions ended with the same model, bit for bit."""
        found: dict[str, list[str]] = {}
        for each in self.run.observations:
            if each.record is not None and each.record.digest and each.is_whole:
                found.setdefault(each.record.digest, []).append(each.version)
        if len(found) > 1:
            groups = "; ".join(f"{', '.join(sorted(set(who)))}: {d}" for d, who in found.items())
            return [f"the versions did NOT end with the same model: {groups}"]
        versions = {version for who in found.values() for version in who}
        if len(versions) < 2:
            return []
        same = next(iter(found))
        return [f"{listed(sorted(versions))} ended with the same model, bit for bit ({same})"]


def find(run: Run) -> Findings:
    """Compute all figures of a run."""
    figures = figures_of(run)
    return Findings(run, figures, comparisons(figures), overheads(figures), versions_of(figures))


def sentence(each: Comparison) -> str:
    """Return a comparison in words, gains and regressions in the same ones."""
    begin = f"{each.subject.label}, {each.measure.label}: {each.version}"
    figures = f"{_value(each, each.value)} against {_value(each, each.baseline_value)}, {each.runs}"
    if each.verdict is Verdict.NONE:
        why = (
            "the repeats overlap"
            if each.is_within_spread
            else f"less than {each.small_percent:g} %"
        )
        return f"{begin} shows no difference from {each.baseline} ({figures}; {why})"
    return f"{begin} is {abs(each.percent):.1f} % {_word(each)} than {each.baseline} ({figures})"


def brief(each: Comparison) -> str:
    """Return a comparison in a few words."""
    if each.verdict is Verdict.NONE:
        return f"{each.measure.label} shows no difference"
    return f"{each.measure.label} {abs(each.percent):.1f} % {_word(each)}"


def overhead(each: Comparison) -> str:
    """Return what memray costs one process, in words."""
    return (
        f"{each.subject.label}, {each.version}, {each.measure.label}: {_value(each, each.value)}, "
        f"without memray {_value(each, each.baseline_value)} ({each.percent:+.1f} %, {each.runs})"
    )


def amount(nbytes: float) -> str:
    """Return a size for a reader: MB are 10^6 bytes."""
    return f"{nbytes / 1e6:.1f} MB"


def largest_client(findings: Findings, version: str, measure: Measure) -> Figures | None:
    """Return the client process with the highest median."""
    found = [
        (value, each)
        for each in findings.figures
        if each.version == version and each.subject.role == "client"
        if (value := each.median(measure)) is not None
    ]
    return max(found, key=lambda pair: pair[0])[1] if found else None


def listed(names: Sequence[str]) -> str:
    """Return names as a list in words."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _word(each: Comparison) -> str:
    if each.measure.is_time:
        return "shorter" if each.verdict is Verdict.LOWER else "LONGER"
    return "lower" if each.verdict is Verdict.LOWER else "HIGHER"


def _value(each: Comparison, value: float) -> str:
    return f"{value:.3f} s" if each.measure.is_time else amount(value)
