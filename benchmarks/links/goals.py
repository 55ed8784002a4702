"""The numbers to reach, what the runs reached of them, and by how much they miss.

Only what the plans measure is here; ``numbers`` has those of the two-site job and of the programs,
too. A figure is the median over the runs, each beside the run of its reference in the same turn;
memory is the highest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from benchmarks.integrations.kept import Committed
from benchmarks.links.cases import MIB, Case
from benchmarks.links.failures import kind_of
from benchmarks.links.lines import LOOPBACK, parse_line
from benchmarks.links.payload import Payload
from benchmarks.links.plans import (
    LARGE_SIZES,
    LINK_LOADS,
    OURS,
    SHAPES,
    SLOW,
    What,
)
from benchmarks.links.sizes import WITHIN, large_of, spread
from benchmarks.links.tables import Row, share_of

__all__ = ["GOAL_COLUMNS", "MORE_MEMORY_BYTES", "NOT_MEASURED", "Goal", "commits_of", "goal_rows",
           "goals_of"]  # fmt: skip

GOAL_COLUMNS = ("number to reach", "where", "to reach", "reached", "verdict", "commit", "file")
NOT_MEASURED = "not measured"
GB = 10**9

SHARES = {"100Mbit": 0.98, "1Gbit": 0.96, SLOW: 0.97}
"""Of the raw socket's rate, by the rate of the line, whatever its delay."""
MOST_WIRE = 1.02
MORE_MEMORY_BYTES = 64 * MIB
PEERS_MIB = 1024
TIMES = {
    "NVFlare download service": 15.0,
    "NVFlare byte stream, gRPC": 3.0,
    "NVFlare byte stream, TCP": 1.3,
}
"""How many times as long as streamlink each takes, on loopback."""


@dataclass(frozen=True)
class Goal:
    """One number to reach.

    Attributes:
        what: is measured. where: with which model, over which line.
        bound: what it should be at least; at most, if ``is_most``. None: it is only reported.
        reached: the same, as measured; None: it was not.
        unit: of both, as text behind them.
        why: what is missing where it was not measured.
        commit: of the runs behind it. file: that has them.
    """

    what: str
    where: str
    bound: float | None
    reached: float | None
    is_most: bool = False
    unit: str = ""
    why: str = NOT_MEASURED
    commit: str = ""
    file: str = ""

    @property
    def is_met(self) -> bool | None:
        """Whether the number is reached; None: it was not measured, or is only reported."""
        if self.reached is None or self.bound is None:
            return None
        return self.missed_by == 0.0

    @property
    def missed_by(self) -> float:
        """What is missing, as a share of the bound (of one, if that is 0); 0: nothing."""
        if self.reached is None or self.bound is None:
            return 0.0
        over = self.reached - self.bound if self.is_most else self.bound - self.reached
        return max(0.0, over / (self.bound or 1.0))

    def cells(self) -> tuple[str, ...]:
        """Return it as a row of text."""
        head, tail = (self.what, self.where, self._bound()), (self.commit, self.file)
        if self.reached is None:
            return (*head, "", self.why, *tail)
        words = {True: "met", None: "reported", False: f"missed by {self.missed_by:.2%}"}
        return (*head, f"{self.reached:.4g}{self.unit}", words[self.is_met], *tail)

    def _bound(self) -> str:
        if self.bound is None:
            return "reported"
        return f"{'at most' if self.is_most else 'at least'} {self.bound:.4g}{self.unit}"

    def as_json(self) -> dict[str, Any]:
        """Return the fields and the verdict as a JSON object."""
        return {**asdict(self), "is_met": self.is_met, "missed_by": self.missed_by}


def goals_of(what: What, rows: Sequence[Row]) -> list[Goal]:
    """Return each number that a plan measures, with what the rows say of it."""
    if what is What.peers:
        return [*_times(rows), *_memory(rows)]
    return [*_shares(rows), *_memory(rows), *_constant(rows)]


def goal_rows(goals: Iterable[Goal]) -> list[tuple[str, ...]]:
    """Return them as rows of text."""
    return [goal.cells() for goal in goals]


def _shares(rows: Sequence[Row]) -> list[Goal]:
    found: list[Goal] = []
    for text, mebibytes in LINK_LOADS:
        case = Case(OURS, parse_line(text), Payload(mebibytes * MIB, 64))
        row, bound = _row(rows, case), SHARES[text.partition(",")[0]]
        where, share = f"{case.line}, {case.payload}", row.share if row else None
        found.append(Goal("rate ÷ raw socket's", where, bound, share, **_about(row)))
        if text == SLOW:
            wire = _wire(row)
            found.append(Goal("wire ÷ payload", where, MOST_WIRE, wire, is_most=True,
                              **_about(row)))  # fmt: skip
    return found


def _wire(row: Row | None) -> float | None:
    """Return the median of bytes on the wire over those of the model; None: not counted."""
    wire = [run.wire_bytes for run in row.good if run.wire_bytes is not None] if row else []
    return median(wire) / row.case.payload.size_bytes if row and wire else None


def _memory(rows: Sequence[Row]) -> list[Goal]:
    """Return the case that is worst, of all in which streamlink receives a model into memory."""
    what, bound = "receiver's peak over base", MORE_MEMORY_BYTES / MIB
    received = [row for row in rows if row.good and row.case.peer.startswith(OURS)
                and row.case.payload.kind != "computed"]  # fmt: skip
    if not received:
        any_model = f"model + {bound:g} MiB, any model"
        return [Goal(what, any_model, bound, None, is_most=True, unit=" MiB")]
    worst = max(received, key=_above)
    size = worst.case.payload.size_bytes / MIB
    where = f"the worst of {len(received)}: {worst.case}"
    return [Goal(what, where, size + bound, size + _above(worst), is_most=True, unit=" MiB",
                 commit=commits_of(worst.runs))]  # fmt: skip


def _above(row: Row) -> float:
    """Return the peak over base and model (MiB)."""
    peak = max(run.sides["receive"].peak_over_base_bytes for run in row.good)
    return (peak - row.case.payload.size_bytes) / MIB


def _constant(rows: Sequence[Row]) -> list[Goal]:
    sizes = {row.case.payload.size_bytes // GB for row in large_of(rows)}
    missing = [f"{size}" for size in LARGE_SIZES if size not in sizes]
    why = f"{NOT_MEASURED}: {', '.join(missing)} GB"
    reached = None if missing else spread(rows)
    percent = None if reached is None else reached * 100
    where = f"loopback, computed models of {', '.join(map(str, LARGE_SIZES))} GB"
    return [Goal("seconds per GB: most over least", where, WITHIN * 100, percent,
                 is_most=True, unit=" %", why=why,
                 commit=commits_of(run for row in large_of(rows) for run in row.runs))]  # fmt: skip


def _times(rows: Sequence[Row]) -> list[Goal]:
    found: list[Goal] = []
    for name, bound in TIMES.items():
        for arrays in SHAPES:
            payload = Payload(PEERS_MIB * MIB, arrays)
            theirs, ours = (_row(rows, Case(peer, LOOPBACK, payload)) for peer in (name, OURS))
            times = share_of(ours.runs, theirs.runs) if ours and theirs else None
            found.append(Goal(f"time of {name} ÷ ours", f"loopback, {payload}", bound, times,
                              **_about(ours, theirs)))  # fmt: skip
    return found


def _row(rows: Sequence[Row], case: Case) -> Row | None:
    return next((row for row in rows if row.case == case), None)


def commits_of(runs: Iterable[Committed]) -> str:
    """Return the commits of runs as text."""
    return ", ".join(sorted({run.commit for run in runs}))


def _about(*rows: Row | None) -> dict[str, Any]:
    """Return the commits of these rows, and why they have no figure."""
    commit = commits_of(run for row in rows if row for run in row.runs)
    return {"why": _why(*rows), "commit": commit}


def _why(*rows: Row | None) -> str:
    missing = [row for row in rows if row and not row.good]
    words = ", ".join(f"{row.case.peer} {kind_of(row.error)}" for row in missing)
    return f"{NOT_MEASURED}: {words}" if missing else NOT_MEASURED
