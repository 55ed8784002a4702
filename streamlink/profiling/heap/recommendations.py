"""What to do after an analysis; each sentence has the figures that it follows from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from streamlink.profiling.heap.allocations import Site
from streamlink.profiling.heap.comparison import Verdict
from streamlink.profiling.heap.figures import BASELINE, OPTIMIZED, Measure, chunk_bytes
from streamlink.profiling.heap.findings import Findings, amount, listed
from streamlink.profiling.heap.observation import Observation

__all__ = ["recommendations"]

_SIMILAR = 1.1
"""How much longer a round may take that still counts as fast (ratio)."""


def recommendations(findings: Findings) -> list[str]:
    """Return what to do, the most important first."""
    return [
        *_about_optimized(findings),
        *_about_single(findings),
        *_about_chunks(findings),
        *_about_size(findings),
        *_about_sites(findings),
        *_about_runs(findings),
    ]


def _about_optimized(findings: Findings) -> Iterator[str]:
    own = [each for each in findings.shown if each.version == OPTIMIZED]
    memory = [each for each in own if not each.measure.is_time]
    if not memory:
        return
    worse = [each for each in memory if each.verdict is Verdict.HIGHER]
    better = [each for each in memory if each.verdict is Verdict.LOWER]
    for each in worse:
        yield (
            f"{each.subject.label}: {OPTIMIZED} needs more ({each.measure.label} "
            f"{each.percent:+.1f} %); compare its two flame graphs before you use it there"
        )
    if better and not worse:
        whole = (Measure.HEAP_PEAK, findings.resident)
        saved = sorted(-each.percent for each in better if each.measure in whole) or [0.0]
        yield (
            f"use {OPTIMIZED}: no process needs more, and peaks are {saved[0]:.1f} % to "
            f"{saved[-1]:.1f} % lower"
        )
    for each in own:
        if each.measure.is_time and each.verdict is Verdict.HIGHER:
            yield (
                f"{each.subject.label}: the memory is paid with time, {each.percent:+.1f} % a round"
            )


def _about_single(findings: Findings) -> Iterator[str]:
    """Rank what is switched on alone by what it saves; name what shows nothing alone."""
    alone = [each for each in findings.shown if each.version.startswith("only_")]
    for role in ("server", "client"):
        own = [
            each
            for each in alone
            if each.subject.role == role and each.measure is Measure.HEAP_PEAK
        ]
        best = min(own, key=lambda each: each.percent, default=None)
        if best is not None and best.verdict is Verdict.LOWER:
            yield (
                f"of what was switched on alone, {best.version} saves most at the {role}: "
                f"{-best.percent:.1f} % of the allocator's peak of {best.subject.label}"
            )
    memory = [each for each in alone if not each.measure.is_time]
    useless = sorted(
        {each.version for each in memory}
        - {each.version for each in memory if each.verdict is Verdict.LOWER}
    )
    if useless:
        yield f"{listed(useless)} alone lowers no peak of this job"


def _about_chunks(findings: Findings) -> Iterator[str]:
    """Propose the chunk size with the lowest peak among those whose rounds are not slower."""
    servers = [each for each in findings.figures if each.subject.role == "server"]
    measured = [
        (peak, seconds, each.version)
        for each in servers
        if chunk_bytes(each.version)
        and (peak := each.median(findings.resident)) is not None
        and (seconds := each.median(Measure.ROUND)) is not None
    ]
    if len(measured) < 2:
        return
    fastest = min(seconds for _, seconds, _ in measured)
    peak, seconds, version = min(each for each in measured if each[1] <= _SIMILAR * fastest)
    yield (
        f"{version} has the lowest peak of the server ({amount(peak)} over the base) among chunk "
        f"sizes whose rounds ({seconds:.2f} s) are within 10 % of the fastest ({fastest:.2f} s)"
    )


def _about_size(findings: Findings) -> Iterator[str]:
    for role in ("server", "client"):
        found = [
            (version, value, each)
            for version in (OPTIMIZED, BASELINE)
            for each in findings.figures
            if each.version == version and each.subject.role == role
            if (value := each.median(Measure.RESIDENT_PEAK)) is not None
        ]
        if found:
            version = found[0][0]
            value, label = max(
                (value, each.subject.label) for v, value, each in found if v == version
            )
            yield (
                f"size a machine by resident memory: a {role} of this job ({label}) peaked at "
                f"{amount(value)} in {version}, imports included"
            )


def _about_sites(findings: Findings) -> Iterator[str]:
    for role in ("server", "client"):
        each = _observed(findings.run.observations, role)
        if each is None or each.allocations is None or not each.allocations.at_peak:
            continue
        peak, top = each.allocations.peak_bytes, each.allocations.at_peak[0]
        if peak:
            yield (
                f"the next to look at: {100 * top.nbytes / peak:.0f} % of the peak of "
                f"{each.subject.label} in {each.version} ({amount(top.nbytes)}) is held by "
                f"{_place(top)}"
            )


def _observed(observations: Iterable[Observation], role: str) -> Observation | None:
    own = [each for each in observations if each.subject.role == role and each.has_whole_profile]
    for version in (OPTIMIZED, BASELINE):
        for each in own:
            if each.version == version:
                return each
    return None


def _about_runs(findings: Findings) -> Iterator[str]:
    def has(measure: Measure) -> bool:
        return any(each.runs(measure) for each in findings.figures)

    if not has(Measure.ROUND):
        yield "no conclusion about time: no process ran without memray; let each version do so"
    most = max((each.runs(m) for each in findings.figures for m in Measure), default=0)
    if most == 1:
        yield "each figure is of one run and shows no spread: repeat it before you rely on a few %"
    if findings.run.faults:
        yield "repeat the runs whose files are named as missing, damaged or incomplete"


def _place(site: Site) -> str:
    return f"{site.text}, called from {site.within}" if site.within else site.text
