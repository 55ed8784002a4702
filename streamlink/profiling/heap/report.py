"""The report of an analysis: one text, and one page that a person opens first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from streamlink.profiling.heap.comparison import Comparison, Verdict
from streamlink.profiling.heap.figures import BASELINE, OPTIMIZED, Figures, Measure
from streamlink.profiling.heap.findings import (
    Findings,
    amount,
    brief,
    largest_client,
    overhead,
    sentence,
)
from streamlink.profiling.heap.observed import Observation
from streamlink.profiling.heap.recommendations import recommendations
from streamlink.profiling.heap.summaries import Link
from streamlink.profiling.page import Links, Notes, Page, Picture, Table

__all__ = ["report_page", "report_text"]

_TITLE = "Where the memory goes"
_EMPTY = "nothing"
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
_ABOUT = {
    "experiment": ("experiment", "kind"),
    "clients": ("experiment", "server", "num_clients"),
    "rounds": ("experiment", "server", "num_rounds"),
    "carrier": ("experiment", "carrier"),
    "model": ("model_bytes",),
    "repeats": ("repeats",),
    "commit": ("commit",),
    "cores": ("machine", "cores"),
    "memory": ("machine", "memory_bytes"),
    "system": ("machine", "system"),
    "Python": ("machine", "python"),
}
"""What a line shows of the settings, and where that is."""
_SIZES = ("model", "memory")
_SMALL_SHARE = 0.03


def report_text(findings: Findings) -> str:
    """Return the report as text; regressions stand beside gains."""
    parts: list[tuple[str, Sequence[str]]] = [
        ("What is wrong with the files", findings.run.faults),
        *_verdicts(findings),
        ("Recommendations", recommendations(findings)),
        ("Two views of memory", [*findings.differences(), _WHY_THEY_DIFFER]),
        ("What memray costs (no conclusion about time is drawn from a run under memray)",
         list(map(overhead, findings.overheads))),
        ("The model", findings.digests()),
    ]  # fmt: skip
    lines = [_TITLE, _about(findings), "", *_text_table(_PEAK_COLUMNS, _peak_rows(findings))]
    for title, sentences in parts:
        lines += ["", title, *(f"- {each}" for each in sentences or [_EMPTY])]
    return "\n".join([*lines, ""])


_WHY_THEY_DIFFER = (
    "they count different things: resident memory has the program and its libraries, what was "
    "freed but not returned to the kernel, and only pages that were written; memray counts what "
    "was asked for"
)


def report_page(findings: Findings, pictures: Sequence[Picture], links: Sequence[Link]) -> Page:
    """Return the page: findings first, then pictures and tables, then links to the details."""
    by_name = {each.path.stem: each for each in pictures}
    shown = [by_name.pop(name) for name in ("comparison", "memory_over_time") if name in by_name]
    return Page(
        _TITLE,
        _about(findings),
        _headlines(findings),
        (
            *shown[:1],
            Notes("Recommendations", recommendations(findings) or [_EMPTY]),
            _table("Peaks, medians over the runs", _PEAK_COLUMNS, _main_rows(findings), 2),
            *shown[1:],
            *by_name.values(),
            *_versions(findings),
            _table("Against original", _COMPARED_COLUMNS, _compared_rows(findings), 3),
            _table("Who holds the peak", _SITE_COLUMNS, list(_site_rows(findings)), 4),
            _table(
                "What memray costs; no time of a run under memray is compared with anything else",
                _OVERHEAD_COLUMNS,
                list(map(_overhead, findings.overheads)),
                3,
            ),
            Links("Each profile", links),
            Links("All figures, in bytes and seconds", [("", _FILES)]),
        ),
    )


_FILES = [
    (name, name) for name in ("peaks.csv", "comparison.csv", "rounds.csv", "report.txt")
]  # fmt: skip


def _verdicts(findings: Findings) -> Iterator[tuple[str, Sequence[str]]]:
    yield (
        "What is higher or longer: regressions",
        [
            sentence(each)
            for is_variant in (False, True)
            for each in findings.with_verdict(Verdict.HIGHER, variants=is_variant)
        ],
    )
    yield (
        "What is lower or shorter: gains",
        [
            sentence(each)
            for is_variant in (False, True)
            for each in findings.with_verdict(Verdict.LOWER, variants=is_variant)
        ],
    )
    yield (
        "What shows no difference",
        [
            sentence(each)
            for is_variant in (False, True)
            for each in findings.with_verdict(Verdict.NONE, variants=is_variant)
        ],
    )


def _headlines(findings: Findings) -> list[str]:
    own = [each for each in findings.shown if each.version == OPTIMIZED]
    said = [
        f"{label}, {OPTIMIZED} against {BASELINE}: "
        f"{', '.join(brief(each) for each in own if each.subject.label == label)}"
        for label in dict.fromkeys(each.subject.label for each in own)
    ]
    if not findings.comparisons:
        said = [f"no version is compared: that needs figures of {BASELINE} and of another one"]
    worse = len(findings.with_verdict(Verdict.HIGHER, variants=True))
    if worse:
        said.append(
            f"{worse} figures of other versions are HIGHER or LONGER than {BASELINE}, below"
        )
    return [*findings.run.faults, *findings.digests(), *said]


def _main_rows(findings: Findings) -> list[list[str]]:
    """Return the rows of ``original`` and ``optimized``; of all, if those are not there."""
    own = [each for each in findings.figures if each.version in (BASELINE, OPTIMIZED)]
    return [_peak_row(findings, each) for each in own or findings.figures]


def _versions(findings: Findings) -> Iterator[Table]:
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


def _compared_rows(findings: Findings) -> list[list[str]]:
    own = [each for each in findings.shown if each.version == OPTIMIZED]
    return [_compared(each) for each in own or findings.shown]


def _peak_rows(findings: Findings) -> list[list[str]]:
    return [_peak_row(findings, each) for each in findings.figures]


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


def _about(findings: Findings) -> str:
    said = [
        f"{name} {_shown(value, name)}"
        for name, path in _ABOUT.items()
        if (value := _at(findings.run.settings, path)) not in (None, "")
    ]
    return f"{findings.run.folder.name}: {', '.join(said) or 'settings unknown'}"


def _at(facts: object, path: Sequence[str]) -> object:
    for key in path:
        facts = facts.get(key) if isinstance(facts, Mapping) else None
    return facts


def _shown(value: object, name: str) -> object:
    return amount(value) if isinstance(value, int) and name in _SIZES else value


def _table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int
) -> Table:
    return Table(title if rows else f"{title}: {_EMPTY}", columns, rows, text_columns)


def _text_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    table = [list(columns), *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        yield "  ".join(
            cell.ljust(width) if number < 2 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()


def _mb(nbytes: float | None) -> str:
    return "" if nbytes is None else f"{nbytes / 1e6:.1f}"
