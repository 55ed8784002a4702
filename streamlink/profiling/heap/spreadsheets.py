"""The CSV files of an analysis: every figure in full precision, bytes and seconds.

``comparison.csv`` has both values of each percentage, so that anybody can compute it again.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from streamlink.profiling.folder import write_text
from streamlink.profiling.heap.allocations import Site
from streamlink.profiling.heap.comparison import Comparison
from streamlink.profiling.heap.findings import Findings
from streamlink.profiling.heap.observation import Observation

__all__ = ["write_sites", "write_spreadsheets"]

_PEAKS = (
    *("carrier", "role", "process", "version", "repeat", "under_memray", "profile"),
    *("allocator_peak_bytes", "allocated_bytes", "allocations"),
    *("resident_base_bytes", "resident_peak_bytes", "resident_over_base_bytes"),
    *("model_bytes", "rounds", "garbage_collections", "is_compared", "fault"),
)
_COMPARISON = (
    *("carrier", "role", "process", "measure", "version", "runs", "value"),
    *("baseline", "baseline_runs", "baseline_value", "change_percent", "verdict"),
    *("values", "baseline_values"),
)
_ROUNDS = ("carrier", "role", "process", "version", "repeat", "under_memray", "round", "seconds")
_SITES = ("bytes", "allocations", "function", "file", "line", "within")


def write_spreadsheets(findings: Findings, output: Path) -> list[Path]:
    """Write ``peaks.csv``, ``comparison.csv`` and ``rounds.csv``; return their paths."""
    observations = findings.run.observations
    all_comparisons = (*findings.comparisons, *findings.overheads)
    return [
        _write(output / "peaks.csv", _PEAKS, map(_peak, observations)),
        _write(output / "comparison.csv", _COMPARISON, map(_compared, all_comparisons)),
        _write(output / "rounds.csv", _ROUNDS, _rounds(observations)),
    ]


def write_sites(path: Path, sites: Sequence[Site]) -> Path:
    """Write who held the peak of one profile."""
    rows = ((s.nbytes, s.allocations, s.function, s.file, s.line, s.within) for s in sites)
    return _write(path, _SITES, rows)


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    write_text(path, text.getvalue(), overwrite=True)
    return path


def _peak(each: Observation) -> Sequence[object]:
    record, allocations = each.record, each.allocations
    faults = (record.error if record else None, allocations.fault if allocations else None)
    return (
        *_who(each),
        each.profile.name if each.profile else "",
        *(
            ("", "", "")
            if allocations is None
            else (
                allocations.peak_bytes,
                _or_empty(allocations.allocated_bytes),
                _or_empty(allocations.allocations),
            )
        ),
        *(
            ("", "", "", "", "", "")
            if record is None
            else (
                record.base_bytes,
                record.peak_bytes,
                record.over_base_bytes,
                record.model_bytes,
                len(record.rounds),
                _or_empty(record.collections),
            )
        ),
        each.is_whole and (allocations is None or allocations.fault is None),
        "; ".join(fault for fault in faults if fault),
    )


def _compared(each: Comparison) -> Sequence[object]:
    subject = each.subject
    return (
        *(subject.carrier, subject.role, subject.name, each.measure.value),
        *(each.version, len(each.values), each.value),
        *(each.baseline, len(each.baseline_values), each.baseline_value),
        *(each.percent, each.verdict.value),
        *(" ".join(map(repr, each.values)), " ".join(map(repr, each.baseline_values))),
    )


def _rounds(observations: Iterable[Observation]) -> Iterator[Sequence[object]]:
    for each in observations:
        for one in each.record.rounds if each.record is not None else ():
            yield (*_who(each), one.round, one.seconds)


def _who(each: Observation) -> tuple[object, ...]:
    subject = each.subject
    return (
        *(subject.carrier, subject.role, subject.name),
        *(each.version, each.repeat, each.is_profiled),
    )


def _or_empty(value: int | None) -> object:
    return "" if value is None else value
