"""The tables of a report, from findings to text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streamlink.profiling.heap.comparison import Comparison
from streamlink.profiling.heap.figures import BASELINE, OPTIMIZED, Figures, Measure
from streamlink.profiling.heap.findings import Findings, amount, largest_client
from streamlink.profiling.heap.observation import Observation
from streamlink.profiling.page import Table

__all__ = ["against_original", "all_peaks", "costs", "peaks", "sites", "versions"]

_PEAK_COLUMNS = (
    *("process", "version", "allocator's peak, MB", "resident peak, MB", "over the base, MB"),
    *("over the base / model", "s per round", "runs"),
)
_COMPARED_COLUMNS = ("process", "measure", "version", "value", "original", "change, %", "verdict")
_VERSION_COLUMNS = (
    *("version", "server, allocator", "%", "largest client, allocator", "%"),
    *("server, over the base", "%", "largest client, over the base", "%", "round, s", "%"),
)
_OVERHEAD_COLUMNS = ("process", "version", "measure", "under memray", "without", "more, %")
_SITE_COLUMNS = ("process", "version", "held by", "called from, in streamlink", "MB", "% of peak")
_TOP_SITES = 4
_SMALL_SHARE = 0.03


def peaks(findings: Findings) -> Table:
    """Return the peaks of ``original`` and ``optimized``; of all, if those are not there."""
    own = [each for each in findings.figures if each.version in (BASELINE, OPTIMIZED)]
    rows = [_peak_row(findings, each) for each in own or findings.figures]
    return _table("Peaks, medians over the runs", _PEAK_COLUMNS, rows, 2)


def all_peaks(findings: Findings) -> Table:
    """Return the peaks of all versions."""
    rows = [_peak_row(findings, each) for each in findings.figures]
    return _table("Peaks, medians over the runs", _PEAK_COLUMNS, rows, 2)


def versions(findings: Findings) -> Iterator[Table]:
    """Yield a table with a row for each version, where there are more than two."""
    if set(findings.versions) - {BASELINE, OPTIMIZED}:
        rows = [_version_row(findings, version) for version in findings.versions]
        yield Table("Each version: MB, seconds, and % against original", _VERSION_COLUMNS, rows, 1)


def _version_row(findings: Findings, version: str) -> list[str]:
    row = [version]
    for measure in (Measure.HEAP_PEAK, findings.resident, Measure.ROUND):
        for role in ("server", "client"):
            if role == "client" and measure is Measure.ROUND:
                continue
            values = [_of_role(findings, each, role, measure) for each in (version, BASELINE)]
            row += _against(values[0], values[1], measure)
    return row


def _of_role(findings: Findings, version: str, role: str, measure: Measure) -> float | None:
    if role == "client":
        client = largest_client(findings, version, measure)
        return None if client is None else client.median(measure)
    for each in findings.figures:
        if each.version == version and each.subject.role == role:
            return each.median(measure)
    return None


def _against(value: float | None, base: float | None, measure: Measure) -> list[str]:
    if value is None:
        return ["", ""]
    shown = f"{value:.2f}" if measure.is_time else f"{value / 1e6:.1f}"
    return [shown, f"{100 * (value / base - 1):+.1f}" if base else ""]


def against_original(findings: Findings) -> Table:
    """Return the comparisons of ``optimized``; of all versions, if it is not there."""
    own = [each for each in findings.shown if each.version == OPTIMIZED]
    rows = list(map(_compared, own or findings.shown))
    return _table("Against original", _COMPARED_COLUMNS, rows, 3)


def sites(findings: Findings) -> Table:
    """Return who holds the peaks."""
    return _table("Who holds the peak", _SITE_COLUMNS, list(_site_rows(findings)), 4)


def costs(findings: Findings) -> Table:
    """Return what memray costs."""
    title = "What memray costs; no time of a run under memray is compared with anything else"
    return _table(title, _OVERHEAD_COLUMNS, list(map(_overhead, findings.overheads)), 3)


def _peak_row(findings: Findings, each: Figures) -> list[str]:
    is_plain = findings.resident is Measure.OVER_BASE
    peak = Measure.RESIDENT_PEAK if is_plain else Measure.PROFILED_RESIDENT_PEAK
    top, over = each.median(peak), each.median(findings.resident)
    seconds = each.median(Measure.ROUND)
    runs = {each.runs(measure) for measure in (Measure.HEAP_PEAK, findings.resident)}
    return [
        *(each.subject.label, each.version),
        *map(_mb, (each.median(Measure.HEAP_PEAK), top, over)),
        "" if over is None or not each.model_bytes else f"{over / each.model_bytes:.2f}",
        "" if seconds is None else f"{seconds:.2f}",
        "/".join(map(str, sorted(runs))),
    ]


def _compared(each: Comparison) -> list[str]:
    return [
        *(each.subject.label, each.measure.label, each.version),
        *_both(each),
        f"{each.percent:+.1f}",
        each.verdict.value,
    ]


def _overhead(each: Comparison) -> list[str]:
    return [
        *(each.subject.label, each.version, each.measure.label),
        *_both(each),
        f"{each.percent:+.1f}",
    ]


def _both(each: Comparison) -> list[str]:
    if each.measure.is_time:
        return [f"{each.value:.3f} s", f"{each.baseline_value:.3f} s"]
    return [amount(each.value), amount(each.baseline_value)]


def _site_rows(findings: Findings) -> Iterator[list[str]]:
    for each in _first_profiles(findings.run.observations):
        assert each.allocations is not None
        peak = each.allocations.peak_bytes
        for number, site in enumerate(each.allocations.at_peak[:_TOP_SITES]):
            if number and site.nbytes < _SMALL_SHARE * peak:
                break
            yield [
                *(each.subject.label, each.version, site.text, site.within),
                _mb(site.nbytes),
                f"{100 * site.nbytes / peak:.1f}" if peak else "",
            ]


def _first_profiles(observations: Sequence[Observation]) -> list[Observation]:
    """Return one profile of each process, of the two main versions."""
    first: dict[tuple[str, str], Observation] = {}
    for each in observations:
        if each.allocations is not None and each.version in (BASELINE, OPTIMIZED):
            first.setdefault((each.subject.label, each.version), each)
    return list(first.values())


def _table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int
) -> Table:
    return Table(title if rows else f"{title}: nothing", columns, rows, text_columns)


def _mb(nbytes: float | None) -> str:
    return "" if nbytes is None else f"{nbytes / 1e6:.1f}"
