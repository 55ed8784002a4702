"""streamlink on long lines beside the best that raw sockets reach there, run in turn.

The use of raw sockets that is run is the one that was fastest in the committed reference
(``reference.py``), so that it was chosen before the result is known. streamlink runs with its
default settings. The last line is a relay: at its rate a forwarder in Python would be measured.
``results/longline.jsonl`` keeps each pair of runs, so that a series can be interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.longline import model, raw
from benchmarks.longline.bottleneck import Line
from benchmarks.longline.kept import WITH_STREAMLINK, Kept
from benchmarks.longline.meter import Span
from benchmarks.longline.namespace import why_not
from benchmarks.longline.rates import steady_rate
from benchmarks.longline.reference import LINES, REPORT, SECONDS, best_raw
from benchmarks.longline.roads import EmulatedRoad, RelayedRoad, Road
from benchmarks.stats import MIN_PAIRS, Comparison, Result, compare, interleave, summarize
from benchmarks.tables import report_progress

__all__ = ["CASES", "Case", "Found", "possible", "result", "run"]

MB = 1e6
RUNS = REPORT.with_name("longline.jsonl")
COLUMNS = ("line", "raw sockets", "raw, MB/s", "streamlink, MB/s", "streamlink is", "at least", "")


@dataclass(frozen=True)
class Case:
    """A line, and what share of the raw rate streamlink should reach there.

    Attributes:
        is_relayed: whether a relay is the line; otherwise it is emulated, with real TCP.
        at_least: of the raw rate; None judges nothing.
        skipped: why it cannot run here, as a sentence, or ``""``.
    """

    line: Line
    at_least: float | None
    is_relayed: bool = False
    skipped: str = ""

    def __str__(self) -> str:
        return f"{self.line}{', relay' * self.is_relayed}"

    def road(self) -> Road:
        """Return a new road of this line, not yet entered."""
        return RelayedRoad(self.line) if self.is_relayed else EmulatedRoad(self.line)


@dataclass(frozen=True)
class Found:
    """What was measured in one case.

    Attributes:
        use: of the line by raw sockets.
        rates: of runs taken in turn (bytes per second).
        unread: packets that were dropped because the forwarder was too late, in all runs.
    """

    use: raw.Raw
    rates: dict[str, list[float]]
    unread: int = 0

    @property
    def comparison(self) -> Comparison:
        """streamlink's rates over the raw ones, pair by pair."""
        return compare("streamlink", self.rates["streamlink"], "raw", self.rates["raw"])

    def is_met(self, case: Case) -> bool | None:
        """Whether the median reaches what is asked for; None: too few pairs, or nothing is."""
        if case.at_least is None or len(self.rates["raw"]) < MIN_PAIRS:
            return None
        return self.comparison.summary.median >= case.at_least


CASES = (
    Case(LINES[0], 0.95),
    Case(LINES[1], 0.95),
    Case(LINES[2], 0.85),
    Case(Line(rate=1e9, round_trip=0.2), 0.96, is_relayed=True),
)


def run(quick: bool, seconds: float = SECONDS) -> Result:
    """Measure all lines (quick: once for a second); a short trial makes one pair and judges none.

    Raises:
        LookupError: there is no reference for a line.
    """
    span = Span.of(1.0 if quick else seconds)
    pairs = MIN_PAIRS if span.seconds >= SECONDS else 1
    if reason := why_not():
        report_progress(reason)
    cases = [possible(case, reason) for case in CASES]
    uses = {case: _use_of(case, is_trial=pairs == 1) for case in cases if not case.skipped}
    kept = Kept(None if pairs == 1 else RUNS, WITH_STREAMLINK)
    done = sum(min(pairs, len(kept.find(_facts_of(case, use, span)))) for case, use in uses.items())
    total = (len(uses) * pairs - done) * 2
    report_progress(
        f"{total} runs of {span.end:.0f} s: about {total * (span.end + 5) / 60:.0f} minutes"
    )
    found = {case: _measured(case, use, span, pairs, kept) for case, use in uses.items()}
    return result(cases, found, span)


def possible(case: Case, reason: str) -> Case:
    """Return what can be run of ``case`` where no line can be emulated, for that ``reason``."""
    if case.is_relayed or not reason:
        return case
    if case.line.loss:
        return Case(case.line, None, skipped=reason)
    return Case(case.line, None, is_relayed=True)


def result(cases: list[Case], found: dict[Case, Found], span: Span) -> Result:
    """Return what may be said of the lines: met if every line that is judged is."""
    verdicts = [found[case].is_met(case) for case in cases if case in found]
    judged = [verdict for verdict in verdicts if verdict is not None]
    return Result(
        name="longline",
        claim="streamlink with default settings carries nearly what the best raw sockets carry: "
        f"payload over {span.seconds:g} s, {span.warm_up:.2g} s after the first byte",
        columns=COLUMNS,
        rows=tuple(_row(case, found.get(case)) for case in cases),
        facts={
            "span": span.as_json(),
            "lines": [_facts(case, found.get(case)) for case in cases],
        },
        met=all(judged) if judged and len(judged) == len(CASES) else None,
    )


def _use_of(case: Case, *, is_trial: bool) -> raw.Raw:
    if case.is_relayed:
        return raw.Raw(1)  # its TCP ends at the relay, on the loopback
    try:
        return best_raw(case.line)
    except LookupError:
        if is_trial:
            return raw.Raw(8)
        raise


def _facts_of(case: Case, use: raw.Raw, span: Span) -> dict[str, Any]:
    return {"line": case.line.as_json(), "is_relayed": case.is_relayed,
            "raw": use.as_json(), "span": span.as_json()}  # fmt: skip


def _measured(case: Case, use: raw.Raw, span: Span, pairs: int, kept: Kept) -> Found:
    facts = _facts_of(case, use, span)
    found = kept.find(facts)[-pairs:]
    while len(found) < pairs:
        found.append(_pair(case, use, span))
        kept.add(facts, found[-1])
    rates = {name: [each[name] for each in found] for name in ("raw", "streamlink")}
    return Found(use, rates, sum(each["unread"] for each in found))


def _pair(case: Case, use: raw.Raw, span: Span) -> dict[str, Any]:
    """Run both once, in turn."""
    unread: list[int] = []

    def of(name: str, measure: Callable[[], raw.Measured]) -> Callable[[], float]:
        def once() -> float:
            seen = measure()
            unread.append(seen.unread)
            rate = steady_rate(seen.marks, span)
            report_progress(f"{case}: {name}: {rate / MB:.1f} MB/s")
            return rate

        return once

    ways = {
        "raw": of("raw", lambda: raw.measure(use, case.road(), span)),
        "streamlink": of("streamlink", lambda: model.measure(case.line, case.road(), span)),
    }
    rates = interleave(ways, pairs=1)
    return {**{name: rate for name, [rate] in rates.items()}, "unread": sum(unread)}


def _row(case: Case, found: Found | None) -> tuple[str, ...]:
    if found is None:
        return (str(case), "not measured: a relay loses nothing", "", "", "", "", "")
    words = {True: "met", False: "NOT met", None: "not judged"}
    rates = (f"{summarize(found.rates[name]).median / MB:.1f}" for name in ("raw", "streamlink"))
    at_least = "" if case.at_least is None else f"{case.at_least:.2f}"
    verdict = words[found.is_met(case)] + (f", {found.unread} unread" if found.unread else "")
    return (str(case), str(found.use), *rates, str(found.comparison), at_least, verdict)


def _facts(case: Case, found: Found | None) -> dict[str, Any]:
    return {
        "line": case.line.as_json(),
        "is_relayed": case.is_relayed,
        "at_least": case.at_least,
        "skipped": case.skipped,
        "raw": None if found is None else found.use.as_json(),
        "bytes_per_second": {} if found is None else found.rates,
        "unread": None if found is None else found.unread,
        "met": None if found is None else found.is_met(case),
    }
