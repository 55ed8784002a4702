"""The tables of a series: one row for each case, with what its line itself was found to be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.links.cases import MIB, Accuracy, Case, Run
from benchmarks.links.failures import kind_of, sentence_of, standing
from benchmarks.links.lines import Line
from benchmarks.links.places import COUNTED
from benchmarks.links.plans import OURS, RAW

__all__ = ["COLUMNS", "FOUND_COLUMNS", "LINE_COLUMNS", "PEER_COLUMNS", "Row", "failed",
           "found_row", "line_rows", "peer_rows", "rows_of", "share_of"]  # fmt: skip

COLUMNS = (
    "peer",
    "line",
    "model",
    "runs",
    "seconds",
    "MB/s",
    "of raw socket",
    "of the line",
    "wire ÷ payload",
    "sender over base, MiB",
    "receiver over base, MiB",
    "CPU s, sender",
    "CPU s, receiver",
    "start, s",
)
FOUND_COLUMNS = (
    "line", "made of", "asked Mbit/s", "found Mbit/s, up", "down", "asked ms", "found ms", "± ms",
    "asked loss", "found loss",
)  # fmt: skip
LINE_COLUMNS = (*FOUND_COLUMNS, "congestion control", "bytes counted")
PEER_COLUMNS = ("peer", "version")


@dataclass(frozen=True)
class Row:
    """All runs of one case.

    Attributes:
        raw: those of the raw socket with the same model and line.
    """

    case: Case
    runs: tuple[Run, ...]
    raw: tuple[Run, ...] = ()

    @property
    def good(self) -> list[Run]:
        """Those that ended, and whose model arrived as it was."""
        return [run for run in self.runs if not run.error]

    @property
    def error(self) -> str:
        """The reason of the first failure; empty: none."""
        return next((run.error for run in self.runs if run.error), "")

    @property
    def rate(self) -> float | None:
        """Median payload per second (bytes/s); None: no run is good."""
        rates = [run.rate for run in self.good]
        return median(rates) if rates else None

    @property
    def share(self) -> float | None:
        """Median of the rate over that of the raw socket; None: one of both is missing."""
        return share_of(self.runs, self.raw)

    def cells(self) -> tuple[str, ...]:
        """Return the row as text."""
        payload = self.case.payload
        model = str(payload)
        head = (self.case.peer, self.case.line.name, model, str(len(self.good)))
        if not self.good:
            return (*head, kind_of(self.error), *[""] * (len(COLUMNS) - len(head) - 1))
        return (*head, *self._figures())

    def _figures(self) -> tuple[str, ...]:
        good, nbytes = self.good, self.case.payload.size_bytes
        seconds = sorted(run.seconds for run in good)
        spread = f"{median(seconds):.2f} ({seconds[0]:.2f}..{seconds[-1]:.2f})"
        wire = [run.wire_bytes / nbytes for run in good if run.wire_bytes is not None]
        rate, limit = self.rate or 0.0, self.case.line.rate
        return (
            spread,
            f"{rate / 1e6:.4g}",
            "" if self.share is None else f"{self.share:.3f}",
            f"{rate * 8 / limit:.3f}" if limit else "",
            f"{median(wire):.3f}" if wire else "not counted",
            *(f"{_peak(good, role) / MIB:.0f}" for role in ("send", "receive")),
            *(f"{_cpu(good, role):.2f}" for role in ("send", "receive")),
            f"{median(run.startup_seconds for run in good):.1f}",
        )


def rows_of(runs: Iterable[Run]) -> list[Row]:
    """Return a row for each case, grouped by line and model, in the order of their first runs.

    A failure that a later run has made good is in none of them; see ``failures``.
    """
    found: dict[Case, list[Run]] = {}
    for run in standing(list(runs)):
        found.setdefault(run.case, []).append(run)
    raws = {(case.line, case.payload): tuple(each) for case, each in found.items()
            if case.peer == RAW}  # fmt: skip
    lines = list(dict.fromkeys(case.line for case in found))
    models = list(dict.fromkeys(case.payload for case in found))
    rows = [Row(case, tuple(each), raws.get((case.line, case.payload), ()))
            for case, each in found.items()]  # fmt: skip

    def place(row: Row) -> tuple[int, int]:
        return lines.index(row.case.line), models.index(row.case.payload)

    return sorted(rows, key=place)


def failed(rows: Iterable[Row]) -> list[str]:
    """Return a sentence for each row that has a failure, or lacks something."""
    return [sentence_of(row.case, row.error) for row in rows if row.error]


def share_of(runs: Sequence[Run], raw: Sequence[Run]) -> float | None:
    """Return the median of the rates over the raw socket's: each over the one of its turn.

    A run whose turn has no other is left out: what a machine does changes within a series.
    """
    ours, others = _by_turn(runs), _by_turn(raw)
    pairs = [ours[turn].rate / others[turn].rate for turn in ours.keys() & others.keys()]
    return median(pairs) if pairs else None


def _by_turn(runs: Sequence[Run]) -> dict[int, Run]:
    """Return the good ones; where turns were not kept, by their order."""
    return {run.turn or at: run for at, run in enumerate(runs, 1) if not run.error}


def line_rows(runs: Iterable[Run]) -> list[tuple[str, ...]]:
    """Return what each line was found to be, the last time that it was measured."""
    found: dict[Line, list[Run]] = {}
    for run in runs:
        found.setdefault(run.case.line, []).append(run)
    return [_line_row(line, each) for line, each in found.items()]


def _line_row(line: Line, runs: Sequence[Run]) -> tuple[str, ...]:
    controls = dict.fromkeys(run.line.get("congestion_control", "") for run in runs)
    found = found_row(line, runs[-1].accuracy)
    return (*found, ", ".join(filter(None, controls)), COUNTED[line.kind])


def found_row(line: Line, found: Accuracy | None) -> tuple[str, ...]:
    """Return the cells of ``FOUND_COLUMNS``: what was asked of a line, and what it was."""
    rates = dict.fromkeys(f"{way.rate / 1e6:g}" if way.rate else "unlimited" for way in line.ways)
    asked = " up, ".join(rates) + (" down" if len(rates) > 1 else "")
    head, trip = (line.name, line.kind, asked), f"{line.round_trip * 1e3:g}"
    if found is None:
        return (*head, "not measured", "", trip, "", "", _asked_losses(line), "")
    rates_found = [f"{rate / 1e6:.4g}" if rate else "not measured"
                   for rate in (found.rate, found.down_rate)]  # fmt: skip
    trips = (trip, f"{found.round_trip * 1e3:.2f}", f"{found.spread * 1e3:.2f}")
    lost = [each for each in (found.lost, found.down_lost) if each is not None]
    return (*head, *rates_found, *trips, _asked_losses(line), _both_ways(lost))


def _asked_losses(line: Line) -> str:
    losses = [way.loss for way in line.ways]
    return _both_ways(losses) if any(losses) else "none"


def _both_ways(losses: Sequence[float]) -> str:
    """Return the loss rates as text: up and down, or one value if they are equal."""
    texts = dict.fromkeys(f"{each:.3%}" for each in losses)
    return " up, ".join(texts) + (" down" if len(texts) > 1 else "")


def peer_rows(runs: Iterable[Run]) -> list[tuple[str, str]]:
    """Return which program each peer was; where runs differ, all of them."""
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        found.setdefault(run.case.peer, {})[_version(run)] = None
    return [(peer, ", ".join(filter(None, each)) or "not known") for peer, each in found.items()]


def _version(run: Run) -> str:
    if run.case.peer == RAW:
        return f"Linux {run.machine['kernel']}" if "kernel" in run.machine else ""
    if run.case.peer.startswith(OURS):
        return f"commit {run.commit}"
    return str(run.facts.get("version", ""))


def _peak(runs: Sequence[Run], role: str) -> int:
    return max(run.sides[role].peak_over_base_bytes for run in runs)


def _cpu(runs: Sequence[Run], role: str) -> float:
    return median(run.sides[role].cpu_seconds for run in runs)
