"""Raw sockets on long lines: the rates that streamlink is compared with, chosen before it runs.

Each number of connections with each congestion control that the kernel has, once, on a line of its
own. The best of a line counts. ``results/rawline.jsonl`` keeps each run, so that a series can be
interrupted; ``results/rawline.json`` is the report, and ``best_raw`` reads there what ``beside.py``
has to run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from benchmarks.longline.bottleneck import Line
from benchmarks.longline.kept import LINES_ONLY, Kept
from benchmarks.longline.meter import Span
from benchmarks.longline.namespace import why_not
from benchmarks.longline.rates import rates_by_second, steady_rate
from benchmarks.longline.raw import Raw, measure
from benchmarks.longline.roads import EmulatedRoad, congestion_controls
from benchmarks.processes import WorkerFailed
from benchmarks.stats import Result, Summary
from benchmarks.tables import report_progress

__all__ = ["CONNECTIONS", "LINES", "REPORT", "Ran", "best_of", "best_raw", "rows", "run"]

LINES = (
    Line(rate=200e6, round_trip=0.2),
    Line(rate=200e6, round_trip=0.1, loss=0.001),
    Line(rate=200e6, round_trip=0.1, loss=0.01),
)
CONNECTIONS = (1, 2, 4, 8, 16)
REPORT = Path(__file__).resolve().parents[1] / "results" / "rawline.json"
RUNS = REPORT.with_suffix(".jsonl")
COMMAND = "python -m benchmarks rawline --json benchmarks/results/rawline.json"
SECONDS = 60.0
MB = 1e6


@dataclass(frozen=True)
class Ran:
    """One run: how the line was used, and what arrived; or why the run failed."""

    raw: Raw
    bytes_per_second: float = 0.0
    by_second: Summary | None = None
    unread: int = 0
    road: dict[str, Any] | None = None
    failure: str = ""

    def __str__(self) -> str:
        if self.by_second is None:
            return "failed"
        low, high = self.by_second.low / MB, self.by_second.high / MB
        words = f"{self.bytes_per_second / MB:.1f} ({low:.1f}..{high:.1f})"
        return words + (f", {self.unread} unread" if self.unread else "")

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> Self:
        """Return a run that was kept."""
        use = Raw(facts["connections"], facts["congestion"])
        seen = facts["by_second"]
        return cls(
            use,
            facts["bytes_per_second"],
            None if seen is None else Summary(facts["parts"], seen[1], seen[0], seen[2]),
            facts["unread"],
            facts["road"],
            facts["failure"],
        )

    def as_json(self) -> dict[str, Any]:
        """Return the run as a JSON object."""
        seen = self.by_second
        return {
            **self.raw.as_json(),
            "bytes_per_second": self.bytes_per_second,
            "by_second": None if seen is None else [seen.low, seen.median, seen.high],
            "parts": None if seen is None else seen.count,
            "unread": self.unread,
            "road": self.road,
            "failure": self.failure,
        }


def run(quick: bool, seconds: float = SECONDS) -> Result:
    """Measure every use of every line (quick: two uses of one line, for a second)."""
    if reason := why_not():
        return _result(Span.of(seconds), {}, skipped=reason)
    span = Span.of(1.0 if quick else seconds)
    lines = LINES[:1] if quick else LINES
    uses = [Raw(1), Raw(8)] if quick else _every_use()
    kept = Kept(None if quick or seconds < SECONDS else RUNS, LINES_ONLY)
    return _result(span, _measured(lines, uses, span, kept, report_progress))


def best_of(runs: Iterable[Ran]) -> Ran:
    """Return the fastest run."""
    return max(runs, key=lambda ran: ran.bytes_per_second)


def best_raw(line: Line, report: Path = REPORT) -> Raw:
    """Return which use of a line was the fastest, as the committed report has it.

    Raises:
        LookupError: there is no report, or the line is not in it.
    """
    if not report.exists():
        raise LookupError(f"{report} is missing: the reference is measured first, by `{COMMAND}`")
    found = json.loads(report.read_text(encoding="utf-8"))["results"]["rawline"]["lines"]
    for entry in found:
        if Line(**entry["line"]) == line:
            return Raw(**entry["best"])
    raise LookupError(f"{report} has no line of {line}; measure it by `{COMMAND}`")


def rows(found: dict[Line, list[Ran]]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return headings and lines of the table: a column for each congestion control."""
    controls = list(dict.fromkeys(ran.raw.congestion for runs in found.values() for ran in runs))
    columns = ("line", "connections", *(f"{name or 'default'}, MB/s" for name in controls))
    table = []
    for line, runs in found.items():
        best = best_of(runs)
        for connections in dict.fromkeys(ran.raw.connections for ran in runs):
            of = {ran.raw.congestion: ran for ran in runs if ran.raw.connections == connections}
            cells = [f"{of[name]}{' best' * (of[name] is best)}" for name in controls]
            table.append((str(line), str(connections), *cells))
    return columns, tuple(table)


def _every_use() -> list[Raw]:
    return [Raw(count, name) for count in CONNECTIONS for name in congestion_controls()]


def _measured(
    lines: Sequence[Line],
    uses: Sequence[Raw],
    span: Span,
    kept: Kept,
    say: Callable[[str], object],
) -> dict[Line, list[Ran]]:
    cases = [(line, raw) for line in lines for raw in uses]
    left = sum(not kept.find(_case(line, raw, span)) for line, raw in cases)
    say(f"{left} runs of {span.end:.0f} s: about {left * (span.end + 3) / 60:.0f} minutes")
    found: dict[Line, list[Ran]] = {}
    for number, (line, raw) in enumerate(cases, start=1):
        case = _case(line, raw, span)
        if earlier := kept.find(case):
            ran = Ran.from_json(earlier[-1])
        else:
            ran = _once(line, raw, span)
            if not ran.failure:  # else it is tried again next time
                kept.add(case, ran.as_json())
        found.setdefault(line, []).append(ran)
        say(f"{number} of {len(cases)}: {line}: {raw}: {ran.failure or f'{ran}, MB/s'}")
    return found


def _case(line: Line, raw: Raw, span: Span) -> dict[str, Any]:
    return {"line": line.as_json(), "raw": raw.as_json(), "span": span.as_json()}


def _once(line: Line, raw: Raw, span: Span) -> Ran:
    try:
        seen = measure(raw, EmulatedRoad(line), span)
        rate, by_second = steady_rate(seen.marks, span), rates_by_second(seen.marks, span)
    except (WorkerFailed, ValueError) as error:  # one bad run does not cost the hour's others
        return Ran(raw, failure=str(error))
    return Ran(raw, rate, by_second, seen.unread, seen.road)


def _result(span: Span, found: dict[Line, list[Ran]], skipped: str = "") -> Result:
    columns, table = rows(found) if found else (("line",), ((f"not measured: {skipped}",),))
    return Result(
        name="rawline",
        claim="none; what raw sockets carry over long lines with real TCP: payload over "
        f"{span.seconds:g} s, {span.warm_up:.2g} s after the first byte (p10..p90 of its parts)",
        columns=columns,
        rows=table,
        facts={
            "span": span.as_json(),
            "lines": [
                {
                    "line": line.as_json(),
                    "runs": [ran.as_json() for ran in runs],
                    "best": best_of(runs).raw.as_json(),
                }
                for line, runs in found.items()
            ],
            "skipped": skipped,
        },
    )
