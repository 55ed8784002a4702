"""The report of an analysis: one text, and one page that a person opens first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from streamlink.profiling.heap.comparison import Verdict
from streamlink.profiling.heap.figures import BASELINE, OPTIMIZED
from streamlink.profiling.heap.findings import Findings, amount, brief, overhead, sentence
from streamlink.profiling.heap.recommendations import recommendations
from streamlink.profiling.heap.summaries import Link
from streamlink.profiling.heap.tables import (
    against_original,
    all_peaks,
    costs,
    peaks,
    sites,
    versions,
)
from streamlink.profiling.page import Links, Notes, Page, Picture, Table

__all__ = ["report_page", "report_text"]

_TITLE = "Where the memory goes"
_EMPTY = "nothing"
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


def report_text(findings: Findings) -> str:
    """Return the report as text; regressions stand beside gains."""
    parts: list[tuple[str, Sequence[str]]] = [
        ("What is wrong with the files", findings.run.faults),
        *_verdicts(findings),
        ("Recommendations", recommendations(findings)),
        ("Two views of memory", [*findings.differences(), _WHY_THEY_DIFFER]),
        ("Garbage collection, without memray", findings.collections()),
        ("What memray costs (no conclusion about time is drawn from a run under memray)",
         list(map(overhead, findings.overheads))),
        ("The model", findings.digests()),
    ]  # fmt: skip
    lines = [_TITLE, _about(findings), "", *_text_table(all_peaks(findings))]
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
            peaks(findings),
            *shown[1:],
            *by_name.values(),
            *versions(findings),
            against_original(findings),
            sites(findings),
            Notes("Garbage collection, without memray", findings.collections() or [_EMPTY]),
            costs(findings),
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


def _text_table(table: Table) -> Iterator[str]:
    lines = [list(table.columns), *table.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(
            cell.ljust(width) if number < table.text_columns else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
